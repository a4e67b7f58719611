import { h, render } from "/ui/vendor/preact.mjs";
import { session } from "/ui/session.js";
import { view } from "/ui/pages/instance.js";
import { equal } from "./equal.js";

// drawn is what look finds on the page of an active instance; confirm hears what is asked before something is done.
function drawn(more, look, confirm) {
  const instance = { id: "00000000-0000-4000-8000-000000000001", name: "web", project: "p", state: "active", flavor: "m1.small", ...more };
  const root = document.createElement("div");
  session.caller = { cell: "admin" };
  try {
    render(h(() => view({ instance, explained: { summary: "", next: [], you_can: [] } }, { confirm })), root);
    return look(root);
  } finally {
    render(null, root);
    session.caller = null;
  }
}

// offered are the buttons at the top of that page, and what one of them asks before it is done.
function offered(more, press = "Start") {
  let asked;
  const buttons = drawn(more, (root) => {
    const all = [...root.querySelectorAll(".actions button")];
    all.find((b) => b.textContent === press)?.click();
    return all.map((b) => b.textContent);
  }, (q) => { asked = q.text; });
  return [buttons, asked];
}

export function whatDoesNotRunCanBeStarted() {
  equal(offered({ power: "running" }), [["Stop", "Reboot", "Delete"], undefined]);
  equal(offered({ power: "stopped" }), [["Start", "Delete"], "It starts again from its disk."]);
  equal(offered({ power: "paused" }), [["Start", "Stop", "Reboot", "Delete"], "It goes on where it stood still."]);
}

// facts are what the page says of an instance, by name.
const facts = (more) => drawn(more, (root) =>
  Object.fromEntries([...root.querySelectorAll("dt")].map((name) => [name.textContent, name.nextSibling.textContent])));

const of = (all, ...names) => names.map((name) => all[name]);

export function whatItIsToOthersIsSaid() {
  equal(of(facts({ group: "front", set: { id: "a", size: 3 }, reservation: "nightly", in_placeholder: "b" }), "group", "set", "reservation", "room of", "placeholder"),
    ["front", "one of 3, of which all start or none; the first is a", "nightly", "placeholder b", undefined]);
  equal(of(facts({ set: { id: "a", size: 3, granted: true } }), "group", "set", "reservation"),
    [undefined, "one of 3, granted together; the first is a", undefined]);
}

const placeholder = { placeholder: { reservation: "nightly", taken_by: "c" } };

export function aPlaceholderHasNoMachine() {
  const [buttons, asked] = offered(placeholder, "Delete");
  equal(buttons, ["Delete"]);
  equal(asked.startsWith("The room that web (00000000-0000-4000-8000-000000000001) holds for reservation nightly is free again."), true);
  equal(drawn(placeholder, (root) => root.textContent.includes("Show what it prints")), false);
  equal(drawn({}, (root) => root.textContent.includes("Show what it prints")), true);
  equal(of(facts(placeholder), "placeholder"), ["of reservation nightly, without a machine; taken by c"]);
}
