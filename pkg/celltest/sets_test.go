// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/conductor/admit"
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

// TestSetsOnOneHostEach: 31 sets, each of three machines that have to be on one host, come between machines of
// projects that ask for one at a time. All run, each set on one host, and none had to give anything back: it was
// offered whole.
func TestSetsOnOneHostEach(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		const sets = 31
		// However the machines lie, of ten hosts with sixteen processors one has four left for the last set.
		r := newRig(t, b, smallHosts(10)...)
		r.times = admit.Defaults()
		r.times.SetPatience, r.times.SetTry = patience, patience // a busy machine takes longer than 15 s for one
		r.up()
		c := r.as("p")
		large := small("m1.large")
		large.Resources = compute.Resources{compute.VCPU: 4, compute.MemoryMB: 4 * 1024, compute.DiskGB: 40}
		r.offer(c, nil, []compute.Flavor{small("m1.small"), large})
		var all [][]compute.InstanceID
		var singles []compute.InstanceID
		for i := range sets {
			name := compute.GroupName(fmt.Sprintf("pack-%d", i+1))
			r.group(c, compute.Group{Name: name, Policy: compute.Affinity})
			all = append(all, r.bootSet(c, 3, member("m1.small", name)))
			singles = append(singles, r.boot(c, 1, compute.Boot{Flavor: "m1.small"})...)
		}
		r.await(slices.Concat(append(all, singles)...), compute.StateActive)
		for i, set := range all {
			for _, id := range set {
				if inst, first := r.seen.get(id), r.seen.get(set[0]); inst.Host != first.Host || inst.Attempt != 1 {
					t.Errorf("set %d: %s is on %s by attempt %d, the first on %s", i+1, id, inst.Host, inst.Attempt, first.Host)
				}
			}
		}
		r.sane()
	})
}
