import { h } from "../vendor/preact.mjs";
import { all, at, call } from "../api.js";
import { to } from "../route.js";
import { administers } from "../session.js";
import { Card, Head, Meter, Table } from "../views.js";
import { amount, className, inOrder } from "../words.js";

export const title = "Quotas";

export const load = () => all("/v1/quotas");

const units = { MEMORY_MB: "MiB", DISK_GB: "GiB" };

// ask lets an admin replace a project's own limits.
const ask = (ctx, q) => ctx.confirm({
  title: `Limits of ${called(q.project)}`, verb: `Set limits of ${called(q.project)}`,
  text: "A field that is empty takes its limit from the default. What is there already is never ended by a limit.",
  fields: inOrder(q.resources.map((r) => r.class)).map((c) => {
    const r = q.resources.find((x) => x.class === c);
    return { name: c, label: className(c) + (units[c] ? ` (${units[c]})` : ""), type: "number", min: 0, defaultValue: r.from === own(q.project) ? r.limit : "" };
  }),
  run: async (v) => {
    const limits = Object.fromEntries(Object.entries(v).filter(([, n]) => n !== "").map(([c, n]) => [c, Number(n)]));
    await call("PUT", at("quotas", q.project), { body: { limits } });
    return `The limits of ${called(q.project)} are set.`;
  },
});

const own = (project) => (project === "_default" ? "default" : "project");
const called = (project) => (project === "_default" ? "all others" : `project ${project}`);

export function view({ items }, ctx) {
  const names = inOrder(new Set(items.flatMap((q) => q.resources.map((r) => r.class))));
  const cell = (q, c) => {
    const r = q.resources.find((x) => x.class === c);
    if (q.project === "_default") return r?.limit === undefined ? h("span", { class: "dim" }, "no limit") : amount(c, r.limit);
    if (!r) return h("span", { class: "dim" }, "–");
    return r.limit === undefined ? amount(c, r.used) : h(Meter, { of: c, used: r.used, total: r.limit });
  };
  return [
    h(Head, { title: "Quotas", sub: "what projects use, and may" }),
    h(Card, null, h(Table, {
      label: "quotas", rows: items, id: (q) => q.project, columns: [
        { name: "project", of: (q) => (q.project === "_default" ? "default limits" : h("a", { href: to(["instances"], { project: q.project }) }, q.project)) },
        ...names.map((c) => ({ name: className(c), n: true, of: (q) => cell(q, c) })),
        ...(administers() ? [{ name: "change", of: (q) => h("button", { onClick: () => ask(ctx, q) }, "Limits", h("span", { class: "hidden" }, ` of ${called(q.project)}`)) }] : []),
      ],
    })),
  ];
}
