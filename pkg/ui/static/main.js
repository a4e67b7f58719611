// The frame around the pages: who looks, where they are, and one page that follows what happens.

import { h, render } from "./vendor/preact.mjs";
import { all, hasToken, keepToken, settled } from "./api.js";
import { Dialog } from "./dialog.js";
import { live } from "./live.js";
import { parse, to } from "./route.js";
import { begin, choose, operates, session, signOut } from "./session.js";
import { Field, Head, kept, Note, Refused } from "./views.js";
import * as boot from "./pages/boot.js";
import * as flavors from "./pages/flavors.js";
import * as host from "./pages/host.js";
import * as hosts from "./pages/hosts.js";
import * as instance from "./pages/instance.js";
import * as instances from "./pages/instances.js";
import * as overview from "./pages/overview.js";
import * as queue from "./pages/queue.js";
import * as queues from "./pages/queues.js";
import * as quotas from "./pages/quotas.js";

// A page has a title, load, which reads what it shows, and view, which is a function of that; changes says which changes of
// instances bring something new. frame draws the title and the filters around rows, or around a notice while there are
// none. Those with a second part in their path are of one thing.
const pages = { overview, instances, boot, queues, hosts, quotas, flavors };
const single = { instances: instance, queues: queue, hosts: host };

const root = document.getElementById("app");
let at = null; // what is shown: { page, route, asks, data, problem, fresh, moved, follow }
let ask = null; // the question that is open
let said = null; // what the last action came to: { kind, text }
let refused = null; // why nobody is signed in: { problem, why }
let projects = [];

const context = {
  get project() { return at.route.query.project || session.project; },
  // go shows another page.
  go(path, query) { location.hash = to(path, query); },
  // again reads anew at once.
  again() { at.follow?.now(); },
  // confirm asks before it does something, and says afterwards what came of it.
  confirm(question) {
    ask = { ...question, run: async (values) => { say("ok", await question.run(values)); context.again(); } };
    draw();
  },
  say, redraw: () => draw(),
};

// say shows for a while what came of something.
function say(kind, text) {
  const mine = said = { kind, text };
  draw();
  setTimeout(() => {
    if (said !== mine) return;
    said = null;
    draw();
  }, 10000);
}

const close = (question) => {
  if (ask !== question) return;
  ask = null;
  draw();
};

// show goes to where the address says.
function show() {
  at?.follow?.stop();
  const route = parse(location.hash);
  const name = pages[route.path[0]] ? route.path[0] : "overview";
  const page = (route.path[1] && single[name]) || pages[name];
  // What was read for another project, filter or page of a list is not shown under this one's name.
  const asks = JSON.stringify([route.path, { project: session.project, ...route.query }]);
  const same = at && at.page === page && at.asks === asks;
  const moved = at?.page !== page || at.route.path.join() !== route.path.join();
  const here = { page, name, route, asks, data: same ? at.data : null, problem: null, fresh: !same, moved };
  at = here;
  if (!same) {
    said = null;
    scrollTo(0, 0);
  }
  draw();
  if (page.operators && !operates()) return;
  const follows = { changes: page.changes?.(context, route), heard: page.heard, every: page.every };
  here.follow = live(async () => {
    try {
      const data = await page.load(context, route);
      if (at !== here) return;
      Object.assign(here, { data, problem: null });
    } catch (problem) {
      if (at !== here) return;
      if (problem.status === 401) return leave(problem);
      here.problem = problem;
      if (!problem.says) console.error(problem);
    }
    draw();
    return !(here.problem && settled(here.problem));
  }, follows);
}

// leave asks for a token. The problem, if any, is why the one before does not do.
function leave(problem) {
  at?.follow?.stop();
  at = null;
  const unknown = problem?.status === 401;
  const why = !problem ? "" : !unknown ? "The node is not ready: " : hasToken() ? "This token does not count: " : "";
  if (!problem || unknown) signOut();
  refused = { problem, why };
  draw();
}

