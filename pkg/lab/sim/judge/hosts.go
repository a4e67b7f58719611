// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// keptTime is how much later than a machine was destroyed its record may change: a
// host destroys first and reports then, and the conductor that records it may stand still.
const keptTime = 2 * time.Minute

// checkKept: no machine is destroyed whose attempt made its instance active, unless
// the next that is recorded is that it was to be deleted, or that its place was taken.
// What an operator says of dead hosts, and what is wiped, does not count.
func checkKept(r *Recording) (wrong []Violation) {
	if r.losesMachines() {
		return nil
	}
	for _, e := range r.Machines {
		if e.Kind != fake.Destroyed {
			continue
		}
		i, ok := r.meant(e)
		next, late := r.next(i, e.At)
		late = late && !takenAway(i, next) && !r.givenUpUnheard(i, next, e.At)
		if ok && i.State == compute.StateActive && (late || next.State == compute.StateError && !preempted(next)) {
			wrong = append(wrong, broken("kept", e.Instance, e.At,
				"%s was active on %s, and was destroyed there", i.Boot.Name, i.Host)...)
		}
	}
	return wrong
}

// givenUpUnheard says whether a placeholder was given up by its host, which begins nothing, and is offered again late:
// while a copy of its host speaks, too, neither's word counts, and what the host says may come late. So it is for what
// takenAway is true of.
func (r *Recording) givenUpUnheard(i, next compute.Instance, at time.Time) bool {
	copied := slices.ContainsFunc(r.Clones, func(c Cloned) bool {
		return c.Of == i.Host && c.From.Before(at.Add(keptTime)) && c.To.After(at)
	})
	from := at.Sub(r.Start)
	unheard := copied || !r.Schedule.Decides() || r.Schedule.Hides(i.Host, from, from+keptTime)
	return i.IsPlaceholder() && next.State == compute.StateQueued && r.beginsNothing(i.Host, at) && unheard
}

// losesMachines says whether what hosts have may be wiped, or be declared dead.
func (r *Recording) losesMachines() bool {
	return slices.ContainsFunc(r.Schedule.Faults, func(f schedule.Fault) bool {
		return f.Kind == schedule.FaultWipe || f.Dead != ""
	})
}

// next is what is recorded after a version of a record, and whether that comes long
// after a moment, or never.
func (r *Recording) next(i compute.Instance, at time.Time) (next compute.Instance, late bool) {
	for _, w := range r.Log {
		if w.Instance.ID == i.ID && w.Instance.Version > i.Version && w.Instance.State != i.State {
			return w.Instance, w.Seen.Sub(at) > keptTime
		}
	}
	return next, true
}

// meant is the record of a machine's instance when something happened to it, if it is
// about this attempt.
func (r *Recording) meant(e fake.Event) (last compute.Instance, ok bool) {
	for _, w := range r.Log {
		if w.Instance.ID == e.Instance && !w.Removed && !w.Seen.After(e.At) {
			last = w.Instance
		}
	}
	return last, last.Attempt == e.Attempt && last.Version > 0
}

// checkLost: nothing that ran is lost where hosts lose neither machines nor what
// they know of them, unless its place was taken. Its own agent may say that a machine
// is gone only if somebody took it.
func checkLost(r *Recording) (wrong []Violation) {
	other := false
	for _, f := range r.Schedule.Faults {
		other = other || f.Kind == schedule.FaultRename || f.Kind == schedule.FaultClone
		if f.Kind == schedule.FaultWipe || f.Kind == schedule.FaultDriver || f.Dead != "" || f.Disk != "" {
			return nil
		}
	}
	if !other {
		return nil
	}
	was := map[compute.InstanceID]compute.State{}
	for _, w := range r.Log {
		i := w.Instance
		if i.State == compute.StateError && was[i.ID] == compute.StateActive && !preempted(i) && !r.succeeded(i.Host) {
			wrong = append(wrong, broken("kept", i.ID, w.Seen,
				"%s was lost, and its host has only had another name, or a twin: %s", i.Boot.Name, i.Reason)...)
		}
		was[i.ID] = i.State
	}
	return wrong
}

