// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// TestSpreadNeedsAllConductors: a member of a group that spreads its members is written in schema 4, and refused as
// long as one conductor would set its partition aside; its build is written as those of all members are. Members of
// other groups need less.
func TestSpreadNeedsAllConductors(t *testing.T) {
	k := newCell(t)
	k.c.Hosts([]wire.Record{says("new", wire.Schema), says("old", 3)}, true)
	k.c.Catalog([]wire.Record{
		wire.EncodeCapability(compute.Capability{Axis: "zone", Values: []compute.CapabilityValue{{Value: "a"}}}),
		wire.EncodeFlavor(compute.Flavor{
			Name: "m1.small", Resources: compute.Resources{compute.VCPU: 1, compute.MemoryMB: 512},
			Capabilities: []compute.AxisName{"zone"},
		}),
		wire.EncodeGroup(compute.Group{Project: "p", Name: "web", Policy: compute.SpreadOnly, Spread: "zone"}),
		wire.EncodeGroup(compute.Group{Project: "p", Name: "apart", Policy: compute.AntiAffinity, Most: 1}),
	}, true)
	k.c.Queues([]wire.Record{listed("m1.small.zone-a")}, true)
	boot := func(n int, g compute.GroupName, with compute.Choices) wire.Result {
		return k.read(k.requested(compute.Request{
			Op: compute.OpBoot, Project: "p", Instance: id(n),
			Boot: &compute.Boot{Flavor: "m1.small", With: with, Rules: compute.InGroup(g)},
		}))
	}
	k.c.Agreed(3)
	for _, with := range []compute.Choices{nil, {"zone": "a"}} {
		if res := boot(1, "web", with); len(res.Changes)+len(res.Effects) > 0 || len(res.Rejects) != 1 {
			t.Fatalf("where 3 is read by all: %d changes, %d effects", len(res.Changes), len(res.Effects))
		}
	}
	k.wrote(boot(2, "apart", compute.Choices{"zone": "a"}), "3", "3")
	k.c.Agreed(wire.Schema)
	k.wrote(boot(1, "web", nil), "4", "3")
	if got := k.last("p", 1).Boot; got.With["zone"] != "a" ||
		got.Spread() != (compute.PlacementRules{Group: "web", Spread: "zone", Chosen: true}) {
		t.Errorf("it is written with %v and %+v", got.With, got.Rules)
	}
	k.wrote(boot(3, "web", compute.Choices{"zone": "a"}), "4", "3")
	k.c.Agreed(3) // a conductor of before has joined
	k.wrote(k.read(k.report(compute.ReportClaim, 1, "p", "old")), "4", "1")
}
