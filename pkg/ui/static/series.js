// What was read of the cell while a page is open, to be drawn over time. Pure; times are in milliseconds.

import { span } from "./words.js";

const over = 600000; // what is kept
const apart = 60000; // samples further apart are not of one line: the tab was hidden, or the node did not answer

// sampled is the samples and one more: values by name, null for what is not known. What is later than it, after a clock
// was set back, is dropped.
export function sampled(samples, at, values) {
  const kept = samples.filter((s) => s.at > at - over && s.at < at), last = kept[kept.length - 1];
  return [...kept, ...(last && at - last.at > apart ? [{ at: last.at + 1 }] : []), { at, ...values }];
}

// columns is one of the values as uPlot takes it: moments in seconds, and values.
export const columns = (samples, name) => [samples.map((s) => s.at / 1000), samples.map((s) => s[name] ?? null)];

// told is what the graph of a value shows, in words; shown makes a value one for people.
export function told(samples, name, shown) {
  const known = samples.filter((s) => (s[name] ?? null) !== null);
  if (known.length < 2) return "Nothing to draw yet.";
  const values = known.map((s) => s[name]), last = known[known.length - 1];
  const least = shown(Math.min(...values)), most = shown(Math.max(...values)), past = span((last.at - known[0].at) / 1000);
  return least === most ? `${most} for the last ${past}` : `${shown(last[name])} now, ${least} to ${most} in the last ${past}`;
}