// Cloned is a second agent of a host's name that was there for a while.
type Cloned struct {
	Of       compute.HostID
	Host     compute.HostID // of its own machines
	From, To time.Time
	Left     []hypervisor.Machine // what it had when it went
}

// AddCloned notes that a clone is gone.
func (r *Recording) AddCloned(c Cloned) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Clones = append(r.Clones, c)
}

// mayBeHost says whether a clone began while its host could not be heard, or could not hear: then it is
// the host as far as anybody can know, and what it launches is lost with it.
func (r *Recording) mayBeHost(c Cloned) bool {
	return r.Schedule.Hides(c.Of, c.From.Sub(r.Start), c.To.Sub(r.Start))
}

// succeeded says whether a host had such a clone.
func (r *Recording) succeeded(h compute.HostID) bool {
	return slices.ContainsFunc(r.Clones, func(c Cloned) bool { return c.Of == h && r.mayBeHost(c) })
}

// checkOrphans: a clone launches nothing: once it has ended, nobody could reach the machine.
func checkOrphans(r *Recording) (wrong []Violation) {
	for _, c := range r.Clones {
		if r.mayBeHost(c) {
			continue
		}
		for _, m := range c.Left {
			if m.Launched {
				wrong = append(wrong, broken("kept", m.Instance, c.To,
					"%s launched attempt %d of %s, and it is left there: it was a clone of %s",
					c.Host, m.Attempt, m.Instance, c.Of)...)
			}
		}
	}
	return wrong
}

// Renamed is a time in which the agent of a host was started under another name.
type Renamed struct {
	Host     compute.HostID
	Name     compute.HostID // that it had then
	From, To time.Time
}

// AddRenamed notes that a host has its name again.
func (r *Recording) AddRenamed(n Renamed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Renames = append(r.Renames, n)
}

// checkHome: under another name a host launches nothing that was granted to its own, and destroys no machine that a
// record means, unless that one is to be deleted next. Calls of an agent that must not start its hypervisor tells of.
func checkHome(r *Recording) (wrong []Violation) {
	for _, n := range r.Renames {
		for _, l := range r.Launches {
			if l.Host == n.Name && r.granted(l, n.Host) {
				wrong = append(wrong, broken("home", l.Instance, l.At,
					"%s launches attempt %d of %s, which was granted to %s", n.Name, l.Attempt, l.Instance, n.Host)...)
			}
		}
		if r.losesMachines() {
			continue
		}
		for _, e := range r.Machines {
			if e.Kind == fake.Destroyed && e.Host == n.Host && !e.At.Before(n.From) && !e.At.After(n.To) {
				wrong = append(wrong, r.destroyed(e, n)...)
			}
		}
	}
	return wrong
}

// destroyed: what a host destroys under another name is being deleted, or over.
func (r *Recording) destroyed(e fake.Event, n Renamed) []Violation {
	i, ok := r.meant(e)
	if !ok || !i.State.OnHost() || r.endsNext(i, e.At) {
		return nil
	}
	return broken("home", e.Instance, e.At, "%s was %s on %s, and was destroyed when that was called %s",
		i.Boot.Name, i.State, i.Host, n.Name)
}

// endsNext says whether an instance is being deleted when a machine of its is destroyed, or soon after.
func (r *Recording) endsNext(i compute.Instance, at time.Time) bool {
	next, late := r.next(i, at)
	if next.State == compute.StateActive {
		next, late = r.next(next, at)
	}
	return i.State == compute.StateDeleting || !late && (next.State == compute.StateDeleting || next.State == compute.StateDeleted)
}

// granted says whether a host was granted what is launched.
func (r *Recording) granted(l Launch, to compute.HostID) bool {
	return slices.ContainsFunc(r.Log, func(w Written) bool {
		i := w.Instance
		return i.ID == l.Instance && i.Attempt == l.Attempt && i.Claim == l.Claim && i.Host == to
	})
}
