// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func TestCheckWords(t *testing.T) {
	heard := func(r *Recording, from, to schedule.Seconds) { // every 15 s
		for at := from; at <= to; at += 15 {
			r.Offers = append(r.Offers, Offered{moment(at), "host-1", compute.HostEnabled, false, moment(at)})
		}
	}
	says := func(r *Recording, key string, from, to schedule.Seconds) *Word {
		f := schedule.Fault{Kind: schedule.FaultWord, Who: "host-1", Key: key, Dead: "fence"}
		r.Schedule.Faults = append(r.Schedule.Faults, f)
		r.Words = append(
			r.Words,
			Word{Fault: f, First: moment(from), Began: moment(from), Answered: moment(to), OK: true},
		)
		return &r.Words[len(r.Words)-1]
	}
	moves := func(r *Recording, at schedule.Seconds, state compute.State, why compute.ReasonCode) {
		i := r.Log[len(r.Log)-1].Instance
		i.Reason = &compute.Reason{Code: why, Host: "host-1", Attempt: 1, Detail: "its host was declared dead"}
		if i.State = state; state == compute.StateQueued {
			i.Attempt, i.Host = 2, ""
		}
		r.logged(at, i)
	}
	told := func(r *Recording, becomes compute.Fate, why compute.ReasonCode) {
		heard(r, 0, 15)
		says(r, schedule.WordPatient, 20, 80).Fates = []rest.HostFate{
			{ID: madeID, Name: "vm-1", State: "active", Becomes: becomes, Reason: why},
		}
	}
	back := func(r *Recording, gone schedule.Seconds) {
		told(r, compute.FateRebuilt, "")
		moves(r, 81, compute.StateQueued, compute.HostLost)
		heard(r, 100, 200)
		r.Machines = append(
			r.Machines,
			fake.Event{At: moment(gone), Kind: fake.Destroyed, Host: "host-1", Instance: madeID, Attempt: 1},
		)
	}
	sees(t, checkWords, map[string]func(*Recording){
		"right: nobody knows when the word was appended": func(r *Recording) {
			heard(r, 0, 15)
			says(r, schedule.WordRecord, 20, 40).OK = false
			moves(r, 50, compute.StateQueued, compute.HostLost)
		},
		"vm-1 was active on host-1, and is queued: ": func(r *Recording) {
			heard(r, 0, 15)
			says(r, schedule.WordRecord, 20, 40)
			moves(r, 50, compute.StateQueued, compute.HostLost)
		},
		"right: it was heard of for the last time by the next leader": func(r *Recording) {
			heard(r, 0, 15)
			r.Offers[len(r.Offers)-1].Seen = moment(22)
			says(r, schedule.WordPatient, 20, 76)
		},
		"is told at 72.000s that host-1 is dead, and it was heard of": func(r *Recording) {
			heard(r, 0, 15)
			says(r, schedule.WordPatient, 20, 72)
		},
		"is told at 80.000s that host-1 is dead, and it was heard of": func(r *Recording) {
			heard(r, 0, 100)
			says(r, schedule.WordPatient, 20, 80)
		},
		"vm-1 was active on host-1, and is queued": func(r *Recording) {
			heard(r, 0, 100)
			says(r, schedule.WordRecord, 20, 21)
			moves(r, 22, compute.StateQueued, compute.HostLost)
		},
		"right: a record is believed of a host that was silent": func(r *Recording) {
			heard(r, 0, 15)
			says(r, schedule.WordRecord, 45, 46)
			moves(r, 47, compute.StateQueued, compute.HostLost)
		},
		"is told at 91.000s that host-1 lives": func(r *Recording) {
			heard(r, 0, 15)
			x := says(r, schedule.WordAsked, 90, 91)
			x.OK, x.Err = false, "conflict: it is alive: it was heard 2s ago"
		},
		"right: the node hears nothing": func(r *Recording) {
			heard(r, 0, 15)
			x := says(r, schedule.WordAsked, 90, 91)
			x.OK, x.Err = false, "it is alive"
			r.Schedule.Faults = append(r.Schedule.Faults, schedule.Fault{Kind: schedule.FaultDeaf, Who: "api-1"})
		},
		"active on host-1, is ended, and becomes queued": func(r *Recording) {
			told(r, compute.FateEnded, compute.HostLost)
			moves(r, 81, compute.StateQueued, compute.HostLost)
		},
		"is built elsewhere, and stays what it was": func(r *Recording) { told(r, compute.FateRebuilt, "") },
		"right: it ends with its set, as was said": func(r *Recording) {
			told(r, compute.FateEnded, compute.SetFailed)
			moves(r, 81, compute.StateError, compute.SetFailed)
		},
		"active on host-1, is built elsewhere, and becomes error": func(r *Recording) {
			told(r, compute.FateRebuilt, "")
			moves(r, 81, compute.StateError, compute.SetFailed)
		},
		"right: the host of another of its set was declared dead as well": func(r *Recording) {
			told(r, compute.FateRebuilt, "")
			r.Words = append(r.Words, Word{Fault: schedule.Fault{Kind: schedule.FaultWord, Who: "host-2"}, First: moment(30)})
			moves(r, 81, compute.StateError, compute.SetFailed)
		},
		"right: it becomes what was said": func(r *Recording) { back(r, 110) },
		"attempt 1 runs on host-1, which was declared dead at 81.000s, " +
			"and heard again at 100.000s": func(r *Recording) {
			back(r, 131)
		},
	})
}

