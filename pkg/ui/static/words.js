// Amounts, times and states in words. Pure: the time is an argument.

const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

// span is a number of seconds for people: "12 s", "5 min", "3 h 10 min", "2 d 4 h".
export function span(seconds) {
  let left = Math.max(0, Math.round(seconds));
  if (left > 3600) left = Math.round(left / 60) * 60;
  const parts = [];
  for (const [unit, of] of units) {
    const n = Math.floor(left / of);
    if (n > 0) parts.push(`${n} ${unit}`);
    if (parts.length && (parts.length === 2 || unit === "min")) break;
    left -= n * of;
  }
  return parts.join(" ") || "0 s";
}

// since is how long ago a time of the API was; "" where there is none.
export const since = (time, now) => (time ? span((now - Date.parse(time)) / 1000) : "");

// inOrAgo is "in 5 min" or "5 min ago".
export function inOrAgo(time, now) {
  const seconds = (Date.parse(time) - now) / 1000;
  return seconds >= 0 ? `in ${span(seconds)}` : `${span(-seconds)} ago`;
}

// clock is a time of the API in the reader's own zone.
export const clock = (time) => new Date(time).toLocaleString("sv-SE");

export const number = (n) => n.toLocaleString("en-US");

export const plural = (n, one, many = one + "s") => `${number(n)} ${n === 1 ? one : many}`;

const classes = { VCPU: "processors", MEMORY_MB: "memory", DISK_GB: "disk", INSTANCES: "instances" };
const order = Object.keys(classes);

export const className = (c) => classes[c] || c;

// inOrder puts the classes of resources in the order in which people think of them.
export const inOrder = (names) => [...names].sort((a, b) =>
  (order.indexOf(a) + 1 || 9) - (order.indexOf(b) + 1 || 9) || (a < b ? -1 : 1));

// amount is a number of a class with its unit: "64", "2 GiB", "2,000 GiB", "12.5 TiB".
export function amount(c, n) {
  const gib = c === "MEMORY_MB" ? n / 1024 : c === "DISK_GB" ? n : null;
  if (gib === null) return number(n);
  if (gib >= 10240) return `${trim(gib / 1024)} TiB`;
  return c === "MEMORY_MB" && n % 1024 && n < 10240 ? `${number(n)} MiB` : `${trim(gib)} GiB`;
}

const trim = (n) => number(Math.round(n * 10) / 10);

// usage is "12 of 64", "100 of 256 GiB", "512 MiB of 256 GiB".
export function usage(c, used, total) {
  const [u, t] = [amount(c, used).split(" "), amount(c, total).split(" ")];
  return `${u[1] === t[1] || used === 0 ? u[0] : u.join(" ")} of ${t.join(" ")}`;
}

// amounts is "16 processors, 64 GiB memory, 200 GiB disk".
export const amounts = (resources) => inOrder(Object.keys(resources || {})).map((c) =>
  c === "VCPU" ? plural(resources[c], "processor") : `${amount(c, resources[c])} ${className(c)}`).join(", ");

// choices is "disk=ssd gpu=a100".
export const choices = (chosen) => Object.keys(chosen || {}).sort().map((a) => `${a}=${chosen[a]}`).join(" ");

export const shortID = (id) => id.slice(0, 8);

// kind is how a state is coloured: ok, warn, bad, busy, or plain.
export function kind(state) {
  return {
    active: "ok", enabled: "ok", open: "ok", running: "ok",
    accepted: "busy", queued: "warn", starting: "busy", deleting: "busy",
    error: "bad", unknown: "bad", silent: "bad", quarantined: "bad",
    draining: "busy", disabled: "warn", stopped: "warn", paused: "warn", closed: "warn",
  }[state] || "";
}

// standing is what a host is to a machine: how it is coloured, and in words.
const standings = {
  fits: ["ok", "can take it now"],
  "failed-there": ["ok", "can, though an attempt failed there"],
  "mistrusts-image": ["ok", "can, though the image failed there"],
  full: ["warn", "full"],
  draining: ["busy", "draining"],
  disabled: ["busy", "disabled"],
  quarantined: ["bad", "quarantined"],
  twin: ["bad", "two agents of one name"],
  silent: ["bad", "silent"],
  "lacks-key": ["bad", "without the key of its user data"],
  "group-rule": ["warn", "kept out by the rule of its group"],
  "too-small": ["dim", "too small even when empty"],
  "lacks-trait": ["dim", "with the wrong traits"],
  avoided: ["dim", "that it avoids"],
  "pinned-elsewhere": ["dim", "not the one it is for"],
};
export const standing = (name) => standings[name] || ["dim", name];
export const standingNames = Object.keys(standings);
