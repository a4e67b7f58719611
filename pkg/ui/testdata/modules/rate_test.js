import { counter, noted, perSecond, rated } from "/ui/rate.js";
import { equal } from "./equal.js";

const page = `# HELP berth_api_boots_total Boots.
# TYPE berth_api_boots_total counter
berth_api_boots_total{boot="new"} 12
berth_api_boots_total{boot="repeated"} 3
berth_api_boots_total_more{boot="new"} 100
berth_api_kafka_silent_seconds{what="publishing"} 1.5e+01
plain 7
`;

export function counters() {
  equal(counter(page, "berth_api_boots_total", 'boot="new"'), 12);
  equal(counter(page, "berth_api_boots_total"), 15);
  equal(counter(page, "berth_api_kafka_silent_seconds"), 15);
  equal(counter(page, "plain"), 7);
  equal(counter(page, "none"), null);
}

export function rates() {
  let s = [];
  equal(perSecond([]), null);
  for (const [value, at] of [[10, 0], [10, 2000], [30, 4000]]) s = noted(s, value, at);
  equal(perSecond(s), 5);
  equal(perSecond(s, 2000), 10);
  equal(noted(s, 2, 6000), [{ value: 2, at: 6000 }]); // the node began again
  equal(noted(s, null, 6000), []);
  equal(noted(s, 40, 6000, 2).length, 2);
  equal([null, 0, 0.25, 12.4].map(rated), ["–", "0", "0.3", "12"]);
}
