// Parts that pages are made of. Text reaches the page as text alone.

import { h } from "./vendor/preact.mjs";
import { amount, amounts, className, clock, inOrder, kind, number, plural, since, standing, standingNames, usage } from "./words.js";

export const Badge = ({ of }) => h("span", { class: "badge " + kind(of) }, of);

// Time is how long ago something was, with the moment itself on hover.
export const Time = ({ of, after = "" }) =>
  of ? h("time", { dateTime: of, title: clock(of) }, since(of, Date.now()) + after) : null;

export const Head = ({ title, badge, sub, children }) => h("div", { class: "head" },
  h("h1", { tabindex: -1, id: "title" }, title), badge && h(Badge, { of: badge }),
  children && h("div", { class: "actions" }, children), sub && h("p", { class: "sub" }, sub));

export const Card = ({ title, children, class: more = "" }) =>
  h("section", { class: "card " + more }, title && h("h2", null, title), children);

export const Tile = ({ name, value, note }) => h("div", { class: "tile" },
  h("div", { class: "name" }, name), h("div", { class: "value" }, value), h("div", { class: "under" }, note));

// Table shows rows. A column has a name, what of a row it shows, and n if that is a number. On a phone each row is a
// block of lines; the roles keep it a table for those who hear it.
export function Table({ label, columns, rows, id }) {
  return h("table", { class: "stack", role: "table", "aria-label": label },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map((c) =>
      h("th", { scope: "col", role: "columnheader", class: c.n ? "n" : "" }, c.name)))),
    h("tbody", { role: "rowgroup" }, rows.map((row) => h("tr", { role: "row", key: id(row) }, columns.map((c, i) =>
      h(i ? "td" : "th", {
        role: i ? "cell" : "rowheader", scope: i ? undefined : "row", class: c.n ? "n" : "", "data-label": c.name,
      }, h("div", null, c.of(row))))))));
}

export const Empty = ({ title, children }) =>
  h("div", { class: "empty" }, h("h2", null, title), h("p", null, children));

export const Note = ({ kind: of = "", children, role }) => h("div", { class: "note " + of, role }, children);

// Refused says what a Problem says.
export function Refused({ problem, what = "" }) {
  return h(Note, { kind: "bad", role: "alert" }, h("b", null, what || "It did not work: "), problem.message);
}

// Facts are names with what is known of them; what is not known is left out.
export function Facts({ of }) {
  const known = of.filter(([, v]) => v !== undefined && v !== null && v !== "" && v !== false);
  return known.length ? h("dl", null, known.map(([k, v]) => [h("dt", { key: "t" + k }, k), h("dd", { key: "d" + k }, v)])) : null;
}

export const List = ({ of }) => h("ul", null, of.map((line) => h("li", { key: line }, line)));

// Bar shows parts of a whole: [kind, words, n].
export function Bar({ parts, label }) {
  const some = parts.filter(([, , n]) => n > 0);
  return h("div", null,
    h("div", { class: "bar", role: "img", "aria-label": label + ": " + some.map(([, w, n]) => `${n} ${w}`).join(", ") },
      some.map(([k, w, n]) => h("span", { key: w, class: k, style: { flex: n } }))),
    h("ul", { class: "key" }, some.map(([k, w, n]) =>
      h("li", { key: w }, h("i", { class: k }), h("b", null, number(n)), " " + w))));
}

// Meter shows how much of something is used.
export function Meter({ used, total, of }) {
  const part = total > 0 ? Math.min(1, used / total) : 0;
  return h("div", { class: "meter" }, usage(of, used, total),
    h("div", { class: "bar", "aria-hidden": "true" },
      h("span", { class: used > total ? "bad" : part >= 0.9 ? "warn" : "ok", style: { width: `${100 * part}%` } })));
}

// Standings says what every host is to one machine, and to operators which are nearest.
export function Standings({ hosts, link }) {
  const names = new Set([...standingNames, ...Object.keys(hosts.by)]);
  const parts = [...names].map((name) => [...standing(name), hosts.by[name] || 0]);
  return h("div", null,
    hosts.total ? h(Bar, { label: plural(hosts.total, "host"), parts }) : h("p", { class: "dim" }, "There are no hosts yet."),
    h(Facts, { of: [
      ["room now", plural(hosts.room, "such machine")],
      ["room if hosts were empty", plural(hosts.empty, "such machine")],
      ["short of", hosts.short.map((s) => `${className(s.class)} on ${plural(s.hosts, "host")} (at least ${amount(s.class, s.least)})`).join("; ")],
      ["traits", hosts.traits.map((t) => `${plural(t.hosts, "host")} ${t.required ? "without" : "with"} ${t.trait}`).join("; ")],
    ] }),
    hosts.nearest?.length ? h("details", null, h("summary", null, "Nearest hosts"), h(Table, {
      label: "nearest hosts", rows: hosts.nearest, id: (n) => n.host, columns: [
        { name: "host", of: (n) => link ? link(n.host) : n.host },
        { name: "is", of: (n) => standing(n.standing)[1] },
        { name: "why", of: (n) => [n.short && `short of ${amounts(n.short)}`, n.traits?.join(", "), n.reason].filter(Boolean).join("; ") },
        { name: "room", n: true, of: (n) => n.room || "" },
      ],
    })) : null);
}

// Resources is a small table of classes: one column for each of [name, resources].
export function Resources({ label, of }) {
  const shown = of.filter(([, r]) => r && Object.keys(r).length);
  const names = inOrder(new Set(shown.flatMap(([, r]) => Object.keys(r))));
  return h(Table, {
    label, rows: names, id: (c) => c, columns: [
      { name: "resource", of: className },
      ...shown.map(([name, r]) => ({ name, n: true, of: (c) => (c in r ? amount(c, r[c]) : "–") })),
    ],
  });
}

export const Pager = ({ first, next, shown }) => (first || next) ? h("nav", { class: "pager", "aria-label": "pages" },
  first && h("a", { class: "button", href: first }, "First page"),
  next && h("a", { class: "button", href: next }, "Next page"),
  h("span", { class: "dim" }, shown)) : null;

const drawn = {}; // the values of fields, by id

// kept is the value of a field that counts when it is left: what is typed until then stays when the page is drawn
// again, unless with another value, as after a way back.
export function kept(id, value) {
  const same = drawn[id] === value;
  drawn[id] = value;
  return same && document.activeElement?.id === id ? undefined : value;
}

// Field is an input with its label and what is wrong with it.
export function Field({ name, label, hint, errors, children, ...input }) {
  const id = "f-" + name;
  const about = [hint && id + "-hint", errors?.length && id + "-error"].filter(Boolean).join(" ") || undefined;
  const tag = input.type === "textarea" ? "textarea" : children ? "select" : "input";
  if (tag === "textarea") delete input.type;
  if (tag === "input" && input.onChange) input.value = kept(id, input.value);
  return h("div", { class: "field" }, h("label", { for: id }, label),
    h(tag, { id, name, "aria-describedby": about, "aria-invalid": errors?.length ? "true" : undefined, autocomplete: "off", ...input }, children),
    hint && h("p", { class: "hint", id: id + "-hint" }, hint),
    errors?.length ? h("p", { class: "error", id: id + "-error" }, errors.join("; ")) : null);
}
