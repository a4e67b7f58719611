import { asked, body, empty, faults, like, unlike } from "/ui/form.js";
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
  const flavors = [{ name: "m1.huge" }, { name: "m1.small", capabilities: ["disk"] }];
  const untold = "its deadline and its user data, if it had some: the node does not tell them";
  const i = {
    id: "1", project: "p", name: "web", flavor: "m1.small", with: { disk: "ssd" }, image: "debian", metadata: { team: "shop", tier: "" },
    ssh_keys: ["a", "b"], attempts: 5, on_no_capacity: "wait", pinned_to: "h1", avoid: ["h2", "h3"], priority: "low",
    preemptible: { then: "delete", grace: "30s" }, group: "g", reservation: "r", set: { size: 4 }, state: "deleted", host: "h1",
  };
  equal(body(like(i, flavors), flavors[1], "p"), {
    project: "p", name: "web", flavor: "m1.small", with: { disk: "ssd" }, image: "debian", metadata: { team: "shop", tier: "" },
    ssh_keys: ["a", "b"], attempts: 5, on_no_capacity: "wait", priority: "low", preemptible: { then: "delete" }, host: "h1", avoid: ["h2", "h3"],
  });
  equal(unlike(i, flavors), ["group g", "reservation r", "its set of 4", "the grace of 30s for its guest", untold]);

  const plain = { id: "1", project: "p", name: "", flavor: "m1.huge" };
  equal(like(plain, flavors), { ...empty(), flavor: "m1.huge" });
  equal(unlike(plain, flavors), [untold]);

  const gone = { ...plain, flavor: "gone", with: { gpu: "a100" } };
  equal(body(like(gone, flavors), flavors[0], "p"), { project: "p", flavor: "m1.huge" });
  equal(unlike(gone, flavors), ["flavor gone, which is not offered any more", "gpu=a100", untold]);
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
