// Where a person is: what stands behind # in the address. Pure.

// parse reads "#/instances/ID?state=queued&state=error": the parts of the path and what is asked.
export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const asked = {};
  for (const [k, v] of new URLSearchParams(query)) asked[k] = v;
  return { path: path.split("/").filter(Boolean).map(safe), query: asked };
}

function safe(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// to is the address of a page; what is empty is left out.
export function to(path, query = {}) {
  const kept = Object.entries(query).filter(([, v]) => v !== undefined && v !== null && v !== "");
  const text = new URLSearchParams(kept).toString();
  return "#/" + path.map(encodeURIComponent).join("/") + (text ? "?" + text : "");
}
