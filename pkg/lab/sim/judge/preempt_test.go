// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

const grace = 20 * time.Second

// noticed has vm-1, which is preemptible, be given notice for high work, at a time that the log says.
func noticed(r *Recording, at, seen schedule.Seconds) {
	b := *r.Asks[0].Load.Boot
	p := compute.Preemptible{Then: compute.ThenRequeue, Grace: grace}
	b.Rules = &compute.PlacementRules{Priority: compute.PriorityLow, Preemptible: p}
	r.Asks[0].Load.Boot = &b
	i := r.Log[len(r.Log)-1].Instance
	i.GiveNotice(&compute.Notice{
		At: moment(at), Until: moment(at).Add(grace), Host: i.Host,
		Queue: "m1.small.priority-high", Class: compute.PriorityHigh,
	})
	i.Command = &compute.PowerCommand{Op: compute.OpStop}
	r.logged(seen, i)
}

func TestCheckPreempted(t *testing.T) {
	sees(t, checkPreempted, map[string]func(*Recording){
		"right: it has notice since then":                                func(r *Recording) { noticed(r, 20, 20.05) },
		"vm-1 has notice since 12.000s, which was in the log at 20.000s": func(r *Recording) { noticed(r, 12, 20) },
		"vm-1 has notice since 28.000s, which was in the log at 20.000s": func(r *Recording) { noticed(r, 28, 20) },
		"right: a conductor is hindered": func(r *Recording) {
			noticed(r, 12, 20)
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultKill, Who: "conductor-1"}}
		},
	})
}

// A record that says that it was decided while something waited is not believed: when it was seen counts.
func TestCheckNeeded(t *testing.T) {
	waited := func(at, seen schedule.Seconds) func(*Recording) { // vm-2 waits from 5 s to 10 s
		return func(r *Recording) {
			r.Schedule.World.Saves = true
			i := compute.Instance{ID: "vm-2", Project: "red", State: compute.StateQueued, Queue: "m1.small.priority-high"}
			i.Boot.Name = "vm-2"
			own := len(r.Log) - 1
			r.logged(5, i)
			i.State = compute.StateDeleted
			r.logged(10, i)
			r.Log[own], r.Log[own+1], r.Log[own+2] = r.Log[own+1], r.Log[own+2], r.Log[own]
			noticed(r, at, seen)
		}
	}
	sees(t, checkNeeded, map[string]func(*Recording){
		"right: it waited a moment before":                   waited(12, 12),
		"vm-1 has notice for work of m1.small.priority-high": waited(12, 40),
	})
}
