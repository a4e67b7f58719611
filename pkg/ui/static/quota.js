// A project's limits as an admin changes them. Pure.

// ownLimit is the project's own limit of a resource; undefined where it has none, and the default's counts.
export const ownLimit = (project, resource) =>
  resource?.from === (project === "_default" ? "default" : "project") ? resource.limit : undefined;

// change is the request that sets the limits that were typed, "" for none of the project's own. It has those alone that
// were shown otherwise: the others stay as they are by then, for another admin may have changed them meanwhile.
export function change(shown, typed) {
  const limits = {};
  for (const [c, text] of Object.entries(typed)) {
    const was = ownLimit(shown.project, shown.resources.find((r) => r.class === c)) ?? null;
    const wanted = text === "" ? null : Number(text);
    if (wanted !== was) limits[c] = wanted;
  }
  return { limits };
}
