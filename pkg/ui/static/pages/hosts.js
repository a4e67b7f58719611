import { h } from "../vendor/preact.mjs";
import { get } from "../api.js";
import { to } from "../route.js";
import { Badge, Card, Empty, Head, Meter, Pager, Table } from "../views.js";
import { number } from "../words.js";

export const title = "Hosts";
export const operators = true;

export const load = (ctx, { query }) => get("/v1/hosts", { limit: 100, marker: query.marker });

const used = (name, c) => ({
  name, of: (h1) => (h1.totals?.[c] ? h(Meter, { of: c, used: h1.totals[c] - (h1.free?.[c] || 0), total: h1.totals[c] }) : "–"),
});

export const view = ({ items, next }, ctx, { query: { marker } }) => [
  h(Head, { title: "Hosts", sub: "what each has said last" }),
  h(Card, null, items.length ? h(Table, {
    label: "hosts", rows: items, id: (x) => x.host, columns: [
      { name: "host", of: (x) => h("a", { href: to(["hosts", x.host]) }, x.host) },
      { name: "state", of: (x) => [h(Badge, { of: x.state }), x.reason && h("div", { class: "sub" }, x.reason)] },
      used("processors used", "VCPU"), used("memory used", "MEMORY_MB"), used("disk used", "DISK_GB"),
      { name: "machines", n: true, of: (x) => number(x.machines) },
      { name: "building", n: true, of: (x) => number(x.building) },
      { name: "waits on queues", n: true, of: (x) => number(x.waiting.length) },
      { name: "heard ago", n: true, of: (x) => heard(x.heard_ago) },
    ],
  }) : h(Empty, { title: "No hosts yet" }, "Start an agent on a machine, and it shows up here within seconds: ", h("code", null, "berth agent")),
  h(Pager, { first: marker && to(["hosts"]), next: next && to(["hosts"], { marker: next }), shown: `${items.length} on this page` })),
];

// heard leaves the fractions of a second out of "1m2.345s".
export const heard = (duration) => duration.replace(/(\d+)\.\d+s$/, "$1s").replace(/^[\d.]+(ms|µs)$/, "0s").replace(/([hms])(?=\d)/g, "$1 ");
