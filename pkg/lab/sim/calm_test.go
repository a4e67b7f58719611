// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/judge"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
)

// offering is a play with two hosts of which these offer.
func offering(t *testing.T, hosts ...compute.HostID) *play {
	s, world := schedule.Schedule{}, fake.NewWorld()
	w := &play{hosts: map[compute.HostID]*fake.Host{}, rec: judge.NewRecording(s)}
	for _, id := range []compute.HostID{"host-1", "host-2"} {
		h := schedule.Host{ID: id, Totals: schedule.Flavor("", 4).Resources}
		w.World.Hosts = append(w.World.Hosts, h)
		var err error
		if w.hosts[id], err = world.Host(id, compute.Inventory{Totals: h.Totals}); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range hosts {
		w.rec.Beacons[h] = compute.Beacon{Host: h, State: compute.HostEnabled}
	}
	return w
}

// A placeholder that is kept for what has taken it is in no queue, so that no host has room for it.
func TestRoomOfAPlaceholder(t *testing.T) {
	for kept, want := range map[bool]compute.HostID{false: "host-1", true: ""} {
		i := compute.Instance{ID: "p-1", State: compute.StateQueued, Resources: schedule.Flavor("", 1).Resources}
		i.Boot.AsPlaceholder(compute.Placeholder{Of: "r", Kept: kept})
		if h := offering(t, "host-1").room(i); h != want {
			t.Errorf("kept %v: %q has room, and was to be %q", kept, h, want)
		}
	}
}

// What waits in a reservation waits for the host that holds its own placeholder, unless it failed there.
func TestRoomInAReservation(t *testing.T) {
	type hosts []compute.HostID
	const one, two = compute.HostID("host-1"), compute.HostID("host-2")
	for what, x := range map[string]struct {
		offers []compute.HostID
		own    compute.State // on host one; another that is free is on host two
		failed []compute.HostID
		want   compute.HostID
	}{
		"its host offers":                         {hosts{one, two}, compute.StateActive, nil, one},
		"its host is quarantined":                 {hosts{two}, compute.StateActive, nil, ""},
		"its own is not held":                     {hosts{two}, compute.StateQueued, nil, two},
		"it failed there":                         {hosts{two}, compute.StateActive, hosts{one}, two},
		"it failed on both":                       {hosts{two}, compute.StateActive, hosts{two, one}, ""},
		"its own is not held, and it failed then": {hosts{two}, compute.StateQueued, hosts{two}, two},
	} {
		w := offering(t, x.offers...)
		holds := func(id compute.InstanceID, h compute.HostID, s compute.State, taker compute.InstanceID) {
			p := compute.Instance{ID: id, Project: "red", State: s, Host: h, Version: 1}
			p.Boot.AsPlaceholder(compute.Placeholder{Of: "r", Size: 2, Taker: taker})
			w.rec.ReadInstance(wire.EncodeInstance(p))
		}
		own, other := wire.KeyedInstance("red", "p-1"), wire.KeyedInstance("red", "p-2")
		i := compute.Instance{ID: wire.KeyedInstance("red", "vm-1"), Project: "red", State: compute.StateQueued}
		i.Boot.Reserving("r")
		i.Boot.Takes(compute.InPlaceholder{ID: own})
		for _, h := range x.failed {
			i.Failures = append(i.Failures, compute.Failure{Host: h})
		}
		holds(own, one, x.own, i.ID)
		holds(other, two, compute.StateActive, "")
		if h := w.room(i); h != x.want {
			t.Errorf("%s: %q has room, and was to be %q: %v", what, h, x.want, w.rec.Wrong)
		}
	}
}
