// SPDX-License-Identifier: Apache-2.0

package task

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// A last report that Kafka refused for good is said again when the conductor asks again: else the task would keep its
// room for ever.
func TestWhatWasRefusedIsSaidAgain(t *testing.T) {
	now := time.Now()
	for what, c := range map[string]struct {
		end   Outcome
		event Event
		want  compute.ReportOp // none: nothing is said
		told  bool
	}{
		"gone":               {EndGone, Deleted{Attempt: 1, Claim: "c"}, compute.ReportGone, false},
		"gone, and granted":  {EndGone, Granted{Attempt: 1, Claim: "c"}, compute.ReportGone, false},
		"failed":             {EndFailed, Granted{Attempt: 1, Claim: "c"}, compute.ReportFailed, false},
		"failed, to delete":  {EndFailed, Deleted{Attempt: 1, Claim: "c"}, compute.ReportFailed, false},
		"returned":           {EndReturned, Granted{Attempt: 1, Claim: "c"}, compute.ReportReturned, false},
		"gone, and was told": {EndGone, Deleted{Attempt: 1, Claim: "c"}, compute.ReportNone, true},
	} {
		x := Task{Instance: "i", Attempt: 1, Claim: "c", Stage: Ending, End: &End{How: c.end}, Destroyed: true, Told: c.told}
		_, actions := Rules{}.Step(x, c.event, now)
		said := compute.ReportNone
		for _, a := range actions {
			if r, is := a.(Report); is {
				said = r.Report.Op
			}
		}
		if said != c.want {
			t.Errorf("%s: %v is said, want %v", what, said, c.want)
		}
	}
}

// A driver's words about a machine that is stopped may change all the time. What it does, or why, is news; so are words
// where there were none, or where they are all that is known.
func TestWordsThatChangeAreNoNews(t *testing.T) {
	shutdown := Stopped{compute.GuestShutdown, "for 35 s"}
	for _, c := range []struct {
		was   Stopped
		power compute.PowerState
		why   Stopped
		news  bool
	}{
		{shutdown, compute.PowerStopped, Stopped{compute.GuestShutdown, "for 50 s"}, false},
		{shutdown, compute.PowerStopped, Stopped{compute.GuestPanicked, "for 35 s"}, true},
		{shutdown, compute.PowerPaused, Stopped{compute.GuestShutdown, "for 35 s"}, true},
		{shutdown, compute.PowerRunning, Stopped{}, true},
		{Stopped{Why: compute.GuestShutdown}, compute.PowerStopped, shutdown, true},
		{Stopped{compute.StoppedUnknown, "code 3"}, compute.PowerStopped, Stopped{compute.StoppedUnknown, "code 4"}, true},
	} {
		x := Task{Instance: "i", Attempt: 1, Claim: "c", Stage: Running, Power: compute.PowerStopped, Stopped: c.was}
		_, actions := Rules{}.Step(x, Seen{There: true, Power: c.power, Stopped: c.why}, time.Now())
		if news := slices.ContainsFunc(actions, func(a Action) bool { _, is := a.(Report); return is }); news != c.news {
			t.Errorf("%+v: %v", c, actions)
		}
	}
}
