// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
)

// At is a moment in the schedule's seconds.
func (r *Recording) At(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return schedule.SecondsOf(t.Sub(r.Start)).String()
}

// Accepted lists the boots and deletes that clients were told are safe, and each placeholder of a reservation as one.
func (r *Recording) Accepted() (list []Ask) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.Asks {
		switch {
		case !a.OK:
		case a.Op == schedule.LoadBoot, a.Op == schedule.LoadTake, a.Op == schedule.LoadDelete:
			list = append(list, a)
		case a.Op == schedule.LoadReserve:
			for part := range a.Count {
				p := a
				p.Name = a.PartName(part)
				p.ID = wire.KeyedInstance(a.Project, p.Name)
				list = append(list, p)
			}
		}
	}
	return list
}

// checks are the rules: each says where a recording breaks one.
func checks() []func(*Recording) []Violation {
	return []func(*Recording) []Violation{
		checkEnded, checkAccepted, checkInvented, checkLog, checkOnce, checkGranted, checkOver,
		checkQuota, checkQuotaView, checkRoom, checkPlaces, checkPrompt, checkLeft, checkReboots, checkQueues,
		checkKept, checkLost, checkOrphans, checkHome, checkDenied, checkBack,
		checkRequest, checkRefused, checkQuotaExact, checkInTime, checkClosed, checkPower,
		checkTimers, checkPublished, checkTaken, checkIdle, checkCalls, checkRung, checkDrained, checkKeys,
		checkAttempts, checkObserver, checkQuarantine,
		checkForged, checkImages, checkWords, checkClocks, checkOrder, checkLabels, checkShown, checkLies, checkBuried,
		checkGroups, checkSets, checkWholes, checkPreempted, checkNeeded, checkReserved,
		checkBeside, checkGaveWay,
	}
}

// Judge says what was wrong, the first thing first.
func (r *Recording) Judge() []Violation {
	all := slices.Clone(r.Wrong)
	for _, c := range checks() {
		all = append(all, c(r)...)
	}
	slices.SortStableFunc(all, func(a, b Violation) int { return a.At.Compare(b.At) })
	return all
}

func broken(rule string, id compute.InstanceID, at time.Time, format string, args ...any) []Violation {
	return []Violation{{rule, id, at, fmt.Sprintf(format, args...)}}
}

// checkEnded: I1, I6: what is left to do gets done.
func checkEnded(r *Recording) (wrong []Violation) {
	well := r.well()
	took := r.Placed.Sub(well)
	id := r.idIn(r.Awaited)
	if !r.Placed.IsZero() && took > soon+r.anew()+r.saved()+r.retried(id, well)+r.passed(id)+r.noticed(id, well)+
		r.crawled()+r.restored(id, well)+r.awaitsConductor(id, well) {
		wrong = append(
			wrong,
			broken(
				"I6",
				id,
				r.Placed,
				"%s after everything was up and well: %s",
				took.Round(time.Second),
				r.Awaited,
			)...)
	}
	if !r.Settled.IsZero() {
		return wrong
	}
	for _, what := range r.Stuck {
		wrong = append(
			wrong,
			broken("I1", r.idIn(what), r.Calm.Add(Patience), "%s after everything was well: %s", Patience, what)...)
	}
	return wrong
}

// well is when the last thing that keeps hosts from taking work is over. A host that has met an agent of its own name
// takes nothing for a minute after the last word about that one, which may come when it has just ended. A host that lost
// its journal beside a copy of it is not believed about its machines for ten minutes more.
func (r *Recording) well() time.Time {
	at := latest(r.Calm, r.Up)
	for _, c := range r.Clones {
		until := c.To.Add(compute.SilentAfter)
		if r.losesJournal(c.Of) {
			until = until.Add(10 * compute.SilentAfter)
		}
		at = latest(at, until)
	}
	return at
}

// losesJournal says whether the disk of a host, or of any, is lost at some time.
func (r *Recording) losesJournal(h compute.HostID) bool {
	return slices.ContainsFunc(r.Schedule.Faults, func(f schedule.Fault) bool { return losesJournalOf(f, h) })
}

// lostJournal says whether that may have been before a moment: of what is aimed nobody says when it is.
func (r *Recording) lostJournal(h compute.HostID, before time.Time) bool {
	return slices.ContainsFunc(r.Schedule.Faults, func(f schedule.Fault) bool {
		return losesJournalOf(f, h) && (f.When != "" || r.Start.Add(f.At.Duration()).Before(before))
	})
}

