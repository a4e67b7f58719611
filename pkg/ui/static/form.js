// The boot form without its page. Pure.

// empty is a form that nobody has filled in.
export const empty = () => ({
  name: "", flavor: "", with: {}, image: "", metadata: [], ssh_keys: "", user_data: "", attempts: "", deadline: "",
  on_no_capacity: "", priority: "", preemptible: "", host: "", avoid: "",
});

// like is the form that asks for a machine as an instance is; flavors are all that there are. Of a flavor that is gone
// it begins with another.
export const like = (i, flavors) => ({
  ...empty(), name: i.name, flavor: (offered(i, flavors) || flavors[0]).name, with: { ...i.with }, image: i.image || "",
  metadata: Object.entries(i.metadata || {}), ssh_keys: (i.ssh_keys || []).join("\n"), attempts: String(i.attempts || ""),
  on_no_capacity: i.on_no_capacity || "", priority: i.priority || "", preemptible: i.preemptible?.then || "",
  host: i.pinned_to || "", avoid: (i.avoid || []).join(" "),
});

const offered = (i, flavors) => flavors.find((f) => f.name === i.flavor);

// unlike is what of the instance is not in that form, in words.
export function unlike(i, flavors) {
  const axes = (offered(i, flavors) || flavors[0]).capabilities || [];
  return [
    !offered(i, flavors) && `flavor ${i.flavor}, which is not offered any more`,
    ...Object.entries(i.with || {}).filter(([axis]) => !axes.includes(axis)).map((choice) => choice.join("=")),
    i.group && `group ${i.group}`, i.reservation && `reservation ${i.reservation}`,
    i.placeholder && `placeholder of reservation ${i.placeholder.reservation}`, i.set && `its set of ${i.set.size}`,
    i.preemptible && `the grace of ${i.preemptible.grace} for its guest`,
    "its deadline and its user data, if it had some: the node does not tell them",
  ].filter(Boolean);
}

const words = (text) => text.split(/[\s,]+/).filter(Boolean);

// chosen is the choices that count: on axes that the flavor may be combined with.
export function chosen(form, flavor) {
  const axes = flavor?.capabilities || [];
  return Object.fromEntries(Object.entries(form.with).filter(([axis, value]) => value && axes.includes(axis)));
}

// asked is what the API is asked before booting, again and again: what would become of it. User data may be large; that
// there is some counts, for where it is sealed only hosts with the key take it.
export const asked = (form, flavor, project) => body({ ...form, user_data: form.user_data && "x" }, flavor, project);

// body is the request for one machine. What is left empty is left out.
export function body(form, flavor, project) {
  const out = {
    project, name: form.name.trim(), flavor: form.flavor, with: chosen(form, flavor), image: form.image.trim(),
    metadata: Object.fromEntries(form.metadata.filter(([k, v]) => k || v)),
    ssh_keys: form.ssh_keys.split("\n").map((l) => l.trim()).filter(Boolean), user_data: base64(form.user_data),
    attempts: form.attempts === "" ? undefined : Number(form.attempts), deadline: form.deadline.trim(),
    on_no_capacity: form.on_no_capacity, priority: form.priority,
    preemptible: form.preemptible ? { then: form.preemptible } : undefined, host: form.host.trim(), avoid: words(form.avoid),
  };
  for (const [k, v] of Object.entries(out)) {
    if (v === "" || v === undefined || (typeof v === "object" && !Object.keys(v).length)) delete out[k];
  }
  return out;
}

function base64(text) {
  let bytes = "";
  for (const b of new TextEncoder().encode(text)) bytes += String.fromCharCode(b);
  return btoa(bytes);
}

// faults says which field each part of a problem is about, by the field's name; what is about none is under "".
export function faults(problem, axes) {
  const out = {};
  const note = (field, text) => (out[place(field, axes)] ||= []).push(text);
  const schema = (problem.errors || []).filter((e) => e.location?.includes("."));
  for (const e of schema) note(e.location.replace(/^(body|query)\./, ""), e.message);
  if (!schema.length) {
    // A duration that cannot be read is refused before it is known whose it was; this form has one.
    const field = problem.message?.startsWith('duration "') ? "deadline" : problem.field || "";
    const remedy = problem.remedy?.startsWith("see /docs") ? "" : problem.remedy;
    const text = [problem.message, remedy].filter(Boolean).join(": ");
    note(field, field && text ? text : problem.detail || problem.message || "the node refused");
  }
  return out;
}

// place is the field of the form that a name of the API's is about.
function place(name, axes) {
  const first = name.split(/[.[]/)[0];
  if (first === "with" && axes.includes(name.split(".")[1])) return "with." + name.split(".")[1];
  if (axes.includes(first)) return "with." + first;
  if (first === "queue" || first === "capability") return "flavor";
  return first in empty() ? first : "";
}
