// SPDX-License-Identifier: Apache-2.0

package api

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// TestCapacityByValue: each value counts the hosts that do for it.
func TestCapacityByValue(t *testing.T) {
	n := newNode(t)
	into[rest.Change](n.do("POST", "/v1/capabilities", rest.Capability{Axis: "zone", Values: []rest.CapabilityValue{
		{Value: "a", Requires: []compute.Trait{"CUSTOM_ZONE_A"}}, {Value: "b", Requires: []compute.Trait{"CUSTOM_ZONE_B"}},
	}}), 200)
	for name, processors := range map[compute.FlavorName]int64{"two": 2, "five": 5} {
		into[rest.Change](n.do("POST", "/v1/flavors", rest.Flavor{
			Name: name, Capabilities: []compute.AxisName{"zone"}, Resources: compute.Resources{compute.VCPU: processors},
		}), 200)
		for _, q := range compute.Permutations(n.flavor(name), n.axes()) {
			n.Queues([]wire.Record{wire.EncodeQueue(q)}, true)
		}
	}
	n.sells("huge", 99)
	for host, free := range map[compute.HostID]int64{"a1": 8, "a2": 3, "b1": 1} {
		b := offering(host, free)
		b.Inventory.Traits = []compute.Trait{"CUSTOM_ZONE_A"}
		if host == "b1" {
			b.Inventory.Traits = []compute.Trait{"CUSTOM_ZONE_B"}
		}
		b.Free = compute.Resources{compute.VCPU: free}
		n.hears(b)
	}
	got := into[rest.CapacityBy](n.do("GET", "/v1/capacity?by=zone", nil), 200)
	of := func(f compute.FlavorName, room, stranded, empty int64) rest.FlavorCapacity {
		return rest.FlavorCapacity{Flavor: f, Capacity: rest.Capacity{Room: room, Stranded: stranded, Empty: empty}}
	}
	cpu := func(n int64) compute.Resources { return compute.Resources{compute.VCPU: n} }
	want := rest.CapacityBy{By: "zone", Oldest: got.Oldest, Values: []rest.ValueCapacity{
		{Hosts: 3, Taking: 3, Free: cpu(12), Unusable: cpu(2), Largest: "five",
			Flavors: []rest.FlavorCapacity{of("five", 1, 1, 3), of("huge", 0, 0, 0), of("two", 5, 1, 12)}},
		{Value: "a", Hosts: 2, Taking: 2, Free: cpu(11), Unusable: cpu(1), Largest: "five",
			Flavors: []rest.FlavorCapacity{of("five", 1, 1, 2), of("two", 5, 0, 8)}},
		{Value: "b", Hosts: 1, Taking: 1, Free: cpu(1), Unusable: cpu(1),
			Flavors: []rest.FlavorCapacity{of("five", 0, 0, 1), of("two", 0, 0, 4)}},
	}}
	equal(t, "by zone", want, got)
	if all := into[rest.CapacityBy](n.do("GET", "/v1/capacity?flavor=two", nil), 200); len(all.Values) != 1 ||
		len(all.Values[0].Flavors) != 1 || all.Values[0].Unusable[compute.VCPU] != 2 {
		t.Errorf("of one flavor: %+v", all)
	}
	n.do("GET", "/v1/capacity?by=rack", nil).refused(404, compute.KindNotFound)
	n.do("GET", "/v1/capacity?flavor=none", nil).refused(404, compute.KindNotFound)
}
