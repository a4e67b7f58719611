import { h } from "../vendor/preact.mjs";
import { at, call, get } from "../api.js";
import { change, ownLimit } from "../quota.js";
import { to } from "../route.js";
import { administers } from "../session.js";
import { Card, Field, Head, Meter, Pager, Table } from "../views.js";
import { amount, className, inOrder } from "../words.js";

export const title = "Quotas";

// load reads a page of projects, or the one that is asked for, which need not have limits or instances yet.
export async function load(ctx, { query: { only, marker } }) {
  return only ? { items: [await get(at("quotas", only))] } : get("/v1/quotas", { limit: 100, marker });
}

const units = { MEMORY_MB: "MiB", DISK_GB: "GiB" };

// ask lets an admin change a project's own limits.
const ask = (ctx, q) => ctx.confirm({
  title: `Limits of ${called(q.project)}`, verb: `Set limits of ${called(q.project)}`,
  text: "A field that is empty takes its limit from the default. What is there already is never ended by a limit. " +
    "The weight and the limits of a class of priority stay as they are.",
  fields: inOrder(q.resources.map((r) => r.class)).map((c) => {
    const r = q.resources.find((x) => x.class === c);
    const label = className(c) + (units[c] ? ` (${units[c]})` : "");
    return { name: c, label, type: "number", min: 0, defaultValue: ownLimit(q.project, r) ?? "" };
  }),
  run: async (v) => {
    await call("PATCH", at("quotas", q.project), { body: change(q, v) });
    return `The limits of ${called(q.project)} are set.`;
  },
});

const called = (project) => (project === "_default" ? "all others" : `project ${project}`);

export const frame = (ctx, { query: { only } }, rows) => [
  h(Head, { title: "Quotas", sub: "what projects use, and may" }),
  h(Card, null, h("form", { class: "filters", role: "search", onSubmit: (e) => e.preventDefault() },
    h(Field, { name: "only", label: "One project", value: only || "", type: "search", onChange: (e) => ctx.go(["quotas"], { only: e.target.value.trim() }) })),
  rows),
];

export function view({ items, next }, ctx, route) {
  const { marker } = route.query;
  const names = inOrder(new Set(items.flatMap((q) => q.resources.map((r) => r.class))));
  const cell = (q, c) => {
    const r = q.resources.find((x) => x.class === c);
    if (q.project === "_default") return r?.limit === undefined ? h("span", { class: "dim" }, "no limit") : amount(c, r.limit);
    if (!r) return h("span", { class: "dim" }, "–");
    return r.limit === undefined ? amount(c, r.used) : h(Meter, { of: c, used: r.used, total: r.limit });
  };
  return frame(ctx, route, [
    h(Table, {
      label: "quotas", rows: items, id: (q) => q.project, columns: [
        { name: "project", of: (q) => (q.project === "_default" ? "default limits" : h("a", { href: to(["instances"], { project: q.project }) }, q.project)) },
        ...names.map((c) => ({ name: className(c), n: true, of: (q) => cell(q, c) })),
        ...(administers() ? [{ name: "change", of: (q) => h("button", { onClick: () => ask(ctx, q) }, "Limits", h("span", { class: "hidden" }, ` of ${called(q.project)}`)) }] : []),
      ],
    }),
    h(Pager, { first: marker && to(["quotas"]), next: next && to(["quotas"], { marker: next }), shown: `${items.length} on this page` }),
  ]);
}
