// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// decidedBefore is how long before it is in the log something is decided, where nothing goes wrong, beside what a network
// takes.
const decidedBefore = 100 * time.Millisecond

// takenAway says whether a record says that the machine of the one before it was taken for other work.
func takenAway(old, i compute.Instance) bool { return old.Notice() != nil && preempted(i) }

// preempted says whether the last that happened to an instance is that its place was taken.
func preempted(i compute.Instance) bool { return i.Reason != nil && i.Reason.Code == compute.Preempted }

// checkPreempted: only what is preemptible is ever taken away, for work that is not low, by the host that has it; its guest is
// asked to stop first, and it goes when that has stopped, or after its grace; what is to be requeued waits or runs again, and
// what is to be deleted is. (That nothing runs twice is I2, that nothing is lost I1.)
func checkPreempted(r *Recording) (wrong []Violation) {
	for _, v := range r.versions() {
		w, i, old, x := v.Written, v.Instance, v.old, v.asked
		say := func(format string, args ...any) {
			wrong = append(wrong, broken("preempt", i.ID, w.Seen, "%s "+format, append([]any{i.Boot.Name}, args...)...)...)
		}
		p := x.Boot.Preemptible()
		n, was := i.Notice(), old.Notice()
		switch {
		case n != nil && was == nil:
			_, class := compute.SplitTier(n.Queue)
			asked := i.Command != nil && i.Command.Op == compute.OpStop && !i.Command.Hard
			switch {
			case p.Then == compute.KeepsItsPlace:
				say("has notice, and is not preemptible")
			case class == compute.PriorityLow || n.Class != class:
				say("has notice for work of priority %s in %s", n.Class, n.Queue)
			case n.Host != i.Host || old.State != compute.StateActive:
				say("has notice by %s, and was %s on %s", n.Host, old.State, old.Host)
			case r.Schedule.Decides() && !r.decidedAbout(n.At, w.Seen):
				say("has notice since %s, which was in the log at %s", r.At(n.At), r.At(w.Seen))
			case n.Until.Sub(n.At) != p.Grace:
				say("has notice of %s, and was to have %s", n.Until.Sub(n.At), p.Grace)
			case !asked && (old.Power != compute.PowerStopped || old.Command != nil):
				say("has notice, and its guest is not asked to stop")
			}
		case was != nil && (i.State == compute.StateDeleting && takenAway(old, i) || n != nil && n.Going && !was.Going):
			stopped := old.Power == compute.PowerStopped && old.Command == nil
			if i.ChangedAt.Before(was.Until) && !stopped && !r.diesWith(old.Host, w) {
				say("goes at %s, %s before its guest has to have stopped, and it has not", r.At(i.ChangedAt),
					was.Until.Sub(i.ChangedAt))
			}
		case takenAway(old, i) && i.State == compute.StateQueued && p.Then != compute.ThenRequeue:
			say("waits again, and was to be deleted")
		case takenAway(old, i) && i.State == compute.StateDeleting && p.Then != compute.ThenDelete:
			say("is deleted, and was to wait again")
		case was == nil && preempted(i) && !preempted(old):
			say("was taken away without notice")
		}
	}
	return append(wrong, r.checkStopped()...)
}

// diesWith says whether what is deleted is gone in the same moment, as it is of a host that is declared dead.
func (r *Recording) diesWith(h compute.HostID, w Written) bool {
	next, _ := r.next(w.Instance, w.Seen)
	return r.Schedule.Buries(h) && next.State == compute.StateDeleted && next.ChangedAt.Equal(w.Instance.ChangedAt)
}

// decidedAbout says whether a record that was seen at a time may have been decided when it says.
func (r *Recording) decidedAbout(at, seen time.Time) bool {
	drifts := r.Schedule.World.Drifts()
	return !at.Before(seen.Add(-decidedBefore-r.Schedule.Slack()-drifts)) && !at.After(seen.Add(drifts))
}

// checkStopped: of a machine that has notice nothing is destroyed before its time, unless its guest has stopped, it is
// to be deleted, or its host was declared dead or may be set up anew; and no guest is cut off before it, unless a
// client asks for another stop: an agent that begins again is told of the last one alone.
func (r *Recording) checkStopped() (wrong []Violation) {
	for at, v := range r.versions() {
		n := v.Instance.Notice()
		if n == nil || v.old.Notice() != nil || n.Until.Equal(n.At) {
			continue
		}
		cutOff := r.Schedule.World.Deaf && v.old.Command == nil && !r.Schedule.LosesPower(n.Host)
		over := r.over(at)
		if next, ok := r.following(at); ok && next.Instance.ChangedAt.Before(over) {
			over = next.Instance.ChangedAt // the host may hear of it before it is seen in the log
		}
		for _, e := range r.Machines {
			ends := e.Kind == fake.Destroyed && e.At.Before(over) && !r.wipes(n.Host, e.At) ||
				e.Kind == fake.Stopped && cutOff && !r.stopsAgain(v.Instance, e.At)
			if e.Instance == v.Instance.ID && e.Host == n.Host && ends && e.Attempt == v.Instance.Attempt &&
				e.At.After(v.Seen) && e.At.Before(n.Until.Add(-r.Schedule.World.Drifts())) {
				wrong = append(wrong, broken("preempt", e.Instance, e.At, "%s is %s, and its guest has until %s",
					v.Instance.Boot.Name, e.Kind, r.At(n.Until))...)
			}
		}
	}
	return wrong
}

// wipes says whether a host, or any, may have been set up anew by a time: then its machines go, and no agent destroys
// them. What waits for an instance comes later than its time.
func (r *Recording) wipes(h compute.HostID, by time.Time) bool {
	return slices.ContainsFunc(r.Schedule.Faults, func(f schedule.Fault) bool {
		return f.Kind == schedule.FaultWipe && (f.Who == "" || f.Who == string(h)) && !by.Before(r.Start.Add(f.At.Duration()))
	})
}

// stopsAgain says whether a stop that a client asked for had taken the place of a notice's own by a time.
func (r *Recording) stopsAgain(noticed compute.Instance, by time.Time) bool {
	by = by.Add(r.Schedule.World.Drifts())
	return slices.ContainsFunc(r.Log, func(w Written) bool {
		i := w.Instance
		return i.ID == noticed.ID && i.Version > noticed.Version && !i.ChangedAt.After(by) &&
			i.Command != nil && i.Command.Op == compute.OpStop && r.asksToStop(i, by)
	})
}

// asksToStop says whether the power command of an instance is a stop that a client had asked for by a time.
func (r *Recording) asksToStop(i compute.Instance, by time.Time) bool {
	for n, a := range r.Asks {
		if commandOf(n) == i.Command.Command {
			return a.Op == schedule.LoadPower && a.Power == "stop" && a.ID == i.ID && !a.Began.After(by)
		}
	}
	return false
}
