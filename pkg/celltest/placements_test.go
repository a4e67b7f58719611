// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// TestWhatWouldBecomeComesTrue: as many start as are said to have room, no more do, and without the machines that are
// said to have to go one more does.
func TestWhatWouldBecomeComesTrue(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b, smallHosts(2)...).up()
		c := r.as("p")
		five, four := small("five"), small("four")
		five.Resources[compute.VCPU], four.Resources[compute.VCPU] = 10, 7
		r.offer(c, nil, []compute.Flavor{five, four})
		ask := func(kinds ...client.MixKind) client.Placements {
			t.Helper()
			p, err := c.Placements(t.Context(), client.Mix{Mix: kinds})
			r.must(err)
			return p
		}
		kind := func(f compute.FlavorName, count int64) client.MixKind {
			return client.MixKind{Boot: client.MixOf("p", compute.Boot{Flavor: f}, 0).Boot, Count: count}
		}
		p := ask(kind("five", 2), kind("four", 2))
		if p.Fits != 2 || p.Kinds[0].Fits != 2 || p.Kinds[1].Alone != 2 || p.Starts {
			t.Fatalf("%+v", p)
		}
		r.await(r.boot(c, 2, compute.Boot{Flavor: "five"}), compute.StateActive)
		r.poll("hosts have said so", func() bool { return ask(kind("four", 1)).Fits == 0 })
		waits := r.boot(c, 1, compute.Boot{Flavor: "four"})
		r.await(waits, compute.StateQueued)
		r.poll("it is known to wait", func() bool { return ask(kind("four", 1)).Kinds[0].Place.Depth == 1 })
		p = ask(kind("four", 1))
		if p.Fits != 0 || p.Kinds[0].ToGo == nil || p.Kinds[0].ToGo.Machines != 1 {
			t.Fatalf("%+v", p)
		}
		gone := p.Kinds[0].ToGo.Instances[0]
		r.delete(c, []compute.InstanceID{gone.ID})
		r.await(waits, compute.StateActive)
	})
}

// TestAskingWritesNothing: after every question every topic of the cell ends where it did before, that of the audit too.
// Everything that writes by itself is stopped.
func TestAskingWritesNothing(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b, smallHosts(1)...).up()
		r.offer(r.as("p"), nil, []compute.Flavor{small("m1.small")})
		r.await(r.boot(r.as("p"), 1, compute.Boot{Flavor: "m1.small"}), compute.StateActive)
		first, _ := r.firstToken(r.cell("admin"), "bootstrap")
		node := r.auditedAPI("api-a")
		for name := range r.parts {
			if name != "api-a" {
				r.stop(name)
			}
		}
		admin, err := kafkaadmin.New(r.cell("admin").Kafka)
		r.must(err)
		defer admin.Close()
		ends := func() map[string]map[int32]int64 {
			t.Helper()
			topics, err := admin.CellTopics(t.Context())
			r.must(err)
			out := map[string]map[int32]int64{}
			for _, topic := range topics {
				out[topic], err = admin.Ends(t.Context(), topic)
				r.must(err)
			}
			return out
		}
		before := ends()
		c := r.with(node, first, "p")
		boot := compute.Boot{Flavor: "m1.small", Name: "n", UserData: "data"}
		for range 3 {
			_, err = c.Valid(t.Context())
			r.must(err)
			_, err = c.Why(t.Context(), boot)
			r.must(err)
			_, err = c.PlacementUnder(t.Context(), "key", boot)
			r.must(err)
			p, err := c.Placements(t.Context(), client.MixOf("p", boot, 1000))
			r.must(err)
			if p.Count != 1000 || len(p.Quota) == 0 {
				t.Errorf("%+v", p)
			}
		}
		after := ends()
		if diff := cmp.Diff(before, after); diff != "" || len(before) < 12 {
			t.Errorf("of %d topics (-before +after):\n%s", len(before), diff)
		}
	})
}
