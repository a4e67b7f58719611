// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

const (
	// inTime is how much later than promised a wait may end, where nothing goes wrong with
	// those that end it: a conductor reads all there is before, which takes a moment, or longer (schedule.Flood).
	inTime = 3 * time.Second
	// unclaimedFor is how long what does not want to wait for room is offered.
	unclaimedFor = 10 * time.Second
)

// checkInTime: what waits for a host ends when it was asked to, within seconds and never
// before: at its deadline, or, if it does not want to wait for room, after 10 s. What a host
// gives back after that ends at once.
func checkInTime(r *Recording) (wrong []Violation) {
	late := inTime + r.Schedule.Slack() + r.Schedule.Flood()
	for n, v := range r.versions() {
		w, i, old, x := v.Written, v.Instance, v.old, v.asked
		if early := tooEarly(old, i, x); early != "" {
			wrong = append(wrong, broken("time", i.ID, w.Seen, "%s, which was asked for at %s, %s",
				i.Boot.Name, r.At(x.Began), early)...)
		}
		if i.State != compute.StateQueued {
			continue
		}
		due, what := r.waitsUntil(i, w.Seen, x)
		sound := r.Start
		if !r.Schedule.Decides() || what != "deadline" && r.restores() {
			sound = latest(r.Calm, r.Up).Add(recovers)
		}
		if over := r.over(n); over.After(latest(due, sound, w.Seen).Add(late)) {
			wrong = append(wrong, broken("time", i.ID, over, "%s waits until %s, and its %s was over at %s",
				i.Boot.Name, r.At(over), what, r.At(due))...)
		}
	}
	return wrong
}

// restores says whether a partition may be restored from the log at any time, as after a turn that was too large: then
// nobody knows for how long work was offered, and what does not want to wait is offered for its time anew.
func (r *Recording) restores() bool { return !r.Schedule.Decides() || r.Schedule.World.TurnBytes > 0 }

// waitsUntil is when a version of a record that waits has waited long enough.
func (r *Recording) waitsUntil(i compute.Instance, seen time.Time, x Wanted) (due time.Time, what string) {
	due, what = i.Deadline, "deadline"
	if x.Boot.OnNoCapacity == compute.FailAtOnce {
		if at := latest(i.PublishAt, seen).Add(unclaimedFor); at.Before(due) {
			return at, "time without a host"
		}
	}
	return due, what
}

// tooEarly says how something ended before it was asked to; empty: it did not.
func tooEarly(old, i compute.Instance, x Wanted) string {
	if i.State != compute.StateError || old.State != compute.StateQueued || i.Reason == nil {
		return ""
	}
	switch i.Reason.Code {
	case compute.DeadlineExceeded:
		if waited := i.ChangedAt.Sub(x.logged()); waited < x.Boot.Deadline {
			return "ended by its deadline after " + waited.String() + ", and had " + x.Boot.Deadline.String()
		}
	case compute.WaitingForCapacity, compute.NoEligibleHost, compute.NeverFits, compute.GroupRule:
		if waited := i.ChangedAt.Sub(latest(old.ChangedAt, old.PublishAt)); waited < unclaimedFor {
			return "ended without a host after " + waited.String() + ", and was to wait for " + unclaimedFor.String()
		}
	}
	return ""
}

// checkClocks: whatever clocks show, nothing ends before it was to, by the right time; and what
// the log says of when something was asked for is when it was.
func checkClocks(r *Recording) (wrong []Violation) {
	for _, v := range r.versions() {
		w, i, old, x := v.Written, v.Instance, v.old, v.asked
		if what := early(old, w, x); what != "" {
			wrong = append(wrong, broken("clock", i.ID, w.Seen, "%s, which was asked for at %s, ended by its %s at %s",
				i.Boot.Name, r.At(x.Began), what, r.At(w.Seen))...)
		}
		late := w.Seen.Add(schedule.DriftedMost)
		if at := i.AcceptedAt; old.Version == 0 && !at.IsZero() &&
			(at.Before(x.Began.Add(-schedule.DriftedMost)) || at.After(late)) {
			wrong = append(
				wrong,
				broken("clock", i.ID, w.Seen, "%s is said to be accepted at %s, and was asked for at %s",
					i.Boot.Name, r.At(at), r.At(x.Began))...)
		}
		if at := i.ChangedAt; at.After(late) || at.Before(x.Began.Add(-schedule.DriftedMost)) {
			wrong = append(
				wrong,
				broken("clock", i.ID, w.Seen, "%s is said to have changed at %s, and that was seen at %s",
					i.Boot.Name, r.At(at), r.At(w.Seen))...)
		}
	}
	return wrong
}

// early says by what something ended before its time; empty: it did not.
func early(old compute.Instance, w Written, x Wanted) string {
	i := w.Instance
	if i.State != compute.StateError || old.State != compute.StateQueued || i.Reason == nil {
		return ""
	}
	switch waited := w.Seen.Sub(x.Began) + schedule.DriftedMost; i.Reason.Code {
	case compute.DeadlineExceeded:
		if waited < x.Boot.Deadline {
			return "deadline"
		}
	case compute.WaitingForCapacity, compute.NoEligibleHost, compute.NeverFits, compute.GroupRule:
		if waited < unclaimedFor {
			return "time without a host"
		}
	}
	return ""
}
