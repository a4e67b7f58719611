// What is shown follows what happens. A page says how its data is read; this reads it again.

// live calls refresh now and again until stopped, never twice at a time, and only while somebody looks: at least so many
// milliseconds later, and later if the node takes long.
export function live(refresh, least = 2000) {
  let timer, stopped = false, running = false, again = false;
  async function run() {
    clearTimeout(timer);
    if (stopped || running) {
      again = true;
      return;
    }
    running = true;
    again = false;
    const began = performance.now();
    await refresh();
    running = false;
    if (stopped) return;
    if (again) return run();
    if (!document.hidden) timer = setTimeout(run, Math.max(least, 4 * (performance.now() - began)));
  }
  const seen = () => (document.hidden ? clearTimeout(timer) : run());
  document.addEventListener("visibilitychange", seen);
  run();
  return {
    now: run,
    stop() {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    },
  };
}
