import { begun, noted, perSecond, rated } from "/ui/rate.js";
import { equal } from "./equal.js";

export function rates() {
  let c = begun(1000);
  equal([perSecond(undefined, 9000), perSecond(c, 2000), perSecond(c, 5000)], [null, null, 0]);
  for (const at of [2000, 2100, 2999, 5000]) c = noted(c, at);
  equal(c.seconds, [{ at: 2000, n: 3 }, { at: 5000, n: 1 }]);
  equal([perSecond(c, 5000), perSecond(c, 11000), perSecond(c, 23000)], [1, 0.4, 0.05]);
  equal(perSecond(c, 60000), 0);
  equal(noted(c, 60000).seconds, [{ at: 60000, n: 1 }]);
}

export function words() {
  equal([null, 0, 0.25, 12.4].map(rated), ["–", "0", "0.3", "12"]);
}
