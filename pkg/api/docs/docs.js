"use strict";
// Renders /openapi.json. Text is only ever set as text, never as markup.

function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  for (const c of children) if (c !== null && c !== undefined) e.append(c);
  return e;
}

const paragraphs = (text) => (text || "").split("\n\n").filter(Boolean).map((p) => el("p", {}, p));

const nameOf = (ref) => ref.slice(ref.lastIndexOf("/") + 1);

function typeOf(s) {
  if (!s) return "";
  if (s.$ref) return el("a", { href: "#schema-" + nameOf(s.$ref) }, nameOf(s.$ref));
  const type = [].concat(s.type || "any").filter((t) => t !== "null").join(" or ");
  if (type === "array") return el("span", {}, "list of ", typeOf(s.items));
  if (type === "object" && s.additionalProperties && typeof s.additionalProperties === "object") {
    return el("span", {}, "map to ", typeOf(s.additionalProperties));
  }
  return type + (s.format ? " (" + s.format + ")" : "") + (s.contentEncoding ? " (" + s.contentEncoding + ")" : "");
}

function notes(s) {
  const target = s.items || s;
  const parts = [];
  if (target.enum) parts.push("One of " + target.enum.join(", ") + ".");
  if (s.default !== undefined) parts.push("Default " + s.default + ".");
  if (s.minimum !== undefined && s.maximum !== undefined) parts.push(s.minimum + " to " + s.maximum + ".");
  return parts.join(" ");
}

function table(rows) {
  const t = el("table", {}, el("tr", {}, el("th", {}, "name"), el("th", {}, "type"), el("th", {}, "meaning")));
  for (const r of rows) {
    t.append(el("tr", {},
      el("td", {}, el("code", {}, r.name), r.required ? el("span", { class: "dim" }, " required") : null),
      el("td", {}, typeOf(r.schema)),
      el("td", {}, [r.text, notes(r.schema || {})].filter(Boolean).join(" "))));
  }
  return t;
}

function properties(s) {
  return Object.entries(s.properties || {}).map(([name, p]) => ({
    name, schema: p, text: p.description, required: (s.required || []).includes(name),
  }));
}

function bodyOf(content) {
  const first = Object.values(content || {})[0];
  return first ? first.schema : null;
}

function operation(path, method, op) {
  const s = el("section", { id: op.operationId },
    el("h2", {}, op.summary || op.operationId),
    el("p", {}, el("span", { class: "method" }, method.toUpperCase()), el("span", { class: "path" }, path)),
    ...paragraphs(op.description));
  const params = (op.parameters || []).map((p) => ({
    name: p.name, schema: p.schema, text: (p.description || "") + " (" + p.in + ")", required: p.required,
  }));
  if (params.length) s.append(table(params));
  const request = op.requestBody && bodyOf(op.requestBody.content);
  if (request) s.append(el("p", {}, "Body: ", typeOf(request)));
  for (const [status, r] of Object.entries(op.responses || {})) {
    s.append(el("div", {}, el("b", {}, status), " " + (r.description || "") + " ", typeOf(bodyOf(r.content))));
  }
  return s;
}

function render(doc) {
  const main = document.getElementById("main");
  const nav = document.getElementById("nav");
  main.replaceChildren(
    el("h1", {}, doc.info.title + " API"),
    el("p", {}, doc.info.description || ""),
    el("p", { class: "dim" }, "Version " + doc.info.version + ", as ", el("a", { href: "/openapi.json" }, "OpenAPI " + doc.openapi)));
  let group = "";
  const operations = [];
  for (const [path, methods] of Object.entries(doc.paths)) {
    for (const [method, op] of Object.entries(methods)) {
      if (op && op.operationId) operations.push({ path, method, op, tag: (op.tags || ["other"])[0] });
    }
  }
  operations.sort((a, b) => a.tag.localeCompare(b.tag));
  for (const o of operations) {
    if (o.tag !== group) {
      group = o.tag;
      nav.append(el("h2", {}, group));
    }
    nav.append(el("a", { href: "#" + o.op.operationId }, o.op.summary || o.op.operationId));
    main.append(operation(o.path, o.method, o.op));
  }
  nav.append(el("h2", {}, "schemas"));
  for (const [name, s] of Object.entries(doc.components.schemas)) {
    nav.append(el("a", { href: "#schema-" + name }, name));
    main.append(el("section", { id: "schema-" + name }, el("h2", {}, name), table(properties(s))));
  }
}

fetch("/openapi.json")
  .then((r) => r.json())
  .then(render)
  .catch((e) => document.getElementById("main").replaceChildren(el("p", {}, "Cannot read /openapi.json: " + e)));
