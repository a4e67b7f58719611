import { h } from "../vendor/preact.mjs";
import { all } from "../api.js";
import { to } from "../route.js";
import { Card, Empty, Head, Note } from "../views.js";
import { amounts, plural } from "../words.js";

export const title = "Flavors";

export async function load() {
  const [flavors, capabilities] = await Promise.all([all("/v1/flavors"), all("/v1/capabilities")]);
  return { flavors: flavors.items, capabilities: capabilities.items, more: flavors.more || capabilities.more };
}

const needs = (v) => [v.requires?.join(", "), v.consumes && amounts(v.consumes)].filter(Boolean).join("; ");

const first = (i) => (i ? "c" : "c first");

// The matrix: a line for each flavor, a column for each value of each axis. Boxes at the crossing may be chosen.
function Matrix({ flavors, capabilities }) {
  const values = capabilities.flatMap((c) => c.values.map((v, i) => ({ ...v, axis: c.axis, i })));
  return h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "flavors and capabilities" }, h("table", { class: "grid" },
    h("caption", null, "Which choices each flavor may be combined with"),
    h("thead", null,
      h("tr", null, h("th", { scope: "col", rowspan: 2 }, "flavor"), h("th", { scope: "col", rowspan: 2 }, "one machine uses"),
        capabilities.map((c) => h("th", { key: c.axis, scope: "colgroup", colspan: c.values.length, class: "axis" }, c.axis)),
        h("th", { scope: "col", rowspan: 2, class: "n first" }, "queues")),
      h("tr", null, values.map((v) => h("th", { key: v.axis + v.value, scope: "col", class: first(v.i) }, v.value, needs(v) && h("div", { class: "sub" }, needs(v)))))),
    h("tbody", null, flavors.map((f) => h("tr", { key: f.name },
      h("th", { scope: "row" }, h("a", { href: to(["queues"], { flavor: f.name }) }, f.name)),
      h("td", null, amounts(f.resources), traits(f) && h("div", { class: "sub" }, traits(f))),
      values.map((v) => h("td", { key: v.axis + v.value, class: first(v.i) }, f.capabilities?.includes(v.axis)
        ? [h("span", { "aria-hidden": "true" }, "●"), h("span", { class: "hidden" }, "yes")] : h("span", { class: "hidden" }, "no"))),
      h("td", { class: "n first" }, count(f.queues)))))));
}

const traits = (f) => [f.required?.length && "needs " + f.required.join(", "), f.forbidden?.length && "not on " + f.forbidden.join(", ")].filter(Boolean).join("; ");

function count({ wanted, open, closed, failed }) {
  const rest = [wanted - open - failed > 0 && `${wanted - open - failed} to come`, closed > 0 && `${closed} draining`, failed > 0 && `${failed} failed`].filter(Boolean);
  return [`${open} open`, rest.length > 0 && h("div", { class: "sub" }, rest.join(", "))];
}

export const view = ({ flavors, capabilities, more }) => [
  h(Head, { title: "Flavors", sub: `${plural(flavors.length, "flavor")}, ${plural(capabilities.length, "axis", "axes")} of choices` }),
  more && h(Note, { kind: "warn" }, "There are others: only the first 2,000 flavors and the first 2,000 axes are shown here."),
  h(Card, null, flavors.length ? h(Matrix, { flavors, capabilities })
    : h(Empty, { title: "Nothing is offered yet" }, "An admin offers the first flavor: ",
      h("code", null, "berth flavor add m1.small --vcpus 1 --memory 2GiB --disk 20GiB"))),
];