func losesJournalOf(f schedule.Fault, h compute.HostID) bool {
	return f.LosesJournal() && (f.Who == string(h) || f.Who == "")
}

// restored is how long, from then on until all was placed, the partition of an instance was taken over, or restored from
// the log after turns that were too large, where an agent speaks of machines that another's journal has: its conductor
// has heard no host yet each time, and believes the agent only once it has listened for a while.
func (r *Recording) restored(id compute.InstanceID, from time.Time) time.Duration {
	loses := func(h schedule.Host) bool { return r.losesJournal(h.ID) }
	if id == "" || !r.Schedule.Clones() && !slices.ContainsFunc(r.Schedule.World.Hosts, loses) {
		return 0
	}
	partition := wire.Partition(r.last()[id].Project, r.Schedule.World.Partitions)
	return max(0, r.owned(partition, r.Placed).Sub(from))
}

// noticed is how long, from then on until all was placed, any machine had notice for work that lies where an instance
// waits, or the next may have been given for the same work: a guest may take all of its time to stop, which is awaited.
// Where what is awaited is no instance, notices for all work count.
func (r *Recording) noticed(id compute.InstanceID, from time.Time) (long time.Duration) {
	lines := r.linesOf(id)
	for _, v := range r.versions() {
		n := v.Instance.Notice()
		if n == nil || v.old.Notice() != nil || n.At.After(r.Placed) || id != "" && !lines[n.Queue] {
			continue
		}
		from = latest(from, n.At)
		if until := n.Until.Add(needKnown); until.After(from) {
			long, from = long+until.Sub(from), until
		}
	}
	return long
}

// linesOf are the queues in which an instance ever waited, and those for whose work it had notice: until its guest has
// stopped it is awaited itself, and that notice may have come after others for the same work.
func (r *Recording) linesOf(id compute.InstanceID) map[compute.QueueName]bool {
	lines := map[compute.QueueName]bool{}
	for _, w := range r.Log {
		i := w.Instance
		if i.ID != id {
			continue
		}
		if line, _ := lineOf(i); i.State == compute.StateQueued {
			lines[line] = true
		}
		if n := i.Notice(); n != nil {
			lines[n.Queue] = true
		}
	}
	return lines
}

// retried is how long attempts of an instance that failed from then on may have kept it: after each it waits for the
// next, and the host on which it failed leaves it to others twice, perhaps behind a fetch of another queue each time.
func (r *Recording) retried(id compute.InstanceID, from time.Time) (long time.Duration) {
	known := 0
	for _, w := range r.Log {
		if w.Instance.ID != id || len(w.Instance.Failures) <= known {
			continue
		}
		if known = len(w.Instance.Failures); w.Seen.After(from) {
			long += min(retryFirst<<min(known-1, 5), retryMost) + 2*idleTime
		}
	}
	return long
}

// idIn finds the instance whose name is first in a line.
func (r *Recording) idIn(line string) compute.InstanceID {
	for _, w := range r.Log {
		if n := w.Instance.Boot.Name; n != "" && len(line) > len(n) && line[:len(n)+1] == n+" " {
			return w.Instance.ID
		}
	}
	return ""
}

// checkAccepted: I5: what was accepted is in the log, a delete at last deleted.
func checkAccepted(r *Recording) (wrong []Violation) {
	last := r.last()
	for _, a := range r.Accepted() {
		i, ok := last[a.ID]
		switch {
		case !ok:
			wrong = append(
				wrong,
				broken(
					"I5",
					a.ID,
					a.Answered,
					"%s of %s was accepted at %s and left no record",
					a.Op,
					a.Name,
					r.At(a.Answered),
				)...)
		case a.Op == schedule.LoadDelete && i.State != compute.StateDeleted &&
			!r.Settled.IsZero() && a.Answered.Before(r.Settled):
			wrong = append(wrong, broken("I5", a.ID, a.Answered, "%s was to be deleted and is %s", a.Name, i.State)...)
		}
	}
	return wrong
}

// last is the newest of every record.
func (r *Recording) last() map[compute.InstanceID]compute.Instance {
	last := map[compute.InstanceID]compute.Instance{}
	for _, w := range r.Log {
		if !w.Removed {
			last[w.Instance.ID] = w.Instance
		}
	}
	return last
}

