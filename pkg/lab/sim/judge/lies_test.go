// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// becomes has vm-1, which runs on host-1, be in another state.
func becomes(r *Recording, at schedule.Seconds, state compute.State) {
	i := r.Log[len(r.Log)-1].Instance
	if i.State = state; state == compute.StateQueued {
		i.Attempt, i.Host, i.Claim = 2, "", ""
	}
	r.logged(at, i)
}

// placeholder has vm-1 be one.
func placeholder(r *Recording) {
	r.Log[len(r.Log)-1].Instance.Boot.AsPlaceholder(compute.Placeholder{Of: "r"})
}

// givenUp has host-1 hold vm-1 no more.
func givenUp(r *Recording, at schedule.Seconds) {
	r.Machines = append(r.Machines, fake.Event{
		At: moment(at), Kind: fake.Destroyed, Host: "host-1", Instance: madeID, Attempt: 1,
	})
}

func TestCheckLies(t *testing.T) {
	lies := func(r *Recording, at schedule.Seconds, op compute.ReportOp, a compute.Attempt) {
		r.Lies = append(r.Lies, Lie{moment(at), compute.Report{Op: op, Instance: madeID, Attempt: a, Host: "host-1"}})
	}
	sees(t, checkLies, map[string]func(*Recording){
		"vm-1 was active on host-1, and is error since a stranger said": func(r *Recording) {
			lies(r, 10, compute.ReportReturned, 1)
			becomes(r, 11, compute.StateError)
		},
		"vm-1 was active on host-1, and is queued since": func(r *Recording) {
			lies(r, 10, compute.ReportGone, 1)
			becomes(r, 11, compute.StateQueued)
		},
		"and is queued since a stranger said that it is not there": func(r *Recording) {
			lies(r, 10, compute.ReportGone, 1)
			placeholder(r)
			becomes(r, 11, compute.StateQueued)
		},
		"and is queued since a stranger said that it is": func(r *Recording) { // which its host is told then
			lies(r, 10, compute.ReportGone, 1)
			placeholder(r)
			givenUp(r, 10.5)
			becomes(r, 11, compute.StateQueued)
		},
		"right: its host holds the placeholder no more": func(r *Recording) {
			lies(r, 10, compute.ReportGone, 1)
			placeholder(r)
			givenUp(r, 9.5)
			becomes(r, 11, compute.StateQueued)
		},
		"right: its host is to be drained": func(r *Recording) {
			lies(r, 10, compute.ReportGone, 1)
			placeholder(r)
			drain := schedule.Load{Op: schedule.LoadHost, Host: "host-1", Wish: "drain"}
			r.Asks = append(r.Asks, Ask{Load: drain, Began: moment(10.2)})
			givenUp(r, 10.5)
			becomes(r, 11, compute.StateQueued)
		},
		"right: its host declined what took it": func(r *Recording) {
			lies(r, 10, compute.ReportGone, 1)
			placeholder(r)
			taker := compute.Instance{ID: "taker", Project: "red"}
			taker.Boot.Takes(compute.InPlaceholder{ID: madeID, Attempt: 1})
			r.Log = append([]Written{{Instance: taker}}, r.Log...)
			declined := compute.Report{Op: compute.ReportPinned, Instance: "taker", Host: "host-1"}
			r.Declined = append(r.Declined, Claimed{moment(10.3), declined})
			givenUp(r, 10.5)
			becomes(r, 11, compute.StateQueued)
		},
		"right: nothing comes of it": func(r *Recording) { lies(r, 10, compute.ReportReturned, 1) },
		"right: it is deleted": func(r *Recording) {
			lies(r, 10, compute.ReportReturned, 1)
			becomes(r, 11, compute.StateDeleting)
		},
		"right: it was about another attempt": func(r *Recording) {
			lies(r, 10, compute.ReportReturned, 2)
			becomes(r, 11, compute.StateError)
		},
		"right: its host is hindered": func(r *Recording) {
			lies(r, 10, compute.ReportReturned, 1)
			becomes(r, 11, compute.StateError)
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultPower, Who: "host-1"}}
		},
	})
}

func TestCheckBuried(t *testing.T) {
	buried := func(change func(*Recording)) func(*Recording) {
		return func(r *Recording) {
			r.Buried = []Buried{{"host-1", moment(20), moment(25)}}
			change(r)
		}
	}
	sees(t, checkBuried, map[string]func(*Recording){
		"told at 25.000s that host-1 is dead, and attempt 1 of vm-1 is there until 40.000s": buried(func(r *Recording) {
			becomes(r, 40, compute.StateQueued)
		}),
		"and attempt 1 of vm-1 is there until 120": buried(func(*Recording) {}),
		"right: it is built elsewhere":             buried(func(r *Recording) { becomes(r, 26, compute.StateQueued) }),
		"right: it ends":                           buried(func(r *Recording) { becomes(r, 21, compute.StateError) }),
		"right: another host is dead":              buried(func(r *Recording) { r.Buried[0].Host = "host-2" }),
		"right: a conductor reads what a stranger wrote": buried(func(r *Recording) {
			r.Schedule.World.Sips = true
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultForge, Who: "stranger", For: 20}}
			becomes(r, 50, compute.StateQueued)
		}),
		"right: a conductor is hindered": buried(func(r *Recording) {
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultKill, Who: "conductor-1"}}
			becomes(r, 100, compute.StateQueued)
		}),
	})
}
