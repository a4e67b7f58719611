import { h } from "../vendor/preact.mjs";
import { get } from "../api.js";
import { to } from "../route.js";
import { Badge, Card, Empty, Head, Pager, Table, Time } from "../views.js";
import { number } from "../words.js";

export const title = "Queues";

export const load = (ctx, { query }) => get("/v1/queues", { limit: 100, marker: query.marker, flavor: query.flavor });

export function view({ items, next }, ctx, { query: { marker, flavor } }) {
  const count = (name, of) => ({ name, n: true, of });
  return [
    h(Head, { title: "Queues", sub: flavor ? `of flavor ${flavor}` : "one for each flavor with its choices" },
      flavor && h("a", { class: "button", href: to(["queues"]) }, "All flavors")),
    h(Card, null, items.length ? h(Table, {
      label: "queues", rows: items, id: (q) => q.name, columns: [
        { name: "queue", of: (q) => h("a", { href: to(["queues", q.name]) }, q.name) },
        { name: "state", of: (q) => [h(Badge, { of: q.state }), q.error && h("div", { class: "sub" }, q.error)] },
        count("waiting", (q) => number(q.queued)),
        count("oldest", (q) => (q.queued ? h(Time, { of: q.advice?.oldest }) : "–")),
        count("room now", (q) => (q.capacity ? number(q.capacity.room) : "–")),
        count("can take it", (q) => (q.hosts ? number(q.hosts.eligible) : "–")),
        count("full", (q) => (q.hosts ? number(q.hosts.full) : "–")),
        count("never fit", (q) => (q.hosts ? number(q.hosts.never_fits) : "–")),
      ],
    }) : h(Empty, { title: "There are no queues" }, "They come with the first flavor: ",
      h("code", null, "berth flavor add m1.small --vcpus 1 --memory 2GiB --disk 20GiB")),
    h(Pager, { first: marker && to(["queues"], { flavor }), next: next && to(["queues"], { flavor, marker: next }), shown: `${items.length} on this page` })),
  ];
}
