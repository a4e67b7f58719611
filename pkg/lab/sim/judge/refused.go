// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
)

// racesForTheCatalog says whether the catalog, or the quota of the same project, was to be changed in
// another way, too, while somebody asked for a change: one of the two is told to look again.
func (r *Recording) racesForTheCatalog(a Ask) bool {
	return slices.ContainsFunc(r.Asks, func(b Ask) bool {
		switch b.Op {
		case schedule.LoadAddFlavor, schedule.LoadAddAxis, schedule.LoadDropFlavor, schedule.LoadDropAxis,
			schedule.LoadResize, schedule.LoadGroup:
			if a.Op == schedule.LoadQuota {
				return false
			}
		case schedule.LoadQuota:
			if a.Op != schedule.LoadQuota || a.Project != b.Project {
				return false
			}
		default:
			return false
		}
		same := b.Began.Equal(a.Began) && b.Answered.Equal(a.Answered)
		return !same && b.Began.Before(a.Answered) && (b.Answered.IsZero() || b.Answered.After(a.Began))
	})
}

// checkRefused: what is refused has a cause in what was asked, in what is offered, or in
// what went wrong. What a client is told for good counts, and what the log says.
func checkRefused(r *Recording) []Violation {
	return slices.Concat(r.refusedAtOnce(), r.refusedLater())
}

// refusedAtOnce are the answers of API nodes. What was taken away is refused for as long
// as it may be unknown that it is back.
func (r *Recording) refusedAtOnce() (wrong []Violation) {
	for _, a := range r.Asks {
		if a.OK || a.Answered.IsZero() || a.Own == "id" && a.Op == schedule.LoadDelete {
			continue // it has no answer, or Kafka gave it
		}
		if !r.mayRefuse(a) {
			wrong = append(wrong, broken("refused", a.ID, a.Answered, "%s %s%s was refused without a cause: %s",
				a.Op, a.Name, a.Host, a.Err)...)
		}
	}
	return wrong
}

func (r *Recording) mayRefuse(a Ask) bool {
	code := compute.ReasonCode("")
	if a.Why != nil && a.Why.Reason != nil {
		code = a.Why.Reason.Code
	}
	switch a.Op {
	case schedule.LoadBoot, schedule.LoadTake:
		switch {
		case code == compute.NoSuchReservation:
			return r.mayKnowNoReservation(a)
		case code == compute.NoSuchFlavor, code == compute.QueueClosedReason, code == compute.NoSuchCapability:
			return r.anyAskedWith(a, func(b compute.Boot) bool { return r.mayLack(b.Flavor, a.Began, a.Answered) })
		case code == compute.GroupRule:
			return r.anyAskedWith(a, func(b compute.Boot) bool { return r.mayHaveToChoose(a.Project, b, a.Began, a.Answered) })
		case a.Why != nil && a.Why.Kind == compute.KindConflict:
			return r.Schedule.Twin(a.Name) // another request has the key
		case a.Why != nil && (a.Why.Field == "host" || strings.HasSuffix(a.Why.Field, "].host")):
			return r.anyAskedWith(a, func(b compute.Boot) bool { return b.Host != "" && r.Schedule.Forgets(b.Host) })
		}
		return false
	case schedule.LoadDelete:
		return a.Why != nil && a.Why.Kind == compute.KindNotFound && !r.known(a.ID, a.Began)
	case schedule.LoadDropFlavor, schedule.LoadDropAxis, schedule.LoadResize:
		return true // work may wait
	case schedule.LoadAddFlavor, schedule.LoadAddAxis, schedule.LoadQuota, schedule.LoadGroup:
		return a.Why != nil && a.Why.Kind == compute.KindConflict && r.racesForTheCatalog(a)
	case schedule.LoadLabel:
		switch {
		case a.Why == nil:
			return false
		case a.Why.Kind == compute.KindConflict:
			return r.deletedBy(a.ID, a.Answered)
		}
		return a.Why.Kind == compute.KindNotFound && !r.known(a.ID, a.Began)
	case schedule.LoadHost:
		return r.Schedule.Forgets(a.Host)
	}
	return false
}

// deletedBy says whether the log had an instance deleted at some time. An API node may have read that before the judge.
func (r *Recording) deletedBy(id compute.InstanceID, at time.Time) bool {
	at = at.Add(r.Schedule.World.Drifts())
	return slices.ContainsFunc(r.Log, func(w Written) bool {
		return w.Instance.ID == id && w.Instance.State == compute.StateDeleted && !w.Instance.ChangedAt.After(at)
	})
}

