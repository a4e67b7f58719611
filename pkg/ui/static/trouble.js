// What is wrong now, and what to do about it. Pure: it is a function of what the API answers.

import { plural } from "./words.js";

// troubles are the worst first: { kind, what, do, path }.
export function troubles({ hosts = [], queues = [], ready = {} }) {
  const out = [];
  const say = (kind, what, act, path) => out.push({ kind, what, do: act, path });
  for (const line of ready.trouble || []) say("bad", line);
  for (const [state, act] of [
    ["silent", "Look at its agent and at its way to Kafka. Its machines may run on."],
    ["quarantined", "Mend what it says, then enable it."],
  ]) {
    const those = hosts.filter((h) => h.state === state);
    if (those.length > 3) say("bad", `${plural(those.length, "host")} are ${state}.`, act, ["hosts"]);
    else for (const h of those) say("bad", `Host ${h.host} is ${state}${h.reason ? ": " + h.reason : ""}.`, act, ["hosts", h.host]);
  }
  for (const h of hosts) {
    for (const line of h.warnings || []) say("warn", `Host ${h.host}: ${line}`, "", ["hosts", h.host]);
  }
  for (const q of queues) {
    if (q.error) say("bad", `Queue ${q.name}: ${q.error}`, "The queue manager goes on trying.", ["queues", q.name]);
    if (!q.queued || !q.hosts) continue;
    const { total, eligible, never_fits: never } = q.hosts;
    const waits = `${plural(q.queued, "machine waits", "machines wait")} in ${q.name}`, them = q.queued === 1 ? "it" : "them";
    if (total === never) say("bad", `${waits}, and no host can ever take ${them}.`, "Add a host that fits, or boot another flavor.", ["queues", q.name]);
    else if (eligible === 0) say("warn", `${waits}, and no host can take ${them} now.`, "The queue says what the hosts lack.", ["queues", q.name]);
  }
  return out;
}

// byState counts hosts.
export function byState(hosts) {
  const n = {};
  for (const h of hosts) n[h.state] = (n[h.state] || 0) + 1;
  return ["enabled", "draining", "disabled", "quarantined", "silent"].map((s) => [s, n[s] || 0]);
}

// waiting are the queues in which something waits, the longest first, and what they come to together.
export function waiting(queues) {
  const rows = queues.filter((q) => q.queued > 0).map((q) => ({ ...q, oldest: q.advice?.oldest || "" }));
  rows.sort((a, b) => b.queued - a.queued || (a.name < b.name ? -1 : 1));
  const oldest = rows.map((q) => q.oldest).filter(Boolean).sort()[0] || "";
  return { rows, total: rows.reduce((n, q) => n + q.queued, 0), oldest };
}
