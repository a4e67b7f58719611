import { h } from "../vendor/preact.mjs";
import { at, call, get } from "../api.js";
import { to } from "../route.js";
import { Card, Empty, Facts, Head, List, Note, Resources, Table, Time } from "../views.js";
import { clock, number, plural } from "../words.js";
import { heard } from "./hosts.js";
import { columns } from "./instances.js";

export const title = "Host";
export const operators = true;

const most = {}; // the most that each draining host had left while this tab looked

export async function load(ctx, { path, query }) {
  const [host, instances] = await Promise.all([
    get(at("hosts", path[1])), get(at("hosts", path[1], "instances"), { limit: 50, marker: query.marker }),
  ]);
  const left = host.machines + host.building;
  if (host.state === "draining") most[host.host] = Math.max(most[host.host] || 0, left);
  else delete most[host.host];
  return { host, instances, left };
}

const reason = { name: "reason", label: "Reason", hint: "Shown with the host.", maxLength: 255 };

function Actions({ x, ctx }) {
  const ask = (verb, text, fields = [reason]) => ctx.confirm({
    title: `${verb} ${x.host}?`, text, verb: `${verb} ${x.host}`, fields,
    run: async (v) => {
      const body = { ...(v.reason && { reason: v.reason }), ...(v.deadline && { deadline: new Date(v.deadline).toISOString() }) };
      await call("POST", at("hosts", x.host, verb.toLowerCase()), { body });
      return `${x.host} is asked. It acts as soon as it reads this.`;
    },
  });
  return [
    x.state !== "draining" && h("button", { onClick: () => ask("Drain", "It makes no more offers and is to be emptied. What runs there goes on running until it is deleted.",
      [reason, { name: "deadline", label: "Empty by", type: "datetime-local", hint: "When it should be empty; empty: no hurry. It ends nothing." }]) }, "Drain"),
    x.state !== "disabled" && h("button", { onClick: () => ask("Disable", "It makes no more offers. Its machines stay.") }, "Disable"),
    x.state !== "enabled" && h("button", { class: "main", onClick: () => ask("Enable", "It offers again what it has free.") }, "Enable"),
  ];
}

// Drain is how far it is: of the most that this tab has seen there.
function Drain({ x, left }) {
  if (x.state !== "draining") return null;
  const of = most[x.host] || left;
  return h(Note, { kind: left ? "warn" : "ok" },
    h("b", null, left ? `${plural(left, "machine")} left` : "It is empty, and can be taken away."),
    left > 0 && [" ", "What is left is to be deleted, or booted elsewhere: a drain ends nothing.",
      h("div", null, h("progress", { max: of, value: of - left, "aria-label": "how far the drain is" }), ` ${of - left} of ${of} gone since this page looks`)],
    x.deadline && h("div", null, `It should be empty by ${clock(x.deadline)}.`));
}

export function view({ host: x, instances, left }, ctx, { query }) {
  return [
    h(Head, { title: x.host, badge: x.state, sub: `host, heard ${heard(x.heard_ago)} ago` }, h(Actions, { x, ctx })),
    x.reason && h(Note, { kind: x.state === "quarantined" ? "bad" : "" }, h("b", null, "Reason: "), x.reason),
    h(Drain, { x, left }),
    x.warnings?.length && h(Note, { kind: "warn" }, h(List, { of: x.warnings })),
    h("div", { class: "cards two" },
      h(Card, { title: "What it has" }, h(Resources, { label: "resources", of: [
        ["has", x.totals], ["keeps back", x.reserved], ["others use", x.unmanaged], ["free", x.free], ["largest machine", x.largest],
      ] })),
      h(Card, { title: "About it" }, h(Facts, { of: [
        ["machines", number(x.machines)], ["building", number(x.building)], ["weigher", x.weigher], ["traits", x.traits?.join(", ")],
        ["agent began", x.started && h(Time, { of: x.started, after: " ago" })], ["signs", x.signed ? "yes" : "no"],
        ["waits on", x.waiting.length > 0 && h("ul", null, x.waiting.slice(0, 12).map((q) => h("li", { key: q }, h("a", { href: to(["queues", q]) }, q))),
          x.waiting.length > 12 && h("li", null, `and ${x.waiting.length - 12} others`))],
      ] }))),
    h(Card, { title: "Its instances" }, instances.items.length
      ? [h(Table, { label: "instances", rows: instances.items, id: (i) => i.id, columns: columns([{ name: "project", of: (i) => i.project }]).filter((c) => c.name !== "host") }),
        instances.next && h("p", null, h("a", { class: "button", href: to(["hosts", x.host], { marker: instances.next }) }, "Next page"))]
      : h(Empty, { title: query.marker ? "No more" : "It has none" }, x.state === "enabled" ? "It takes the next that fits." : "It takes none while it is " + x.state + ".")),
  ];
}
