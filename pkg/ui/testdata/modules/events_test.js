import { blocks } from "/ui/events.js";
import { live } from "/ui/live.js";
import { equal } from "./equal.js";

const turn = () => new Promise((done) => setTimeout(done));
const until = async (holds) => { while (!holds()) await turn(); };

export function wholeBlocks() {
  equal(blocks("retry: 1000\nid: 1\n\n:\n\nevent: change\ndata: {\ndata: }\nid: 2\n\nevent: gap\nda"),
    [[{ event: "change", data: "{\n}" }], "event: gap\nda"]);
  equal(blocks("event:end\r\ndata:x\r\n\r\n"), [[{ event: "end", data: "x" }], ""]);
}

// served has the node answer /v1/events with what is put into tell, while test runs.
async function served(test) {
  const fetched = globalThis.fetch;
  const streams = [];
  globalThis.fetch = async (url, { signal }) => {
    let tell;
    const body = new ReadableStream({ start(c) { tell = c; } });
    signal.addEventListener("abort", () => tell.error(signal.reason));
    streams.push({ url: String(url), say: (text) => tell.enqueue(new TextEncoder().encode(text)), end: () => tell.close() });
    return new Response(body);
  };
  try {
    await test(streams);
  } finally {
    globalThis.fetch = fetched;
  }
}

const never = 1 << 30;

export const aChangeBringsItAnew = () => served(async (streams) => {
  let n = 0;
  const heard = [];
  const l = live(async () => { n++; }, { changes: { project: "p" }, heard: (e, d) => heard.push([e, d.state]), every: { least: never, told: never, burst: 1, again: 1 } });
  await until(() => n === 1 && streams.length === 1);
  equal(new URL(streams[0].url).search, "?project=p");
  streams[0].say('event: change\ndata: {"state"');
  streams[0].say(': "active"}\n\n');
  await until(() => n === 2);
  equal(heard, [["change", "active"]]);
  streams[0].end(); // the node stopped: it asks again, and listens again
  await until(() => n === 3 && streams.length === 2);
  l.stop();
});

export async function aRefusalIsNotAskedForAgain() {
  const fetched = globalThis.fetch;
  let asked = 0, n = 0;
  globalThis.fetch = async () => { asked++; return new Response('{"status": 403, "detail": "no"}', { status: 403 }); };
  try {
    const l = live(async () => { n++; }, { changes: { project: "p" }, every: { least: 1, told: never, burst: 1, again: 1 } });
    await until(() => n > 9); // it reads by itself
    equal(asked, 1);
    l.stop();
  } finally {
    globalThis.fetch = fetched;
  }
}

export const nobodyListensWhileHidden = () => served(async (streams) => {
  const hide = (hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  };
  const l = live(async () => {}, { changes: { project: "p" }, every: { least: never, told: never, burst: 1, again: 1 } });
  await until(() => streams.length === 1);
  hide(true);
  for (let i = 0; i < 20; i++) await turn();
  equal(streams.length, 1);
  hide(false);
  await until(() => streams.length === 2);
  l.stop();
});

// watched gives test the timer of silence, which is the only one of 45 s: last is what it would call, null for none.
async function watched(test) {
  const { setTimeout: set, clearTimeout: clear } = globalThis;
  const silence = { last: null };
  globalThis.setTimeout = (f, ms) => {
    if (ms !== 45000) return set(f, ms);
    silence.last = f;
    return f;
  };
  globalThis.clearTimeout = (id) => {
    if (id === silence.last) silence.last = null;
    else clear(id);
  };
  try {
    await test(silence);
  } finally {
    Object.assign(globalThis, { setTimeout: set, clearTimeout: clear });
  }
}

// A connection that is dead, and was not ended, is given up: it asks again, and listens again.
export const aSilentNodeIsAskedAnew = () => watched((silence) => served(async (streams) => {
  let n = 0;
  const l = live(async () => { n++; }, { changes: { project: "p" }, every: { least: never, told: never, burst: 1, again: 1 } });
  await until(() => n === 1 && streams.length === 1 && silence.last);
  const first = silence.last;
  streams[0].say(":\n\n"); // no event, and yet it is there
  await until(() => silence.last !== first);
  equal(streams.length, 1);
  silence.last();
  await until(() => n === 2 && streams.length === 2);
  l.stop();
  await until(() => silence.last === null);
}));

export const aNodeThatNeverAnswersIsAskedAnew = () => watched(async (silence) => {
  const fetched = globalThis.fetch;
  let asked = 0;
  globalThis.fetch = (_, { signal }) => new Promise((_, refuse) => {
    asked++;
    signal.addEventListener("abort", () => refuse(signal.reason));
  });
  try {
    const l = live(async () => {}, { changes: { project: "p" }, every: { least: never, told: never, burst: 1, again: 1 } });
    await until(() => asked === 1);
    silence.last();
    await until(() => asked === 2);
    l.stop();
    await until(() => silence.last === null);
  } finally {
    globalThis.fetch = fetched;
  }
});
