// The API of this node, with the token of the person who looks.

let token = sessionStorage.getItem("token") || "";

// keepToken is for this tab only, and gone when it is closed.
export function keepToken(text) {
  token = text;
  if (text) sessionStorage.setItem("token", text);
  else sessionStorage.removeItem("token");
}

export const hasToken = () => token !== "";

// headers are those that every request has.
export const headers = () => (token ? { Authorization: "Bearer " + token } : {});

// Problem is a refusal in the API's words.
export class Problem extends Error {
  constructor(problem) {
    super(problem.detail || problem.message || problem.title || "the node refused");
    Object.assign(this, problem);
    this.message = problem.detail || this.message;
    this.says = problem;
  }
}

// settled says that the same question will be answered the same: it is not asked again and again. A refusal may be in
// the audit.
export const settled = (problem) => problem.status >= 400 && problem.status < 500 && ![408, 429].includes(problem.status);

// newKey is for one wish: a request that is sent twice under it is done once. randomUUID is there on https alone.
export const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");

async function answer(method, path, { query, body, key, accept = "application/json", signal } = {}) {
  const url = new URL(path, location.origin);
  for (const [k, v] of Object.entries(query || {})) {
    for (const one of [].concat(v)) if (one !== "" && one !== undefined && one !== null) url.searchParams.append(k, one);
  }
  const init = { method, headers: { ...headers(), Accept: accept }, signal: signal || AbortSignal.timeout(45000), cache: "no-store" };
  if (key) init.headers["Idempotency-Key"] = key;
  if (body !== undefined) {
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  let r;
  try {
    r = await fetch(url, init);
  } catch (e) {
    if (signal?.aborted) throw e;
    throw new Problem({ kind: "unreachable", detail: "this node does not answer: it may have ended, or the network to it" });
  }
  if (r.ok) return r;
  const text = await r.text();
  try {
    throw new Problem(JSON.parse(text));
  } catch (e) {
    throw e instanceof Problem ? e : new Problem({ status: r.status, detail: `the node answered ${r.status} ${r.statusText}` });
  }
}

// call answers the JSON of an operation, or throws a Problem.
export async function call(method, path, options) {
  const r = await answer(method, path, options);
  return r.status === 204 ? null : r.json();
}

export const get = (path, query) => call("GET", path, { query });

// stream is what an operation goes on telling, as text, until the signal ends it.
export async function stream(path, query, signal) {
  const r = await answer("GET", path, { query, signal, accept: "text/event-stream" });
  return r.body.pipeThrough(new TextDecoderStream()).getReader();
}

// all walks through the pages of a list, up to about so many items. more says that there are others.
export async function all(path, query = {}, most = 2000) {
  const items = [];
  let marker;
  do {
    const page = await get(path, { ...query, limit: 1000, marker });
    items.push(...page.items);
    marker = page.next;
  } while (marker && items.length < most);
  return { items, more: Boolean(marker) };
}

// at is a path of the API with its parts made safe.
export const at = (...parts) => "/v1/" + parts.map(encodeURIComponent).join("/");
