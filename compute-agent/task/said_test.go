// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// What the reports say that the scenarios do not show.
func TestReportsInFull(t *testing.T) {
	broken := Failure{Class: compute.FailureHost, Message: "no luck"}
	x := Task{Instance: "i", Project: "p", Attempt: 2, Claim: "c", Trace: "t", Fence: 3, MadeRoom: 4}
	same := compute.Report{Project: "p", Instance: "i", Attempt: 2, Claim: "c", Trace: "t"}
	at := func(s Stage, change func(*Task)) Task {
		x := x
		x.Stage = s
		change(&x)
		return x
	}
	for what, c := range map[string]struct {
		task  Task
		event Event
		want  func(*compute.Report)
	}{
		"a claim": {at(Preparing, func(*Task) {}), Prepared{}, func(r *compute.Report) {
			r.Op, r.Fence, r.MadeRoom = compute.ReportClaim, 3, 4
		}},
		"a claim of a set that cannot be granted whole": {
			at(Preparing, func(x *Task) { x.Hold = time.Minute }), PrepareFailed{broken}, func(r *compute.Report) {
				r.Op, r.Fence, r.MadeRoom = compute.ReportClaim, 3, 4
				r.Class, r.Message = broken.Class, broken.Message
			}},
		"and whose driver has no words": {
			at(Preparing, func(x *Task) { x.Hold = time.Minute }), PrepareFailed{}, func(r *compute.Report) {
				r.Op, r.Fence, r.MadeRoom = compute.ReportClaim, 3, 4
				r.Message = "it could not be prepared"
			}},
		"what was broken is given back": {
			at(Claiming, func(x *Task) { x.Broken = &broken }), GiveUp{}, func(r *compute.Report) {
				r.Op, r.Class, r.Message = compute.ReportReturned, broken.Class, broken.Message
			}},
		"an answer to a command": {
			at(Running, func(x *Task) {
				x.Busy, x.Command = BusyPower, &compute.PowerCommand{Op: compute.OpStop, Version: 5, Command: "s"}
			}),
			PowerDone{Power: compute.PowerRunning}, func(r *compute.Report) {
				r.Op, r.Power, r.Version, r.Command = compute.ReportChanged, compute.PowerRunning, 5, "s"
			}},
	} {
		want := same
		c.want(&want)
		_, actions := DefaultRules().Step(c.task, c.event, time.Now())
		var got compute.Report
		for _, a := range actions {
			if r, is := a.(Report); is {
				got = r.Report
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

// The journal remembers the last reboots, and them alone: what is done as often as it is asked for would push them out.
func TestOnlyRebootsAreRemembered(t *testing.T) {
	x := Task{Instance: "i", Attempt: 1, Claim: "c", Stage: Running}
	var want []compute.CommandID
	for v := range compute.Version(40) {
		c := compute.PowerCommand{Op: compute.OpReboot, Version: v + 1, Command: compute.CommandID(fmt.Sprint(v))}
		if v%2 == 0 {
			c.Op = compute.OpStop
		} else {
			want = append(want, c.Command)
		}
		x.Busy = Idle
		x, _ = DefaultRules().Step(x, Commanded{1, "c", c, false}, time.Now())
	}
	if diff := cmp.Diff(want[len(want)-16:], x.Reboots); diff != "" {
		t.Error(diff)
	}
}

// A host that lost its journal learns from a confirm whatever its offers go by.
func TestConfirmTellsWhatTheJournalKnew(t *testing.T) {
	now := time.Now()
	for _, c := range []Confirm{
		{Queue: "q", Group: "g", In: compute.InPlaceholder{ID: "h", Attempt: 3}, TimesTaken: 2},
		{Queue: "q", Preemptible: true, TimesTaken: 2},
		{Queue: "q", Preemptible: true, Noticed: true},
		{Queue: "q", Noticed: true}, // its place is not to be had, whatever was asked for
		{Group: "g", Preemptible: true},
	} {
		before := Task{Instance: "i", Attempt: 1, Claim: "c", Stage: Running}
		want := before
		if want.SayAt = DefaultRules().sayAt("i", now); c.Queue != "" {
			want.Queue, want.Group, want.In, want.TimesTaken = c.Queue, c.Group, c.In, c.TimesTaken
			want.Preemptible, want.Wanted, want.WantedAt = c.Preemptible, c.Preemptible && c.Noticed, now
		}
		c.Attempt, c.Claim = 1, "c"
		got, _ := DefaultRules().Step(before, c, now)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c, diff)
		}
	}
}

// A machine whose place was asked for is taken to go, for a while: counted from when it was last asked for, or from a
// restart, as the journal does not hold when that was.
func TestGoes(t *testing.T) {
	now := time.Unix(1e9, 0)
	x := Task{Instance: "i", Attempt: 1, Claim: "c", Stage: Running, Preemptible: true, WantedAt: now}
	if x.Goes(now) {
		t.Error("its place was not asked for")
	}
	check := func(after string) {
		t.Helper()
		if !x.Goes(now.Add(goesWithin-1)) || x.Goes(now.Add(goesWithin)) {
			t.Errorf("after %s it goes until %s, want %s", after, x.WantedAt.Add(goesWithin), now.Add(goesWithin))
		}
	}
	x, _ = DefaultRules().Step(x, Preempt{"q"}, now)
	check("one Preempt")
	now = now.Add(time.Minute)
	x, _ = DefaultRules().Step(x, Preempt{"q"}, now)
	check("another")
	now = now.Add(time.Hour)
	launched := []Machine{{Instance: "i", Attempt: 1, Claim: "c", Launched: true}}
	x = DefaultRules().Reconcile([]Task{x}, launched, now)[0].Task
	check("a restart")
}
