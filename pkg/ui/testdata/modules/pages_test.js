import { session } from "/ui/session.js";
import { Bar, Pager, Standings } from "/ui/views.js";
import * as flavors from "/ui/pages/flavors.js";
import * as overview from "/ui/pages/overview.js";
import * as queuePage from "/ui/pages/queue.js";
import * as quotas from "/ui/pages/quotas.js";
import { equal } from "./equal.js";

const item = { host: "h", name: "q", project: "p", queued: 1, hosts: { total: 2, eligible: 1, never_fits: 0 }, machines: 0, building: 0, resources: [], values: [] };

// shown is what a page shows of a node whose lists have a thousand items on each page, and no end or one page.
async function shown(page, more, query = {}) {
  const fetched = globalThis.fetch, asked = [];
  globalThis.fetch = async (url) => {
    asked.push(url.pathname + url.search);
    if (url.pathname === "/v1/quotas/shop") return Response.json({ ...item, project: "shop" });
    return Response.json({ items: Array(1000).fill(item), next: more ? "there" : undefined });
  };
  try {
    session.caller = { cell: "admin" };
    page.changes?.({ project: "p" });
    const nodes = parts(page.view(await page.load({ project: "p" }, { query }), { project: "p" }, { query }));
    return { says: nodes.filter((n) => typeof n === "string").join("\n"), pager: nodes.find((n) => n.type === Pager)?.props, asked };
  } finally {
    globalThis.fetch = fetched;
    session.caller = null;
  }
}

// parts are the nodes and the texts that a view has made.
const parts = (view) => [view].flat(Infinity).filter(Boolean).flatMap((n) => [n, ...(n.props ? parts(n.props.children) : [])]);

const has = ({ says }, words, want) => { if (says.includes(words) !== want) throw new Error(`${want ? "no" : "it says"} ${words}: ${says}`); };

export async function flavorsSayThatThereAreOthers() {
  has(await shown(flavors, true), "only the first 2,000 flavors", true);
  has(await shown(flavors, false), "There are others", false);
}

export async function theOverviewClaimsNoMoreThanItCounted() {
  const cut = await shown(overview, true), whole = await shown(overview, false);
  has(cut, "only its first 2,000 queues", true);
  has(cut, "Nothing that this node knows of.", false);
  has(cut, "Nothing among what is counted here.", true);
  has(whole, "only its first", false);
  has(whole, "Nothing that this node knows of.", true);
}

export async function quotasComeInPages() {
  const { pager, asked } = await shown(quotas, true, { marker: "here" });
  equal(asked, ["/v1/quotas?limit=100&marker=here"]);
  equal([pager.first, pager.next], ["#/quotas", "#/quotas?marker=there"]);
  equal((await shown(quotas, false)).pager.next, undefined);
  equal((await shown(quotas, false, { only: "shop" })).asked, ["/v1/quotas/shop"]);
}

export function hostsInAStandingOfALaterVersionAreShown() {
  const hosts = { total: 5, by: { full: 2, "of-later": 3 }, room: 0, empty: 0, short: [], traits: [] };
  const bar = parts(Standings({ hosts })).find((n) => n.type === Bar);
  equal(bar.props.parts.filter(([, , n]) => n > 0), [["warn", "full", 2], ["dim", "of-later", 3]]);
}

// asksAbout is what the page of a queue asks /v1/explain.
async function asksAbout(queue) {
  const fetched = globalThis.fetch, asked = [];
  globalThis.fetch = async (url) => {
    asked.push(url.pathname + url.search);
    return Response.json(url.pathname.startsWith("/v1/queues/") ? queue : { items: [] });
  };
  try {
    await queuePage.load({ project: "p" }, { path: ["queues", queue.name] });
  } finally {
    globalThis.fetch = fetched;
  }
  return asked.filter((path) => path.startsWith("/v1/explain"));
}

export async function aTierOfAQueueIsExplainedAsItself() {
  equal(await asksAbout({ name: "m1.small.disk-ssd.priority-high", flavor: "m1.small", with: { disk: "ssd" }, priority: "high" }),
    ["/v1/explain?project=p&flavor=m1.small&with=disk%3Dssd&priority=high"]);
  equal(await asksAbout({ name: "m1.small", flavor: "m1.small" }), ["/v1/explain?project=p&flavor=m1.small"]);
}
