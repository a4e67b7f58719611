import { asked, body, empty, faults, like, prefilled } from "/ui/form.js";
import { equal } from "./equal.js";

const small = { name: "m1.small", capabilities: ["disk"] };

export function bodies() {
  equal(body({ ...empty(), flavor: "m1.small" }, small, "p"), { project: "p", flavor: "m1.small" });
  const all = {
    name: " web ", flavor: "m1.small", with: { disk: "ssd", gpu: "a100" }, image: "debian", metadata: [["k", "v"], ["", ""]],
    ssh_keys: "a\n\n b \n", user_data: "é", attempts: "2", deadline: "10m", on_no_capacity: "fail", host: "h1", avoid: "h2, h3",
  };
  equal(body(all, small, "p"), {
    project: "p", name: "web", flavor: "m1.small", with: { disk: "ssd" }, image: "debian", metadata: { k: "v" },
    ssh_keys: ["a", "b"], user_data: "w6k=", attempts: 2, deadline: "10m", on_no_capacity: "fail", host: "h1", avoid: ["h2", "h3"],
  });
  equal(asked(all, small, "p"), { ...body(all, small, "p"), user_data: "eA==" }); // that there is some
  equal(asked({ ...empty(), flavor: "m1.small" }, small, "p"), { project: "p", flavor: "m1.small" });
}

export function again() {
  const i = { project: "p", name: "web", flavor: "m1.small", with: { disk: "ssd", gpu: "a100" } };
  const form = prefilled(like(i), ["m1.huge", "m1.small"]);
  equal([form.name, form.flavor, form.with, form.image], ["web", "m1.small", i.with, ""]);
  equal(prefilled({ flavor: "gone" }, ["m1.huge"]).flavor, "m1.huge");
  equal(prefilled({}, ["m1.huge"]), { ...empty(), flavor: "m1.huge" });
}

export function faultsBesideTheirFields() {
  const axes = ["gpu"];
  equal(faults({ field: "attempts", message: "", remedy: "give at most 20 attempts" }, axes), { attempts: ["give at most 20 attempts"] });
  equal(faults({ field: "gpu", message: "does not exist", remedy: "choose one of a100" }, axes), { "with.gpu": ["does not exist: choose one of a100"] });
  equal(faults({ field: "ssh_keys[0]", remedy: "give a key" }, axes), { ssh_keys: ["give a key"] });
  equal(faults({ field: "metadata.a", errors: [{ location: "body.metadata.a", message: "expected string" }] }, axes), { metadata: ["expected string"] });
  equal(faults({ field: "body", message: 'duration "x" is not valid', remedy: "see /docs for what it takes", errors: [{ location: "body", message: "m" }] }, axes),
    { deadline: ['duration "x" is not valid'] });
  equal(faults({ kind: "unreachable", detail: "this node does not answer" }, axes), { "": ["this node does not answer"] });
  equal(faults({ field: "role", message: "is needed", remedy: "ask an admin" }, axes), { "": ["is needed: ask an admin"] });
}