// Of a machine that was written off it is no matter how long it runs, and of the others it is.
func TestSpared(t *testing.T) {
	r := made()
	r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultWord, Who: "host-1", Dead: "fence"}}
	r.Words = []Word{
		{Fault: r.Schedule.Faults[0], First: moment(50), Began: moment(50), Answered: moment(51), OK: true},
	}
	i := r.Log[len(r.Log)-1].Instance
	i.State, i.Attempt, i.Host = compute.StateQueued, 2, ""
	i.Reason = &compute.Reason{Code: compute.HostLost, Host: "host-1", Detail: "its host was declared dead"}
	r.logged(51, i)
	launched := fake.Event{At: moment(55), Kind: fake.Launched, Host: "host-2", Instance: madeID, Attempt: 2}
	r.Machines = append(r.Machines, launched)
	if wrong := append(checkOnce(r), checkOver(r)...); len(wrong) > 0 {
		t.Error(wrong)
	}
	launched.At, launched.Host = moment(56), "host-1"
	r.Machines = append(r.Machines, launched)
	if len(checkOnce(r)) == 0 {
		t.Error("a second machine of the next attempt is not seen")
	}
	r.Words = nil
	if len(checkOver(r)) == 0 {
		t.Error("a machine that nobody wrote off is not seen")
	}
}

func TestUnknownIsShownOfSilentHosts(t *testing.T) {
	for _, c := range []struct {
		state compute.State
		signs []schedule.Seconds // seconds before the answer; less than nothing: after it
		well  bool
	}{
		{compute.StateActive, []schedule.Seconds{1}, true},
		{compute.StateActive, []schedule.Seconds{70}, false},
		{compute.StateActive, []schedule.Seconds{70, -0.01}, true},
		{compute.StateActive, []schedule.Seconds{62}, true},
		{compute.StateUnknown, []schedule.Seconds{50}, false},
		{compute.StateUnknown, []schedule.Seconds{62}, true},
		{compute.StateUnknown, []schedule.Seconds{100, 0.01}, true},
		{compute.StateUnknown, []schedule.Seconds{100, 5}, false},
	} {
		r := &Recording{Start: moment(0)}
		for _, s := range c.signs {
			r.Offers = append(r.Offers, Offered{Host: "host-1", Seen: moment(200 - s), Said: moment(200 - s)})
		}
		r.Showed = []Showed{
			{
				Instance: client.Instance{Host: "host-1", State: rest.State(c.state.String())},
				Began:    moment(200),
				Answered: moment(200),
			},
		}
		if wrong := checkShown(r); (len(wrong) == 0) != c.well {
			t.Errorf("%s, heard %v s before: %v", c.state, c.signs, wrong)
		}
	}
}
