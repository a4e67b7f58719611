// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// TestWholeNeedsAll: a set is offered whole, in schema 5, where all conductors and the agents of all hosts read that;
// else in parts, in the schema of sets. Where its record landed is heard by the part that leads.
func TestWholeNeedsAll(t *testing.T) {
	k := newCell(t)
	k.c.Catalog([]wire.Record{
		wire.EncodeGroup(compute.Group{Project: "rich", Name: "near", Policy: compute.Affinity}),
	}, true)
	k.c.Queues([]wire.Record{listed("m1.small"), wire.EncodeQueue(compute.Queue{
		Name: "m1.large", Flavor: "m1.large", Group: "agents-0",
		Resources: compute.Resources{compute.VCPU: 4, compute.MemoryMB: 2048},
	})}, true)
	bootSet := func(n int) wire.Result {
		r := compute.Request{Op: compute.OpBootSet, Project: "rich", Instance: id(n), At: k.now}
		for i := range 2 {
			r.Set = append(r.Set, compute.SetBoot{Instance: id(n + i), Boot: compute.Boot{
				Flavor: "m1.small", Deadline: time.Hour, Rules: compute.InGroup("near"),
			}})
		}
		return k.read(k.requested(r))
	}
	k.c.Agreed(wire.Schema)
	k.c.Hosts([]wire.Record{says("new", wire.Schema), says("old", 4)}, true)
	k.wrote(bootSet(10), "4", "4")
	k.deleted("rich", 10) // one set of a group waits for the other
	k.c.Hosts([]wire.Record{says("old", wire.Schema)}, true)
	k.c.Agreed(4)
	k.wrote(bootSet(20), "4", "4")

	k.c.Agreed(wire.Schema)
	k.deleted("rich", 20)
	res := bootSet(30)
	k.wrote(res, "5", "5")
	if len(res.Effects) != 1 || res.Effects[0].Record.Topic != (wire.Topics{}).Build("m1.large") {
		t.Fatalf("%d effects, the first to %s", len(res.Effects), res.Effects[0].Record.Topic)
	}
	b, err := wire.DecodeBuild(res.Effects[0].Record)
	if err != nil || len(b.Parts) != 2 || b.Instance != id(30) || b.Resources[compute.VCPU] != 2 {
		t.Errorf("%+v, %v", b, err)
	}
}

func (k *cell) deleted(p compute.Project, n int) {
	k.read(k.requested(compute.Request{Op: compute.OpDelete, Project: p, Instance: id(n), At: k.now}))
}
