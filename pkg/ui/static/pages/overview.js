import { h } from "../vendor/preact.mjs";
import { all, get } from "../api.js";
import { Graph } from "../graph.js";
import { often } from "../live.js";
import { begun, noted, perSecond, rated } from "../rate.js";
import { to } from "../route.js";
import { sampled } from "../series.js";
import { operates } from "../session.js";
import { byState, troubles, waiting } from "../trouble.js";
import { Bar, Card, Empty, Head, Note, Table, Tile, Time } from "../views.js";
import { kind, number, plural, since } from "../words.js";

export const title = "Overview";

// Counting all hosts is work for the node.
export const every = { ...often, burst: 2000 };

let starts; // how often a machine became active, as far as the node tells
let samples; // what was read since the page is open

// changes are those of the whole cell for operators, of the project for others.
export function changes(ctx) {
  starts = begun(performance.now());
  samples = [];
  return { project: operates() ? "*" : ctx.project, state: "active" };
}

export function heard(event, { state_before: before }) {
  if (event === "gap") starts = begun(performance.now());
  if (event === "change" && before !== "active") starts = noted(starts, performance.now());
}

export async function load() {
  const [queues, flavors, hosts, ready] = await Promise.all([
    all("/v1/queues", { waiting: true }), get("/v1/flavors", { limit: 1 }), operates() ? all("/v1/hosts") : null, get("/readyz").catch((p) => ({ trouble: [p.message] })),
  ]);
  samples = sampled(samples, Date.now(), { boots: perSecond(starts, performance.now()), waiting: waiting(queues.items).total });
  return { queues, offered: flavors.items.length > 0, hosts, ready };
}

export function view({ queues, offered, hosts, ready }, ctx) {
  const waits = waiting(queues.items);
  const list = hosts?.items || [];
  const wrong = troubles({ hosts: list, queues: queues.items, ready });
  const states = byState(list);
  const machines = list.reduce((n, x) => n + x.machines, 0), building = list.reduce((n, x) => n + x.building, 0);
  const beyond = queues.more || hosts?.more;
  return [
    h(Head, { title: "Overview" }),
    beyond && h(Note, { kind: "warn" }, "This cell is large: only its first 2,000 queues in which something waits and 2,000 hosts are counted here."),
    h("div", { class: "tiles" },
      h(Tile, { name: "Boots a second", value: rated(perSecond(starts, performance.now())), note: operates() ? "that became active" : `active, of ${ctx.project}` }),
      h(Tile, { name: "Waiting", value: number(waits.total), note: waits.rows.length ? `in ${plural(waits.rows.length, "queue")}` : "nothing waits" }),
      h(Tile, { name: "Oldest waits for", value: since(waits.oldest, Date.now()) || "–", note: "" }),
      hosts && h(Tile, { name: "Machines", value: number(machines), note: building ? `${number(building)} being built` : "on hosts" }),
      hosts && h(Tile, { name: "Hosts that offer", value: number(states[0][1]), note: `of ${number(list.length)}` })),
    h("div", { class: "cards two" },
      h(Card, { title: "Boots a second" }, h(Graph, { samples, name: "boots", label: "boots a second", shown: rated })),
      h(Card, { title: "Waiting" }, h(Graph, { samples, name: "waiting", label: "machines that wait", whole: true, shown: number }))),
    h(Card, { title: "Wrong now" }, wrong.length
      ? h(Table, {
        label: "what is wrong now", rows: wrong.slice(0, 50), id: (w) => w.what, columns: [
          { name: "kind", of: (w) => h("span", { class: "badge " + w.kind }, w.kind === "bad" ? "wrong" : "look") },
          { name: "what is wrong", of: (w) => w.path ? h("a", { href: to(w.path) }, w.what) : w.what },
          { name: "what to do", of: (w) => h("span", { class: "dim" }, w.do) },
        ],
      })
      : h("p", { class: "dim" }, beyond ? "Nothing among what is counted here." : "Nothing that this node knows of.")),
    h("div", { class: "cards two" },
      h(Card, { title: "Waiting, by queue" }, waits.rows.length
        ? h(Table, {
          label: "waiting, by queue", rows: waits.rows.slice(0, 20), id: (q) => q.name, columns: [
            { name: "queue", of: (q) => h("a", { href: to(["queues", q.name]) }, q.name) },
            { name: "waiting", n: true, of: (q) => number(q.queued) },
            { name: "oldest", n: true, of: (q) => h(Time, { of: q.oldest }) },
            { name: "room now", n: true, of: (q) => (q.capacity ? number(q.capacity.room) : "–") },
          ],
        })
        : h(Empty, { title: "Nothing waits" }, offered ? ["All that was booted has a host. ", h("a", { href: to(["boot"]) }, "Boot a machine")]
          : ["There are no queues yet. An admin offers a flavor first: ", h("code", null, "berth flavor add m1.small --vcpus 1 --memory 2GiB --disk 20GiB")])),
      hosts && h(Card, { title: "Hosts, by state" }, list.length
        ? h(Bar, { label: "hosts by state", parts: states.map(([s, n]) => [kind(s), s, n]) })
        : h(Empty, { title: "No hosts yet" }, "Start an agent on a machine, and it shows up here within seconds: ", h("code", null, "berth agent")))),
  ];
}