// begins asks who looks, and shows the page or asks for a token.
async function begins() {
  try {
    await begin();
    refused = null;
    all("/v1/quotas", {}, 1000).then((q) => {
      projects = q.items.map((i) => i.project).filter((p) => p !== "_default");
      draw();
    }, () => {});
    show();
  } catch (problem) {
    leave(problem);
  }
}

function signIn(e) {
  e.preventDefault();
  keepToken(e.target.elements.token.value.trim());
  begins();
}

const SignIn = () => h("main", { id: "main" }, h("div", { class: "card" },
  h("h1", { tabindex: -1, id: "title" }, "Sign in"),
  h("p", { class: "dim" }, "Who calls this cell shows a token. It is kept for this tab, and forgotten when the tab is closed."),
  refused.why && h(Refused, { problem: refused.problem, what: refused.why }),
  h("form", { onSubmit: signIn },
    h(Field, { name: "token", label: "Token", type: "password", hint: "As berth token create has printed it: berth_…", required: true }),
    h("button", { class: "main" }, "Sign in"))));

function Who() {
  const me = session.caller;
  return h("div", { class: "who" },
    h("label", { for: "project" }, "Project"),
    h("input", {
      id: "project", list: "projects", value: kept("project", context.project), spellcheck: false,
      onChange: (e) => { const p = e.target.value.trim() || "default"; choose(p); context.go([at.name], { project: p }); },
    }),
    h("datalist", { id: "projects" }, projects.map((p) => h("option", { key: p, value: p }))),
    me.open ? h("span", { class: "dim" }, "Nobody signs in here: whoever reaches this node may do everything.")
      : h("span", null, me.name + (me.cell ? `, ${me.cell} of the cell ` : " "),
        h("button", { class: "link", onClick: () => leave() }, "Sign out")),
    h("a", { href: "/docs" }, "API documentation"));
}

const Top = () => h("header", { class: "top" },
  h("a", { class: "brand", href: "#/" }, h("img", { src: "/ui/icon.svg", alt: "" }), "Berth"),
  h("nav", { "aria-label": "pages of the console" }, h("ul", null, Object.entries(pages)
    .filter(([, p]) => !p.operators || operates())
    .map(([name, p]) => h("li", { key: name }, h("a", { href: to([name]), "aria-current": at.name === name ? "page" : undefined }, p.title))))),
  h(Who));

function Body() {
  const { page, data, problem, route } = at;
  if (page.operators && !operates()) {
    return [h(Head, { title: page.title }), h(Note, { kind: "warn" }, "This page is for operators of the cell, and your token has no role of the cell.")];
  }
  const kept = problem && h(Refused, { problem, what: data ? "What follows is not fresh: " : "This cannot be shown: " });
  if (data) return [kept, page.view(data, context, route)];
  const instead = kept || h("p", { class: "dim" }, "Reading …");
  return page.frame ? [null, page.frame(context, route, instead)] : [h(Head, { title: page.title }), instead];
}

const Shell = () => h("div", { class: "shell" },
  h("a", { class: "skip", href: "#main", onClick: (e) => { e.preventDefault(); document.getElementById("title")?.focus(); } }, "To the page"),
  h(Top),
  h("main", { id: "main" },
    h(Body)),
  h("div", { role: "status", class: "said" }, said && h(Note, { kind: said.kind }, said.text)),
  ask && h(Dialog, { ask, close }));

function draw() {
  if (!at) {
    if (refused) render(h(SignIn), root);
    document.title = "Sign in · Berth";
    return;
  }
  render(h(Shell), root);
  const title = document.getElementById("title");
  document.title = (title?.textContent || at.page.title) + " · Berth";
  if (title && at.fresh && at.data) {
    at.fresh = false;
    const focus = document.activeElement;
    if (!focus || focus === document.body || (at.moved && focus.closest("nav, main"))) title.focus({ preventScroll: true });
  }
}

addEventListener("hashchange", () => session.caller && show());
begins();