// known says whether a client had been told, before a time, that a boot is safe.
func (r *Recording) known(id compute.InstanceID, before time.Time) bool {
	return slices.ContainsFunc(r.Asks, func(a Ask) bool {
		return a.Op == schedule.LoadBoot && a.ID == id && a.OK && a.Answered.Before(before)
	})
}

// nodesOpen is how long after the beginning a second API node, or a conductor, may not
// have read everything: only the first node is waited for.
const nodesOpen = 10 * time.Second

// mayLack says whether somebody may have thought, between two moments, that a flavor is
// not offered: it never is, not yet for as long as all have heard, or no more.
func (r *Recording) mayLack(name compute.FlavorName, from, to time.Time) bool {
	if _, ever := r.Schedule.Flavor(name); !ever || from.Before(r.Start.Add(nodesOpen)) {
		return true
	}
	first := time.Time{}
	for _, a := range r.Asks {
		switch {
		case a.Flavor == nil || a.Flavor.Name != name:
		case (a.Op == schedule.LoadDropFlavor || a.Op == schedule.LoadResize) && !a.Began.After(to):
			return true // of one that became another the queue is closed for as long as anything waits there
		case a.Op == schedule.LoadAddFlavor && a.OK && (first.IsZero() || a.Answered.Before(first)):
			first = a.Answered
		}
	}
	if len(r.Schedule.Faults) > 0 && !first.Before(r.Start) {
		return true // a process that is hindered hears of it late
	}
	if first.IsZero() {
		return !slices.ContainsFunc(r.Schedule.World.Flavors, func(f compute.Flavor) bool { return f.Name == name })
	}
	return from.Before(first.Add(quotaHeard))
}

// refusedLater are records that end in error.
func (r *Recording) refusedLater() (wrong []Violation) {
	last, asked := map[compute.InstanceID]compute.Instance{}, r.wanted()
	for _, w := range r.Log {
		i, old := w.Instance, last[w.Instance.ID]
		last[i.ID] = i
		x, ok := asked[i.Boot.Name]
		if w.Removed || !ok || i.State != compute.StateError || relabelled(old, i) {
			continue
		}
		if i.Reason == nil || !r.mayEnd(old, w, x) {
			wrong = append(
				wrong,
				broken("refused", i.ID, w.Seen, "%s ended without a cause: %s", i.Boot.Name, i.Reason)...)
		}
	}
	return wrong
}

// mayEnd says whether the schedule holds a cause for an error. Times are looked at by
// checkInTime, attempts by checkAttempts, and quota by checkQuotaExact.
func (r *Recording) mayEnd(old compute.Instance, w Written, x Wanted) bool {
	reason := w.Instance.Reason
	switch reason.Code {
	case compute.QuotaExceeded:
		return r.limits(x.Project, w.Seen)
	case compute.NoSuchGroup:
		return x.Boot.Group() == schedule.Late && r.deafConductor(x.Began, w.Seen) // it was made a moment ago
	case compute.NoSuchFlavor, compute.NoSuchCapability, compute.QueueClosedReason:
		return r.mayLack(x.Boot.Flavor, x.Began, w.Seen)
	case compute.DeadlineExceeded:
		return old.State == compute.StateQueued
	case compute.WaitingForCapacity, compute.NoEligibleHost, compute.NeverFits:
		return old.State == compute.StateQueued && x.Boot.OnNoCapacity == compute.FailAtOnce && x.Boot.Host == ""
	case compute.GroupRule:
		if old.State == compute.StateNone {
			return r.anyAskedWith(x.Ask, func(b compute.Boot) bool { return r.mayHaveToChoose(x.Project, b, x.Began, w.Seen) })
		}
		return old.State == compute.StateQueued && x.Boot.OnNoCapacity == compute.FailAtOnce && x.Boot.Group() != ""
	case compute.SetFailed:
		return x.Set != "" && r.setMayFail(x, w)
	case compute.PinnedHostUnavailable:
		return x.Boot.Host != "" && (x.Boot.OnNoCapacity == compute.FailAtOnce || r.mayTurnAway(x.Boot.Host, x, w.Seen))
	case compute.AttemptsExhausted:
		return r.Schedule.Hinders(reason.Host) ||
			slices.ContainsFunc(w.Instance.Failures, func(f compute.Failure) bool {
				return r.Schedule.World.Broken(f.Host, x.Boot.Image) != nil
			})
	case compute.BuildFailed, compute.HostLost:
		return r.Schedule.Hinders(reason.Host)
	case compute.Preempted:
		return takenAway(old, w.Instance) && x.Boot.Preemptible().Then == compute.ThenRequeue &&
			r.mayLack(x.Boot.Flavor, x.Began, w.Seen)
	}
	return false
}

