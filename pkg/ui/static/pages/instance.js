import { h } from "../vendor/preact.mjs";
import { at, call, get } from "../api.js";
import { Console } from "../console.js";
import { to } from "../route.js";
import { mayChange, operates } from "../session.js";
import { Card, Facts, Head, List, Note, Standings, Table, Time } from "../views.js";
import { amounts, choices, clock, inOrAgo, plural, shortID } from "../words.js";

export const title = "Instance";

export async function load(ctx, { path }) {
  const project = ctx.project;
  const [instance, explained] = await Promise.all([
    get(at("instances", path[1]), { project }), get(at("instances", path[1], "explain"), { project }),
  ]);
  return { instance, explained };
}

export const changes = (ctx, { path }) => ({ project: ctx.project, instance: path[1] });

const called = (i) => i.name || shortID(i.id);

// Actions are what the state lets one do; those that are under way are said elsewhere.
function Actions({ i, ctx }) {
  if (!mayChange(i.project)) return null;
  const name = called(i);
  const power = (op, text, hard) => ctx.confirm({
    title: `${op[0].toUpperCase() + op.slice(1)} ${name}?`, text, verb: `${op[0].toUpperCase() + op.slice(1)} ${name}`,
    fields: hard ? [{ name: "hard", type: "checkbox", label: "At once, without asking the guest" }] : [],
    run: async (v) => {
      await call("POST", at("instances", i.id, op), { query: { project: i.project }, body: v.hard ? { hard: true } : {} });
      return `The ${op} of ${name} is asked for. Its host answers when it is done.`;
    },
  });
  const remove = () => ctx.confirm({
    title: `Delete ${name}?`, verb: `Delete ${name}`, bad: true,
    text: i.placeholder ? `The room that ${name} (${i.id}) holds for reservation ${i.placeholder.reservation} is free again. ` +
      "This cannot be undone." : `The machine ${name} (${i.id}) ends, and its disk with it. This cannot be undone.`,
    run: async () => {
      await call("DELETE", at("instances", i.id), { query: { project: i.project } });
      return `The end of ${name} is asked for.`;
    },
  });
  const active = i.state === "active" && !i.placeholder, runs = active && i.power !== "stopped"; // no machine, no power
  return [
    active && i.power === "stopped" && h("button", { onClick: () => power("start", "It starts again from its disk.") }, "Start"),
    active && i.power === "paused" && h("button", { onClick: () => power("start", "It goes on where it stood still.") }, "Start"),
    runs && h("button", { onClick: () => power("stop", "The guest is asked to shut down. It keeps its place and its quota.", true) }, "Stop"),
    runs && h("button", { onClick: () => power("reboot", "The guest is asked to shut down, and starts again.", true) }, "Reboot"),
    !i.placeholder && ["error", "deleted"].includes(i.state) && h("a", { class: "button main", href: to(["boot"], { project: i.project, like: i.id }) }, "Boot it again"),
    !i.delete && !["deleting", "deleted"].includes(i.state) && h("button", { class: "bad", onClick: remove }, "Delete"),
  ];
}

const Explained = ({ e }) => h(Card, { title: "Where it is, and why" },
  h("p", { class: "says" }, e.summary),
  h(Facts, { of: [
    ["in line", e.place && `${e.place.position + 1} of ${e.place.depth} in ${e.queue}`],
    ["next", e.next.length > 0 && h("ul", null, e.next.map((n) => h("li", { key: n.what }, n.what,
      n.at && h("span", { class: "dim" }, " ", h("time", { dateTime: n.at, title: clock(n.at) }, inOrAgo(n.at, Date.now()))))))],
    ["you can", e.you_can.length > 0 && h(List, { of: e.you_can })],
    ["operators can", e.operators_can?.length > 0 && h(List, { of: e.operators_can })],
  ] }));

const noticed = (n) => `Its place on ${n.host} is taken for work of priority ${n.priority} in queue ${n.queue}. ` +
  `Its guest may run until ${clock(n.until)}; then: ${n.then}.`;

function Power({ i }) {
  if (i.notice && !i.notice.over) return h(Note, { kind: "warn" }, noticed(i.notice));
  if (i.command) return h(Note, { kind: "warn" }, `The ${i.command.op} that was asked for is under way.`);
  if (i.answer?.failed) return h(Note, { kind: "bad" }, `The last ${i.answer.op} was not done: ${i.answer.failed}`);
  return i.delete && i.state !== "deleted" ? h(Note, { kind: "warn" }, "It was asked to be deleted.") : null;
}

