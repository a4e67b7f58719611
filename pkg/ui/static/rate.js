// How often something happens, from the moments at which it was heard of. Pure; times are in milliseconds.

const over = 20000; // what counts

// begun is a count that begins now.
export const begun = (now) => ({ since: now, seconds: [] });

// noted is the count with one more. Moments are kept by the second.
export function noted({ since, seconds }, now) {
  const second = Math.floor(now / 1000) * 1000;
  const kept = seconds.filter((s) => s.at > now - over - 1000);
  const last = kept[kept.length - 1];
  if (last?.at === second) return { since, seconds: [...kept.slice(0, -1), { at: second, n: last.n + 1 }] };
  return { since, seconds: [...kept, { at: second, n: 1 }] };
}

// perSecond is how often it happened a second, lately; null while too little was heard to say.
export function perSecond(count, now) {
  const heard = Math.min(over, now - (count?.since ?? now));
  if (heard < 3000) return null;
  const n = count.seconds.filter((s) => s.at > now - over).reduce((sum, s) => sum + s.n, 0);
  return n / (heard / 1000);
}

// rated is a rate for people: "0", "0.4", "12".
export const rated = (n) => (n === null ? "–" : n === 0 ? "0" : n < 10 ? n.toFixed(1) : Math.round(n).toLocaleString("en-US"));