// limits says whether anybody had asked for a quota of a project.
func (r *Recording) limits(p compute.Project, before time.Time) bool {
	return slices.ContainsFunc(r.Asks, func(a Ask) bool {
		return a.Op == schedule.LoadQuota && a.Project == p && !a.Began.After(before)
	})
}

// mayTurnAway says whether a host may have been unable to take what only it may take.
func (r *Recording) mayTurnAway(h compute.HostID, x Wanted, at time.Time) bool {
	host, ok := r.Schedule.Host(h)
	if !ok || r.Schedule.Hinders(h) || r.Schedule.Resizes("") || !x.Resources.FitsIn(host.Totals) {
		return true
	}
	if slices.ContainsFunc(x.Required, func(t compute.Trait) bool { return !slices.Contains(host.Traits, t) }) {
		return true
	}
	all := compute.Resources{}
	for _, a := range r.Asks {
		switch {
		case a.Op == schedule.LoadHost && a.Host == h && a.Wish != "enable" && !a.Began.After(at):
			return true
		case a.Op == schedule.LoadReserve && !a.Began.After(at):
			for range a.Count {
				all = all.Plus(want(r.Schedule, a).Resources)
			}
		case a.Op == schedule.LoadBoot && !a.Began.After(at):
			all = all.Plus(want(r.Schedule, a).Resources)
		}
	}
	return !all.FitsIn(host.Totals) // others may have it
}

// Cause is why somebody was told no.
func Cause(err error) *compute.Error {
	var e *compute.Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// Place is where a request is in its topic.
type Place struct {
	Partition int32
	Offset    int64
}

// Forged is a request of a stranger.
type Forged struct {
	Place
	At      time.Time // when the broker had it
	Op      compute.RequestOp
	Command compute.CommandID // of the stranger's power commands
}

// AddForged notes that a stranger's request is in the log.
func (r *Recording) AddForged(f Forged) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Forged = append(r.Forged, f)
}

// ReadRejected hears which requests conductors have refused.
func (r *Recording) ReadRejected(rec wire.Record, requests string) {
	x, err := wire.DecodeRejected(rec)
	if err != nil {
		r.AddViolation("log", "", "what is rejected cannot be read: %v", err)
		return
	}
	if x.Topic != requests {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Refused[Place{x.Partition, x.Offset}] = x.Reason.Code
}

// checkForged: whatever a stranger asks for is rejected, because of its signature; no record has its command, and none is deleted
// that no client has deleted.
func checkForged(r *Recording) (wrong []Violation) {
	theirs := map[compute.CommandID]bool{}
	for _, f := range r.Forged {
		theirs[f.Command] = f.Command != ""
		switch code := r.Refused[f.Place]; code {
		case compute.Unsigned, compute.Forged, compute.ForeignProject:
		default:
			if !r.Settled.IsZero() {
				wrong = append(wrong, broken("forged", "", f.At,
					"a stranger's %s at offset %d of partition %d is not refused: %q", f.Op, f.Offset, f.Partition, code)...)
			}
		}
	}
	for _, w := range r.Log {
		i := w.Instance
		if c := i.Command; c != nil && theirs[c.Command] {
			wrong = append(wrong, broken("forged", i.ID, w.Seen, "%s obeys a stranger's %s", i.Boot.Name, c.Op)...)
		}
		ofSet := i.Reason != nil && i.Reason.Code == compute.SetFailed && r.partNamed(i.Boot.Name)
		over := i.IsPlaceholder() && r.reservationOver(i, w.Seen)
		caused := ofSet || over || preempted(i) // checkPreempted
		if i.Delete && len(r.Forged) > 0 && !caused && !slices.ContainsFunc(r.Asks, func(a Ask) bool {
			return a.Op == schedule.LoadDelete && a.ID == i.ID && !a.Began.After(w.Seen)
		}) {
			wrong = append(wrong, broken("forged", i.ID, w.Seen, "%s is deleted, and no client asked for it", i.Boot.Name)...)
		}
	}
	return wrong
}