const Attempts = ({ i }) => h(Card, { title: "Attempts" },
  h("p", null, i.attempt ? `${plural(i.attempt, "attempt")} of at most ${i.attempts || 3}.` : "None yet."),
  i.failures?.length ? h(Table, {
    label: "attempts that failed", rows: i.failures, id: (f) => f.attempt, columns: [
      { name: "attempt", of: (f) => f.attempt }, { name: "host", of: (f) => f.host }, { name: "fault", of: (f) => f.class },
      { name: "message", of: (f) => f.message }, { name: "ago", n: true, of: (f) => h(Time, { of: f.at }) },
    ],
  }) : h("p", { class: "dim" }, "None failed."));

const hostLink = (name) => (operates() && name ? h("a", { href: to(["hosts", name]) }, name) : name);

const instanceLink = (i, id) => h("a", { href: to(["instances", id], { project: i.project }) }, h("code", null, id));

const setOf = (i) => i.set && [`one of ${i.set.size}, ${i.set.granted ? "granted together" : "of which all start or none"}; the first is `,
  instanceLink(i, i.set.id)];

// What an instance without a machine holds room for.
const held = (i) => i.placeholder && [`of reservation ${i.placeholder.reservation}, without a machine`,
  i.placeholder.from && `, from ${clock(i.placeholder.from)}`, i.placeholder.until && `, until ${clock(i.placeholder.until)}`,
  i.placeholder.taken_by && ["; taken by ", instanceLink(i, i.placeholder.taken_by)]];

function About({ i }) {
  const when = (time) => time && h("span", null, clock(time), h("span", { class: "dim" }, ", ", inOrAgo(time, Date.now())));
  return h(Card, { title: "About it" }, h(Facts, { of: [
    ["id", h("code", null, i.id)], ["project", i.project], ["host", hostLink(i.host)], ["power", i.power],
    ["stopped", i.stopped?.message], ["reason", i.reason?.message],
    ["flavor", i.flavor + (i.with ? ` with ${choices(i.with)}` : "")],
    ["queue", i.queue && h("a", { href: to(["queues", i.queue]) }, i.queue)],
    ["uses", i.resources && amounts(i.resources)], ["image", i.image], ["only on", hostLink(i.pinned_to)], ["never on", i.avoid?.join(", ")],
    ["group", i.group], ["set", setOf(i)], ["reservation", i.reservation],
    ["room of", i.in_placeholder && ["placeholder ", instanceLink(i, i.in_placeholder)]], ["placeholder", held(i)],
    ["priority", i.priority], ["preemptible", i.preemptible && `${i.preemptible.then}, with ${i.preemptible.grace} for its guest`],
    ["made room", i.made_room && `${plural(i.made_room, "preemptible machine")} taken away for it`],
    ["accepted", when(i.accepted_at)], ["active", when(i.active_at)], ["ended", when(i.ended_at)],
    ["deadline", i.state === "queued" && when(i.deadline)], ["SSH keys", i.ssh_keys?.length && h(List, { of: i.ssh_keys })],
  ] }));
}

export function view({ instance: i, explained: e }, ctx) {
  const labels = Object.entries(i.metadata || {}).map(([name, value]) => [
    name, /^[^!=\s]([^=]*[^!=\s])?$/.test(name) // no other name can be selected by
      ? h("a", { href: to(["instances"], { project: i.project, label: `${name}=${value}` }) }, value || "(empty)") : value,
  ]);
  return [
    h(Head, { title: called(i), badge: i.state, sub: `instance ${i.id} of project ${i.project}` }, h(Actions, { i, ctx })),
    h(Power, { i }),
    h(Explained, { e }),
    e.hosts && h(Card, { title: "What the hosts are to it" }, h(Standings, { hosts: e.hosts, link: hostLink })),
    h("div", { class: "cards two" }, h(About, { i }),
      h("div", null, h(Attempts, { i }), labels.length > 0 && h(Card, { title: "Labels" }, h(Facts, { of: labels })))),
    !i.placeholder && ["active", "unknown"].includes(i.state) && h(Console, { key: i.id, id: i.id, project: i.project }),
  ];
}
