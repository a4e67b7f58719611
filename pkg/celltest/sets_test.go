// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// bootSet boots so many of a kind, of which all start or none.
func (r *rig) bootSet(c *client.Client, n int, b compute.Boot) (ids []compute.InstanceID) {
	r.t.Helper()
	var set []compute.SetBoot
	for i := range n {
		one := compute.SetBoot{Instance: compute.InstanceID(uuid.NewString()), Boot: b}
		one.Boot.Name = fmt.Sprintf("part-%d", i+1)
		set, ids = append(set, one), append(ids, one.Instance)
	}
	_, err := c.BootSet(r.t.Context(), set)
	r.must(err)
	return ids
}

// onHosts is how many of these are on hosts, launched or not.
func (r *rig) onHosts(ids []compute.InstanceID) (n int) {
	r.t.Helper()
	for _, h := range r.hosts {
		for _, id := range ids {
			if r.machinesOn(h.ID)[id] {
				n++
			}
		}
	}
	return n
}

// launched are those of which a machine was ever launched.
func (r *rig) launched(ids []compute.InstanceID) (n int) {
	r.t.Helper()
	events, err := r.world.Events()
	r.must(err)
	for _, id := range ids {
		if slices.ContainsFunc(events, func(e fake.Event) bool { return e.Instance == id && e.Kind == fake.Launched }) {
			n++
		}
	}
	return n
}

// TestSetsStartWhole: a set in a group that keeps its members apart starts on as many hosts; one that is larger than the
// room runs nothing, gives back what it got, and starts once there is room, through the end of the conductor that kept its
// claims.
func TestSetsStartWhole(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c := newGroupRig(t, b, 4, small("m1.small"), compute.Group{Name: "apart", Policy: compute.AntiAffinity, Most: 1})
		three := r.bootSet(c, 3, member("m1.small", "apart"))
		r.await(three, compute.StateActive)
		r.groupIsOn(c, "apart", 3, false)

		two := r.bootSet(c, 2, member("m1.small", "apart")) // one host is left
		r.poll("a part of the set is prepared", func() bool { return r.onHosts(two) > 0 })
		r.stop("conductor")
		r.startConductor("second")
		r.poll("it is given back", func() bool { return r.seen.get(two[0]).Attempt > 1 })
		if n := r.launched(two); n != 0 {
			t.Errorf("%d of a set that has no room were launched", n)
		}
		r.delete(c, three[:1])
		r.await(two, compute.StateActive)
		r.keptApart(slices.Concat(three, two), 1)
		r.sane()
	})
}
