import { rated } from "/ui/rate.js";
import { columns, sampled, told } from "/ui/series.js";
import { equal } from "./equal.js";

export function keepsTenMinutes() {
  let s = [];
  for (let at = 0; at <= 660000; at += 30000) s = sampled(s, at, { n: at / 1000 });
  equal([s.length, s[0].at, s[19].at], [20, 90000, 660000]);
  equal(columns(s.slice(18), "n"), [[630, 660], [630, 660]]);
  equal(columns(s.slice(18), "other"), [[630, 660], [null, null]]);
}

export function leavesOutWhatWasNotRead() {
  const s = sampled(sampled(sampled([], 1000, { n: 1 }), 61000, { n: 2 }), 121001, { n: 3 });
  equal(columns(s, "n"), [[1, 61, 61.001, 121.001], [1, 2, null, 3]]);
}

export function saysWhatItShows() {
  const of = (...values) => values.map((n, i) => ({ at: 30000 * i, n }));
  equal(told([], "n", rated), "Nothing to draw yet.");
  equal(told(of(null, null, 4), "n", rated), "Nothing to draw yet.");
  equal(told(of(null, 0, 0, 0), "n", rated), "0 for the last 1 min");
  equal(told(of(0.5, 12, 0, 3), "n", rated), "3.0 now, 0 to 12 in the last 1 min");
}
