// Changes of instances, as the node tells them (GET /v1/events). An EventSource cannot send a token, so its form is read
// here.

import { stream } from "./api.js";

// blocks cuts what came into whole events { event, data }, and what is not yet one. Pure.
export function blocks(text) {
  const parts = text.replace(/\r\n/g, "\n").split("\n\n");
  const rest = parts.pop();
  const events = [];
  for (const part of parts) {
    const e = { event: "message", data: [] };
    for (const line of part.split("\n")) {
      const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line);
      if (name === "event") e.event = value;
      if (name === "data") e.data.push(value);
    }
    if (e.data.length) events.push({ event: e.event, data: e.data.join("\n") });
  }
  return [events, rest];
}

// patience is how long a node may be silent, in milliseconds: every 15 s it writes something, so that callers know it is
// there. A connection that is dead in between tells nothing by itself.
const patience = 45000;

// listen tells of each event that matches the query, from when opened was called, until the node ends it or the signal
// does. It throws the Problem of a node that refuses, and an AbortError once the node is silent for too long.
export async function listen(query, { signal, opened, heard }) {
  const silence = new AbortController();
  signal.addEventListener("abort", () => silence.abort(), { once: true });
  let timer;
  const there = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(), patience);
  };
  there();
  try {
    const reader = await stream("/v1/events", query, silence.signal);
    opened();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      there();
      let events;
      [events, rest] = blocks(rest + value);
      for (const e of events) heard(e.event, JSON.parse(e.data));
    }
  } finally {
    clearTimeout(timer);
  }
}
