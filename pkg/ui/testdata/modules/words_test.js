import { amount, amounts, choices, inOrAgo, kind, plural, since, span, standingNames, usage } from "/ui/words.js";
import { equal } from "./equal.js";

export function spans() {
  equal([0, 1, 59.4, 60, 61, 3599, 3600, 3661, 11400, 86400, 90000, 200000].map(span),
    ["0 s", "1 s", "59 s", "1 min", "1 min", "59 min", "1 h", "1 h 1 min", "3 h 10 min", "1 d", "1 d 1 h", "2 d 7 h"]);
  equal(span(-5), "0 s");
}

export function times() {
  const now = Date.parse("2026-01-02T03:04:05Z");
  equal(since("2026-01-02T03:03:05Z", now), "1 min");
  equal(since("", now), "");
  equal(inOrAgo("2026-01-02T04:04:05Z", now), "in 1 h");
  equal(inOrAgo("2026-01-02T03:04:00Z", now), "5 s ago");
}

export function resources() {
  equal([amount("MEMORY_MB", 512), amount("MEMORY_MB", 2048), amount("MEMORY_MB", 1536), amount("MEMORY_MB", 262144)],
    ["512 MiB", "2 GiB", "1,536 MiB", "256 GiB"]);
  equal([amount("DISK_GB", 2000), amount("DISK_GB", 20480), amount("CUSTOM_X", 1234), amount("VCPU", 0)],
    ["2,000 GiB", "20 TiB", "1,234", "0"]);
  equal(amounts({ CUSTOM_GPU: 1, DISK_GB: 20, VCPU: 1, MEMORY_MB: 1024 }), "1 processor, 1 GiB memory, 20 GiB disk, 1 CUSTOM_GPU");
  equal(amounts(undefined), "");
  equal([usage("VCPU", 12, 64), usage("MEMORY_MB", 102400, 262144), usage("MEMORY_MB", 512, 262144), usage("DISK_GB", 0, 2000)],
    ["12 of 64", "100 of 256 GiB", "512 MiB of 256 GiB", "0 of 2,000 GiB"]);
}

export function words() {
  equal(plural(1, "axis", "axes") + " " + plural(1200, "host"), "1 axis 1,200 hosts");
  equal(choices({ gpu: "a100", disk: "ssd" }), "disk=ssd gpu=a100");
  equal([kind("active"), kind("error"), kind("of a later version")], ["ok", "bad", ""]);
}

export async function standingsAreThoseOfTheAPI() {
  equal([...standingNames].sort(), (await (await fetch("/standings")).json()).sort());
}
