// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// LieClaim is how the ids of a stranger's claims begin.
const LieClaim = "stranger-"

// Lie is a report that is not its host's, and that conductors cannot tell from one.
type Lie struct {
	At time.Time
	compute.Report
}

// AddLie notes a lie, before anything comes of it.
func (r *Recording) AddLie(x Lie) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Lies = append(r.Lies, x)
}

// Buried is a host without power of which an operator was told that it counts as dead now.
type Buried struct {
	Host            compute.HostID
	Began, Answered time.Time
}

// AddBuried notes that a host counts as dead.
func (r *Recording) AddBuried(b Buried) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Buried = append(r.Buried, b)
}

// checkLies: what a host is heard to have, no stranger ends: what that one says of it under another journal does not
// count while the host is heard of.
func checkLies(r *Recording) (wrong []Violation) {
	last := map[compute.InstanceID]compute.Instance{}
	for _, w := range r.Log {
		i, old := w.Instance, last[w.Instance.ID]
		last[i.ID] = i
		over := i.State == compute.StateError || i.State == compute.StateQueued
		told := takenAway(old, i) && old.Notice().Going // to its host, which says so too; where that has not I2 is broken
		if !old.State.OnHost() || !over || told || r.Schedule.Hinders(old.Host) ||
			r.Schedule.World.Broken(old.Host, i.Boot.Image) != nil {
			continue
		}
		if slices.ContainsFunc(r.Lies, func(x Lie) bool {
			return x.Instance == i.ID && x.Attempt == old.Attempt && x.Op != compute.ReportClaim && !x.At.After(w.Seen) &&
				!(i.IsPlaceholder() && r.goneBefore(old, w.Seen, x.At))
		}) {
			wrong = append(wrong, broken("lie", i.ID, w.Seen, "%s was %s on %s, and is %s since a stranger said that it is not there",
				i.Boot.Name, old.State, old.Host, i.State)...)
		}
	}
	return wrong
}

// goneBefore says whether the host of a placeholder gave it up before a record, for a cause of its own: before the lie,
// or since the host begins nothing or has declined what took the placeholder. It is told to then, and no version of the
// record says so: the placeholder is held elsewhere once it is gone.
func (r *Recording) goneBefore(i compute.Instance, before, lie time.Time) bool {
	return slices.ContainsFunc(r.Machines, func(e fake.Event) bool {
		return e.Kind == fake.Destroyed && e.Host == i.Host && e.Instance == i.ID && e.Attempt == i.Attempt &&
			e.At.Before(before) && (e.At.Before(lie) || r.beginsNothing(i.Host, e.At) || r.declined(i, before))
	})
}

// beginsNothing says whether a host may have been drained, disabled or quarantined before a time.
func (r *Recording) beginsNothing(h compute.HostID, at time.Time) bool {
	wished := slices.ContainsFunc(r.Asks, func(a Ask) bool {
		return a.Op == schedule.LoadHost && a.Host == h && a.Wish != "enable" && !a.Began.After(at)
	})
	return wished || slices.ContainsFunc(r.quarantines(h), func(q span) bool { return !q.from.After(at) })
}

// declined says whether the host of a placeholder had declined, as far as the log was seen, what took it.
func (r *Recording) declined(i compute.Instance, before time.Time) bool {
	return slices.ContainsFunc(r.Declined, func(c Claimed) bool {
		return c.Host == i.Host && c.Seen.Before(before) && slices.ContainsFunc(r.Log, func(w Written) bool {
			return w.Instance.ID == c.Instance && w.Instance.Boot.In().ID == i.ID
		})
	})
}

// moved is how long after an operator was told that a host is dead it may be until its instances are elsewhere, wait or
// have ended, where nothing goes wrong with conductors.
const moved = 10 * time.Second

// checkBuried: what a host had when an operator asked for it to be declared dead is not there any more soon after
// the answer, whatever was claimed for it.
func checkBuried(r *Recording) (wrong []Violation) {
	for _, b := range r.Buried {
		due := b.Answered.Add(moved + r.Schedule.Slack() + r.Schedule.Flood())
		if !r.Schedule.Decides() {
			due = latest(due, latest(r.Calm, r.Up).Add(recovers))
		}
		had := map[compute.InstanceID]compute.Instance{}
		for _, w := range r.Log {
			if w.Seen.Before(b.Began) {
				had[w.Instance.ID] = w.Instance
			}
		}
		for id, i := range had {
			if i.State.OnHost() && i.Host == b.Host && r.leaves(i).After(due) {
				wrong = append(wrong, broken("buried", id, due,
					"an operator was told at %s that %s is dead, and attempt %d of %s is there until %s",
					r.At(b.Answered), b.Host, i.Attempt, i.Boot.Name, r.At(r.leaves(i)))...)
			}
		}
	}
	return wrong
}

// leaves is when an attempt is recorded to be on its host no more.
func (r *Recording) leaves(i compute.Instance) time.Time {
	for _, w := range r.Log {
		next := w.Instance
		if next.ID == i.ID && next.Version > i.Version && (!next.State.OnHost() || next.Attempt != i.Attempt) {
			return w.Seen
		}
	}
	return latest(r.Calm, r.Settled, r.Empty)
}
