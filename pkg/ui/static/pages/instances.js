import { h } from "../vendor/preact.mjs";
import { get } from "../api.js";
import { to } from "../route.js";
import { mayChange } from "../session.js";
import { Badge, Card, Empty, Field, Head, Pager, Table, Time } from "../views.js";
import { choices, shortID } from "../words.js";

export const title = "Instances";

const limit = 50;
const states = ["accepted", "queued", "starting", "active", "deleting", "deleted", "error", "unknown"];

export async function load(ctx, { query }) {
  const { ref, state, flavor, queue, host, label, marker } = query;
  const [page] = await Promise.all([
    get("/v1/instances", { project: ctx.project, ref, state, flavor, queue, host, label, marker, limit }), names(),
  ]);
  return page;
}

// names reads those of the flavors, which change seldom.
async function names() {
  if (performance.now() - known.at > 30000) known = { at: performance.now(), flavors: (await get("/v1/flavors", { limit: 1000 })).items };
}

let known = { at: -Infinity, flavors: [] };

export const changes = (ctx) => ({ project: ctx.project });

// why is what keeps an instance, or what ended it.
export const why = (i) => (i.waiting || i.reason || (i.power && i.power !== "running" ? i.stopped : null))?.message || "";

// columns are those of every table of instances.
export const columns = (more = []) => [
  { name: "name", of: (i) => [h("a", { href: to(["instances", i.id], { project: i.project }) }, i.name || shortID(i.id)), h("div", { class: "sub mono" }, shortID(i.id))] },
  { name: "state", of: (i) => [h(Badge, { of: i.state }), i.state === "active" && i.power && i.power !== "running" ? [" ", h(Badge, { of: i.power })] : null] },
  ...more,
  { name: "flavor", of: (i) => [i.flavor, i.with && h("div", { class: "sub" }, choices(i.with))] },
  { name: "host", of: (i) => i.host || "" },
  { name: "since", n: true, of: (i) => h(Time, { of: i.changed_at || i.accepted_at }) },
  { name: "why", of: why },
];

export function frame(ctx, { query: { marker, ...filters } }, rows) {
  const flavors = known.flavors.map((f) => f.name); // it may be gone, or they may not be read yet
  if (filters.flavor && !flavors.includes(filters.flavor)) flavors.push(filters.flavor);
  const change = (e) => ctx.go(["instances"], { ...filters, project: ctx.project, [e.target.name]: e.target.value });
  return [
    h(Head, { title: "Instances", sub: `of project ${ctx.project}, the oldest first` },
      mayChange(ctx.project) && h("a", { class: "button main", href: to(["boot"], { project: ctx.project }) }, "Boot a machine")),
    h(Card, null,
      h("form", { class: "filters", role: "search", onSubmit: (e) => e.preventDefault() },
        h(Field, { name: "ref", label: "Name or id", value: filters.ref || "", onChange: change, placeholder: "or its beginning", type: "search" }),
        h(Field, { name: "state", label: "State", value: filters.state || "", onChange: change },
          h("option", { value: "" }, "not deleted"), states.map((s) => h("option", { key: s, value: s, selected: s === filters.state }, s))),
        h(Field, { name: "flavor", label: "Flavor", value: filters.flavor || "", onChange: change },
          h("option", { value: "" }, "all"), flavors.map((f) => h("option", { key: f, value: f, selected: f === filters.flavor }, f))),
        h(Field, { name: "queue", label: "Queue", value: filters.queue || "", onChange: change }),
        h(Field, { name: "host", label: "Host", value: filters.host || "", onChange: change }),
        h(Field, { name: "label", label: "Label", value: filters.label || "", onChange: change, placeholder: "team=shop" })),
      rows),
  ];
}

export function view({ items, next }, ctx, route) {
  const { marker, ...filters } = route.query;
  const filtered = filters.ref || filters.state || filters.flavor || filters.queue || filters.host || filters.label;
  const link = (m) => to(["instances"], { ...filters, marker: m });
  return frame(ctx, route, [
    items.length ? h(Table, { label: "instances", rows: items, id: (i) => i.id, columns: columns() })
      : filtered ? h(Empty, { title: "None matches" }, h("a", { href: to(["instances"], { project: ctx.project }) }, "Show all"))
        : h(Empty, { title: "Project " + ctx.project + " has no instances" },
          mayChange(ctx.project) ? h("a", { href: to(["boot"], { project: ctx.project }) }, "Boot its first machine") : "Whoever is a member of it can boot one."),
    h(Pager, { first: marker && link(), next: next && link(next), shown: `${items.length} on this page` }),
  ]);
}
