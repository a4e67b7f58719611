import { h } from "../vendor/preact.mjs";
import { at, get } from "../api.js";
import { to } from "../route.js";
import { operates } from "../session.js";
import { Card, Facts, Head, Note, Resources, Standings, Table, Tile, Time } from "../views.js";
import { choices, number } from "../words.js";
import { columns } from "./instances.js";

export const title = "Queue";

// load reads the queue, what of the project waits in it, and what each host would be to one more machine.
export async function load(ctx, { path }) {
  const queue = await get(at("queues", path[1]));
  const [waits, would] = await Promise.all([
    get("/v1/instances", { project: ctx.project, queue: queue.name, state: "queued", limit: 20 }),
    get("/v1/explain", {
      project: ctx.project, flavor: queue.flavor, with: Object.entries(queue.with || {}).map(([a, v]) => `${a}=${v}`), priority: queue.priority,
    }).catch(() => null), // it is closed
  ]);
  return { queue, waits, would };
}

export function view({ queue: q, waits, would }, ctx) {
  const link = (host) => (operates() ? h("a", { href: to(["hosts", host]) }, host) : host);
  return [
    h(Head, { title: q.name, badge: q.state, sub: `queue of flavor ${q.flavor}${q.with ? " with " + choices(q.with) : ""}` }),
    q.error && h(Note, { kind: "bad" }, q.error),
    h("div", { class: "tiles" },
      h(Tile, { name: "Waiting", value: number(q.queued), note: "of all projects" }),
      h(Tile, { name: "Oldest", value: q.queued && q.advice?.oldest ? h(Time, { of: q.advice.oldest }) : "–" }),
      q.capacity && h(Tile, { name: "Room now", value: number(q.capacity.room), note: "such machines" }),
      q.capacity && h(Tile, { name: "Stranded", value: number(q.capacity.stranded), note: "in pieces too small" }),
      q.capacity && h(Tile, { name: "If hosts were empty", value: number(q.capacity.empty), note: "such machines" })),
    would && h(Card, { title: q.queued ? "Who could take what waits" : "Who could take one" }, h("p", { class: "says" }, would.summary), h(Standings, { hosts: would.hosts, link })),
    h("div", { class: "cards two" },
      h(Card, { title: "What one needs" }, h(Resources, { label: "what one needs", of: [["needs", q.resources]] }),
        h(Facts, { of: [["priority", q.priority], ["has to have", q.required?.join(", ")], ["must not have", q.forbidden?.join(", ")]] })),
      h(Card, { title: "What the queue manager says" }, q.advice ? h(Facts, { of: [
        ["said", h(Time, { of: q.advice.at, after: " ago" })], ["records", number(q.advice.depth)], ["stray records", q.advice.stray], ["hosts wanted", number(q.advice.wanted)],
        ["share group", h("code", null, q.group)],
      ] }) : h("p", { class: "dim" }, "Nothing yet. Does one run?"))),
    waits.items.length > 0 && h(Card, { title: `Waiting, of project ${ctx.project}` },
      h(Table, { label: "instances that wait", rows: waits.items, id: (i) => i.id, columns: columns() })),
  ];
}
