import { parse, to } from "/ui/route.js";
import { equal } from "./equal.js";

export function bothWays() {
  for (const [path, query] of [[["instances"], {}], [["queues", "m1.small"], { marker: "a b&c" }], [["x/y", "<img>"], {}]]) {
    equal(parse(to(path, query)), { path, query });
  }
}

export function odd() {
  equal(parse(""), { path: [], query: {} });
  equal(parse("#/a%zz"), { path: ["a%zz"], query: {} });
  equal(to(["instances"], { state: "", host: undefined, marker: null, ref: "a" }), "#/instances?ref=a");
}
