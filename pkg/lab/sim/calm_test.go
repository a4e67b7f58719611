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

// A placeholder that is kept for what has taken it and is on a host is in no queue, so that no host has room for it.
func TestRoomOfAPlaceholder(t *testing.T) {
	id := func(name string) compute.InstanceID { return wire.KeyedInstance("red", name) }
	for what, x := range map[string]struct {
		kept  bool
		taker compute.State
		in    string
		want  compute.HostID
	}{
		"it is not kept":            {false, compute.StateActive, "p-1", "host-1"},
		"its taker runs":            {true, compute.StateActive, "p-1", ""},
		"its taker starts":          {true, compute.StateStarting, "p-1", ""},
		"its taker waits":           {true, compute.StateQueued, "p-1", "host-1"},
		"its taker has ended":       {true, compute.StateDeleted, "p-1", "host-1"},
		"its taker is in another":   {true, compute.StateActive, "p-2", "host-1"},
		"its taker is in no record": {true, compute.StateNone, "p-1", "host-1"},
	} {
		w := offering(t, "host-1")
		if x.taker != compute.StateNone {
			taker := compute.Instance{ID: id("vm-1"), Project: "red", State: x.taker, Version: 1}
			if x.taker.OnHost() {
				taker.Host = "host-2"
			}
			taker.Boot.Takes(compute.InPlaceholder{ID: id(x.in)})
			w.rec.ReadInstance(wire.EncodeInstance(taker))
		}
		i := compute.Instance{ID: id("p-1"), State: compute.StateQueued, Resources: schedule.Flavor("", 1).Resources}
		i.Boot.AsPlaceholder(compute.Placeholder{Of: "r", Kept: x.kept, Taker: id("vm-1")})
		if h := w.room(i); h != x.want {
			t.Errorf("%s: %q has room, and was to be %q: %v", what, h, x.want, w.rec.Wrong)
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
