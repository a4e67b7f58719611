import { live } from "/ui/live.js";
import { equal } from "./equal.js";

const quick = { least: 1, told: 1, burst: 1, again: 1 };
const turn = () => new Promise((done) => setTimeout(done));
const until = async (holds) => { while (!holds()) await turn(); };

// hide makes the page believe that nobody, or somebody, looks at it.
function hide(hidden) {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}

export async function followsUntilStopped() {
  let n = 0;
  const l = live(async () => { n++; }, { every: quick });
  await until(() => n > 3);
  l.stop();
  const then = n;
  for (let i = 0; i < 20; i++) await turn();
  equal(n, then);
}

export async function endsWhenAnsweredFalse() {
  let n = 0;
  live(async () => ++n < 3, { every: quick });
  await until(() => n === 3);
  for (let i = 0; i < 20; i++) await turn();
  equal(n, 3);
}

export async function asksNothingWhileHidden() {
  let n = 0;
  const l = live(async () => { n++; }, { every: quick });
  await until(() => n > 1);
  hide(true);
  await turn();
  const then = n;
  for (let i = 0; i < 20; i++) await turn();
  equal(n, then);
  hide(false);
  await until(() => n > then);
  l.stop();
}

export async function neverTwiceAtATime() {
  let running = 0, most = 0, n = 0, go;
  const l = live(async () => {
    most = Math.max(most, ++running);
    n++;
    await new Promise((done) => { go = done; });
    running--;
  }, { every: quick });
  l.now();
  l.now();
  go();
  await until(() => n === 2); // once more, for what was asked for meanwhile
  l.stop();
  go();
  await turn();
  equal([most, n], [1, 2]);
}
