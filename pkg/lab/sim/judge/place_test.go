// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func TestPlaceDiffers(t *testing.T) {
	r, logged := &Recording{}, map[compute.InstanceID]compute.Instance{}
	for id, at := range map[compute.InstanceID]schedule.Seconds{"a": 1, "b": 5, "c": 5.5, "d": 9} {
		i := compute.Instance{ID: id, State: compute.StateQueued, Queue: "q"}
		logged[id] = i
		r.Log = append(r.Log, Written{Seen: moment(at), Instance: i})
	}
	logged["other"] = compute.Instance{ID: "other", State: compute.StateQueued, Queue: "q2"}
	logged["pinned"] = compute.Instance{
		ID:    "pinned",
		State: compute.StateQueued,
		Queue: "q",
		Boot:  compute.Boot{Host: "h"},
	}
	kept := compute.Instance{ID: "kept", State: compute.StateQueued, Queue: "q"}
	kept.Boot.AsPlaceholder(compute.Placeholder{Of: "room", Taker: "taker", Kept: true})
	logged["kept"] = kept
	logged["active"] = compute.Instance{ID: "active", State: compute.StateActive, Queue: "q"}
	for _, c := range []struct {
		id              compute.InstanceID
		position, depth uint64
		well            bool
	}{
		{"a", 0, 4, true}, {"a", 1, 4, false}, {"a", 0, 5, false}, {"a", 0, 3, false},
		{"b", 1, 4, true}, {"b", 2, 4, true}, {"b", 0, 4, false}, {"b", 3, 4, false},
		{"d", 3, 4, true}, {"d", 2, 4, false},
	} {
		g := rest.Instance{
			ID:      c.id,
			Queue:   "q",
			Waiting: &rest.Reason{Place: &rest.Place{Position: c.position, Depth: c.depth}},
		}
		if wrong := r.placeDiffers(g, logged, r.firstSeen()); (wrong == "") != c.well {
			t.Errorf("%s at %d of %d: %q", c.id, c.position, c.depth, wrong)
		}
	}
}

// A boot starts soon where nothing goes wrong and there is room for all; where its queue has to be made first, a little
// later, and where one of several queue managers may leave that alone, once it does not.
func TestCheckPrompt(t *testing.T) {
	waits := func(long schedule.Seconds, managers int, p compute.Priority) func(*Recording) {
		return func(r *Recording) {
			roomy := schedule.Flavor("", 1000).Resources
			r.Schedule.World.Hosts, r.Schedule.World.Managers = []schedule.Host{{ID: "host-1", Totals: roomy}}, managers
			r.Schedule.Load, r.Schedule.World.Latency, r.Asks[0].Load.Boot.Avoid = nil, 0, nil
			i := r.Log[len(r.Log)-1].Instance
			i.Boot.Rules = compute.RulesOf("", compute.Set{}, p)
			i.QueuedAt, i.StartingAt = moment(2), moment(2+long)
			r.logged(30, i)
		}
	}
	// behind has the only host, which takes two seconds for four at once, be given so many beside it.
	behind := func(n int, came, long schedule.Seconds) func(*Recording) {
		return func(r *Recording) {
			waits(long, 1, compute.PriorityNormal)(r)
			r.Builds = append(r.Builds, Published{moment(came), compute.Build{Instance: "vm-9", Attempt: 1}})
			r.Schedule.World.Hosts[0].Prepare = 2
			for range n {
				r.Given = append(r.Given, Given{At: moment(3), Spec: hypervisor.Spec{Instance: "vm-9"}})
			}
		}
	}
	const normal, high = compute.PriorityNormal, compute.PriorityHigh
	sees(t, checkPrompt, map[string]func(*Recording){
		"right: soon":                    waits(2.9, 1, normal),
		"vm-1 waited 3.2s for a host":    waits(3.2, 1, normal),
		"right: its queue is made first": waits(4.9, 1, high),
		"vm-1 waited 5.2s for a host":    waits(5.2, 1, high),
		"right: a host was rung in vain for another": func(r *Recording) {
			waits(18.9, 1, normal)(r)
			i := r.Log[0].Instance
			i.ID, i.Boot.Name = "vm-9", "vm-9"
			r.logged(1, i)
			r.Told = []Told{{Host: "host-1", Build: compute.Build{Instance: "vm-9"}}}
		},
		"right: its share was taken until then": func(r *Recording) {
			waits(5.9, 1, normal)(r)
			r.Schedule.World.Share = 1
			i := r.Log[0].Instance
			i.ID, i.Boot.Name = "vm-9", "vm-9"
			r.Log = slices.Insert(r.Log, 0, Written{Seen: moment(1), Instance: i})
			i.State = compute.StateStarting
			r.Log = slices.Insert(r.Log, 2, Written{Seen: moment(5), Instance: i})
		},
		"right: that may be left alone":     waits(19.9, 2, high),
		"vm-1 waited 20.2s for a host that": waits(20.2, 2, high),
		"right: behind eight others":        behind(8, 1.5, 8.9),
		"vm-1 waited 9.2s for a host that":  behind(8, 1.5, 9.2),
		"vm-1 waited 7.2s for a host that":  behind(7, 1.5, 7.2),
		"vm-1 waited 7.3s for a host that":  behind(8, 2.5, 7.3),
	})
}
