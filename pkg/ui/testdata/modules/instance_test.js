import { h, render } from "/ui/vendor/preact.mjs";
import { session } from "/ui/session.js";
import { view } from "/ui/pages/instance.js";
import { equal } from "./equal.js";

// offered are the buttons at the top of the page of an active instance, and what Start asks before it is done.
function offered(power) {
  const instance = { id: "00000000-0000-4000-8000-000000000001", name: "web", project: "p", state: "active", power, flavor: "m1.small" };
  const root = document.createElement("div");
  let asked;
  session.caller = { cell: "admin" };
  try {
    render(h(() => view({ instance, explained: { summary: "", next: [], you_can: [] } }, { confirm: (q) => { asked = q.text; } })), root);
    const buttons = [...root.querySelectorAll(".actions button")];
    buttons.find((b) => b.textContent === "Start")?.click();
    return [buttons.map((b) => b.textContent), asked];
  } finally {
    render(null, root);
    session.caller = null;
  }
}

export function whatDoesNotRunCanBeStarted() {
  equal(offered("running"), [["Stop", "Reboot", "Delete"], undefined]);
  equal(offered("stopped"), [["Start", "Delete"], "It starts again from its disk."]);
  equal(offered("paused"), [["Start", "Stop", "Reboot", "Delete"], "It goes on where it stood still."]);
}
