// How often something happens, from a counter that is looked at now and then. Pure.

// counters reads what the metrics page says of one metric: the sum of all its lines that have the label.
export function counter(text, name, label = "") {
  let sum = null;
  for (const line of text.split("\n")) {
    if (!line.startsWith(name) || !"{ ".includes(line[name.length] || "")) continue;
    if (label && !line.includes(label)) continue;
    const value = Number(line.slice(line.lastIndexOf(" ") + 1));
    if (!Number.isNaN(value)) sum = (sum || 0) + value;
  }
  return sum;
}

// noted is the samples with one more: a counter that went down has begun again, and older ones say nothing.
export function noted(samples, value, at, most = 30) {
  const last = samples[samples.length - 1];
  if (value === null) return [];
  if (last && value < last.value) return [{ value, at }];
  return [...samples, { value, at }].slice(-most);
}

// perSecond is how much it rose a second over the last so many milliseconds; null while that is not known.
export function perSecond(samples, over = 20000) {
  const last = samples[samples.length - 1];
  const first = samples.find((s) => last.at - s.at <= over);
  if (!last || first === last) return null;
  return (last.value - first.value) / ((last.at - first.at) / 1000);
}

// rated is a rate for people: "0", "0.4", "12".
export const rated = (n) => (n === null ? "–" : n === 0 ? "0" : n < 10 ? n.toFixed(1) : Math.round(n).toLocaleString("en-US"));
