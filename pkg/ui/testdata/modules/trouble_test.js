import { byState, troubles, waiting } from "/ui/trouble.js";
import { equal } from "./equal.js";

const counts = (more) => ({ total: 4, eligible: 0, full: 0, never_fits: 0, ...more });

export function whatIsWrong() {
  equal(troubles({ hosts: [{ host: "a", state: "enabled" }], queues: [{ name: "q", queued: 0, hosts: counts({}) }] }), []);
  const all = troubles({
    hosts: [{ host: "a", state: "silent" }, { host: "b", state: "quarantined", reason: "disk" }, { host: "c", state: "enabled", warnings: ["w"] }],
    queues: [
      { name: "full", queued: 2, hosts: counts({ full: 4 }) }, { name: "never", queued: 1, hosts: counts({ never_fits: 4 }) },
      { name: "flows", queued: 1, hosts: counts({ eligible: 1 }) }, { name: "broken", queued: 0, error: "e" },
    ],
    ready: { trouble: ["t"] },
  });
  equal(all.map((t) => t.kind + " " + t.what), [
    "bad t", "bad Host a is silent.", "bad Host b is quarantined: disk.", "warn Host c: w",
    "warn 2 machines wait in full, and no host can take them now.", "bad 1 machine waits in never, and no host can ever take it.", "bad Queue broken: e",
  ]);
  const many = [1, 2, 3, 4].map((n) => ({ host: "h" + n, state: "silent" }));
  equal(troubles({ hosts: many }).map((t) => t.what), ["4 hosts are silent."]);
}

export function counted() {
  equal(byState([{ state: "enabled" }, { state: "enabled" }, { state: "silent" }]),
    [["enabled", 2], ["draining", 0], ["disabled", 0], ["quarantined", 0], ["silent", 1]]);
  const w = waiting([{ name: "a", queued: 1, advice: { oldest: "2026-01-02T00:00:00Z" } }, { name: "b", queued: 0 }, { name: "c", queued: 5, advice: { oldest: "2026-01-01T00:00:00Z" } }]);
  equal([w.rows.map((q) => q.name), w.total, w.oldest], [["c", "a"], 6, "2026-01-01T00:00:00Z"]);
}
