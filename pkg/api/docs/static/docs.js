// Has Redoc render /openapi.json, and ask nobody but this node.

import { init } from "/docs/vendor/redoc.js";

// Redoc shows its maker's logo and loads it from elsewhere. The page's policy forbids that, and each reader's browser would
// complain. So an image from elsewhere is not asked for: it is told that it failed, and Redoc leaves it out.
const image = HTMLImageElement.prototype;
const elsewhere = (url) => new URL(url, location).origin !== location.origin;
const fail = (e) => { setTimeout(() => e.dispatchEvent(new Event("error"))); };
const attribute = image.setAttribute, src = Object.getOwnPropertyDescriptor(image, "src");
image.setAttribute = function (name, value) {
  if (name === "src" && elsewhere(value)) fail(this);
  else attribute.call(this, name, value);
};
Object.defineProperty(image, "src", {
  ...src,
  set(value) {
    if (elsewhere(value)) fail(this);
    else src.set.call(this, value);
  },
});

// Redoc is given the document and not its address: to an address it would add links to other makers' assistants.
const place = document.getElementById("api");
fetch("/openapi.json")
  .then((answer) => (answer.ok ? answer.json() : Promise.reject(answer.status)))
  .then((doc) => init(doc, { disableTelemetry: true, downloadUrls: [{ title: "openapi.json", url: "/openapi.json" }] }, place))
  .catch((e) => { place.textContent = "Cannot read /openapi.json: " + e; });

// For people who hear the page: Redoc does not mark its menu as one, and leaves out a level of headings.
new MutationObserver(() => {
  const menu = document.querySelector(".menu-content:not([role])");
  if (menu) Object.assign(menu, { role: "navigation", ariaLabel: "operations" });
  for (const e of document.querySelectorAll(":is(h4, h5, h6):not([aria-level])")) e.ariaLevel = e.tagName[1] - 1;
}).observe(document.body, { childList: true, subtree: true });
