// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

const (
	// inTime is how much later than promised a wait may end, where nothing goes wrong with
	// those that end it: a conductor reads all there is before, which takes a moment.
	inTime = 3 * time.Second
	// unclaimedFor is how long what does not want to wait for room is offered.
	unclaimedFor = 10 * time.Second
)

// checkInTime: what waits for a host ends when it was asked to, within seconds and never
// before: at its deadline, or, if it does not want to wait for room, after 10 s. What a host
// gives back after that ends at once.
func checkInTime(r *Recording) (wrong []Violation) {
	asked, last := r.wanted(), map[compute.InstanceID]compute.Instance{}
	sound := latest(r.Calm, r.Up).Add(recovers)
	if r.Schedule.Decides() {
		sound = r.Start
	}
	for n, w := range r.Log {
		i, old := w.Instance, last[w.Instance.ID]
		last[i.ID] = i
		x, ok := asked[i.Boot.Name]
		if w.Removed || !ok {
			continue
		}
		if early := tooEarly(old, i, x); early != "" {
			wrong = append(wrong, broken("time", i.ID, w.Seen, "%s, which was asked for at %s, %s",
				i.Boot.Name, r.At(x.Began), early)...)
		}
		if i.State != compute.StateQueued {
			continue
		}
		due, what := r.waitsUntil(i, w.Seen, x)
		if over := r.over(n); over.After(latest(due, sound, w.Seen).Add(inTime + r.Schedule.Slack())) {
			wrong = append(wrong, broken("time", i.ID, over, "%s waits until %s, and its %s was over at %s",
				i.Boot.Name, r.At(over), what, r.At(due))...)
		}
	}
	return wrong
}

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
	case compute.WaitingForCapacity, compute.NoEligibleHost, compute.NeverFits:
		if waited := i.ChangedAt.Sub(latest(old.ChangedAt, old.PublishAt)); waited < unclaimedFor {
			return "ended without a host after " + waited.String() + ", and was to wait for " + unclaimedFor.String()
		}
	}
	return ""
}
