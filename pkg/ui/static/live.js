// What is shown follows what happens. A page says how its data is read; this reads it again: when an instance changes,
// as far as the node tells, and now and then, for all else changes too.

import { settled } from "./api.js";
import { listen } from "./events.js";

// How often to read, in milliseconds.
export const often = { least: 2000, told: 5000, burst: 500, again: 15000 };

// live calls refresh now and again until stopped or answered false, never twice at a time, and only while somebody looks.
// changes is what to hear of, as a query of /v1/events; without it, or while the node does not tell, refresh comes more often. A node that
// takes long is asked less often. heard is called with each change.
export function live(refresh, { changes, heard, every = often } = {}) {
  let timer, due, retry, open, stopped = false, running = false, again = false, told = false;

  function later(ms) {
    clearTimeout(timer);
    due = performance.now() + ms;
    if (!stopped && !document.hidden) timer = setTimeout(run, ms);
  }

  async function run() {
    clearTimeout(timer);
    if (stopped) return;
    if (running) {
      again = true;
      return;
    }
    running = true;
    again = false;
    const began = performance.now();
    const more = await refresh();
    running = false;
    if (more === false) return stop();
    later(Math.max(again ? every.burst : told ? every.told : every.least, 4 * (performance.now() - began)));
  }

  // follow hears of changes. A thousand a second bring two refreshes.
  async function follow() {
    if (!changes || open || stopped || document.hidden) return;
    const mine = open = new AbortController();
    try {
      await listen(changes, {
        signal: mine.signal,
        opened: () => { told = true; },
        heard: (event, data) => {
          heard?.(event, data);
          if (running) again = true;
          else if (due > performance.now() + every.burst) later(every.burst);
        },
      });
    } catch (e) {
      if (settled(e)) return;
    }
    if (open === mine) open = null;
    if (mine.signal.aborted) return;
    told = false;
    retry = setTimeout(follow, every.again);
    run();
  }

  function close() {
    clearTimeout(timer);
    clearTimeout(retry);
    open?.abort();
    open = null;
    told = false;
  }

  const seen = () => {
    if (document.hidden) return close();
    follow();
    run();
  };
  function stop() {
    stopped = true;
    close();
    document.removeEventListener("visibilitychange", seen);
  }

  document.addEventListener("visibilitychange", seen);
  seen();
  return { now: run, stop };
}