// checkInvented: I1: what is in the log was asked for, and what was asked for
// once is there once.
func checkInvented(r *Recording) (wrong []Violation) {
	asked := map[string]Ask{}
	for _, a := range r.Asks {
		if a.Op == schedule.LoadBoot {
			asked[a.Name] = a
		}
	}
	byName := map[string]compute.InstanceID{}
	for _, w := range r.Log {
		i := w.Instance
		if w.Removed || i.State == compute.StateDeleted && i.Boot.Name == "" || i.Project == schedule.Reserving {
			continue // deleted before its boot came, or checkReserved's
		}
		a, ok := asked[i.Boot.Name]
		switch {
		case !ok || a.ID != "" && a.ID != i.ID || a.Project != i.Project:
			wrong = append(
				wrong,
				broken("I1", i.ID, w.Seen, "nobody asked for %s of %s as %q", i.ID, i.Project, i.Boot.Name)...)
		case byName[i.Boot.Name] != "" && byName[i.Boot.Name] != i.ID:
			wrong = append(
				wrong,
				broken(
					"I1",
					i.ID,
					w.Seen,
					"%s was asked for once and is there twice: %s and %s",
					i.Boot.Name,
					byName[i.Boot.Name],
					i.ID,
				)...)
		}
		byName[i.Boot.Name] = i.ID
	}
	return wrong
}

// checkLog: the record of an instance goes one version at a time, one owner
// wrote it, and states follow as docs/STATES.md says.
func checkLog(r *Recording) (wrong []Violation) {
	last := map[compute.InstanceID]compute.Instance{}
	for _, w := range r.Log {
		i, old := w.Instance, last[w.Instance.ID]
		if w.Removed {
			wrong = append(wrong, broken("log", i.ID, w.Seen, "%s was removed long before its time", i.ID)...)
			continue
		}
		switch {
		case i.Version != old.Version+1:
			wrong = append(
				wrong,
				broken("log", i.ID, w.Seen, "%s: version %d follows %d", i.Boot.Name, i.Version, old.Version)...)
		case !follows(old, i) && !relabelled(old, i) && !r.gaveBack(old, i):
			wrong = append(
				wrong,
				broken(
					"log",
					i.ID,
					w.Seen,
					"%s: %s attempt %d follows %s attempt %d",
					i.Boot.Name,
					i.State,
					i.Attempt,
					old.State,
					old.Attempt,
				)...)
		}
		last[i.ID] = i
	}
	return wrong
}

// relabelled says whether a record differs from the one before by a change of its labels, which may come in every state
// but one.
func relabelled(old, i compute.Instance) bool {
	return old.State == i.State && old.Attempt == i.Attempt && i.State != compute.StateDeleted &&
		!maps.Equal(old.Boot.Metadata, i.Boot.Metadata)
}

// follows says whether a state may come after another.
func follows(old, i compute.Instance) bool {
	next := map[compute.State][]compute.State{
		compute.StateNone:   {compute.StateQueued, compute.StateError, compute.StateDeleted},
		compute.StateQueued: {compute.StateQueued, compute.StateStarting, compute.StateError, compute.StateDeleted},
		compute.StateStarting: {
			compute.StateStarting, compute.StateActive, compute.StateQueued, compute.StateError, compute.StateDeleting,
		},
		compute.StateActive:   {compute.StateActive, compute.StateQueued, compute.StateError, compute.StateDeleting},
		compute.StateDeleting: {compute.StateDeleting, compute.StateDeleted},
		compute.StateError:    {compute.StateDeleted},
	}[old.State]
	if !slices.Contains(next, i.State) || i.Attempt < old.Attempt {
		return false
	}
	again := i.State == compute.StateQueued && old.State.OnHost()
	return (i.Attempt > old.Attempt) == (again || old.State == compute.StateNone && i.State == compute.StateQueued)
}

// checkOnce: I2: never two hosts with one instance, no attempt launched twice.
func checkOnce(r *Recording) (wrong []Violation) {
	outlives := r.outlivesPower()
	events := slices.DeleteFunc(slices.Clone(r.spared()), func(e fake.Event) bool { return outlives(e.Instance, e.Host) })
	for n := range events {
		before, now := fake.Violations(events[:n]), fake.Violations(events[:n+1])
		if len(now) > len(before) {
			e := events[n]
			wrong = append(wrong, broken("I2", e.Instance, e.At, "%s", now[len(now)-1])...)
		}
	}
	return wrong
}
