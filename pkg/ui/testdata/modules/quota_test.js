import { change } from "/ui/quota.js";
import { equal } from "./equal.js";

const of = (c, from, limit) => ({ class: c, used: 1, from, limit });

// A field that is as it was shown is not sent: another admin may have changed it meanwhile.
export function onlyWhatWasTypedIsSent() {
  const shown = {
    project: "shop", resources: [of("DISK_GB", "none"), of("INSTANCES", "default", 50), of("VCPU", "project", 8), of("CUSTOM_GPU", "project", 2)],
  };
  equal(change(shown, { DISK_GB: "", INSTANCES: "", VCPU: "8", CUSTOM_GPU: "2" }), { limits: {} });
  equal(change(shown, { DISK_GB: "0", INSTANCES: "50", VCPU: "7", CUSTOM_GPU: "" }), {
    limits: { DISK_GB: 0, INSTANCES: 50, VCPU: 7, CUSTOM_GPU: null },
  });
}

export function theDefaultsLimitsAreItsOwn() {
  const shown = { project: "_default", resources: [of("VCPU", "default", 8), of("INSTANCES", "none")] };
  equal(change(shown, { VCPU: "8", INSTANCES: "" }), { limits: {} });
  equal(change(shown, { VCPU: "", INSTANCES: "3" }), { limits: { VCPU: null, INSTANCES: 3 } });
}
