// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire/rest"
)

const (
	// livesFor is how long after a sign of life no word that a host is dead is believed, by
	// conductors, and operatorsWait by API nodes; both but for what a sign takes to be seen.
	livesFor      = compute.SilentAfter/2 - 2*time.Second
	operatorsWait = compute.SilentAfter - 2*time.Second
	// surelySilent is how long after the last sign of life an API node shows what a host
	// has as unknown, and believes an operator.
	surelySilent = compute.SilentAfter + 6*time.Second
	// cleared is how long after it is heard again a host may still run what was written off.
	cleared = 30 * time.Second
)

// checkWords: a host that was heard of lately is not dead, whatever is said: no operator is told
// that it is, and nothing of it is built elsewhere or ends. Of one that was silent for long
// enough all that becomes what the operator was told, and when it comes back, it ends its
// machines. An operator that declares a silent host dead is not refused.
func checkWords(r *Recording) []Violation {
	return slices.Concat(r.believed(), r.taken(), r.fates(), r.runsOn())
}

// signs are when a host was heard of, as far as that was seen.
func (r *Recording) signs(h compute.HostID) (all []time.Time) {
	for _, o := range r.Offers {
		if o.Host == h {
			all = append(all, o.Seen)
		}
	}
	return all
}

// silentFor says whether, at some moment between two, a host had not been heard of for so long. What it said last counts
// from when it said so: others have read that before a broker went away, and this reader, perhaps, from the next leader.
func (r *Recording) silentFor(h compute.HostID, long time.Duration, from, to time.Time) bool {
	last, slack := r.Start.Add(-time.Hour), time.Second+r.Schedule.Slack()
	silent := func(until time.Time) bool {
		return !latest(from, last.Add(long)).After(earliest(to, until.Add(slack)))
	}
	for _, o := range r.Offers {
		if o.Host != h {
			continue
		}
		if silent(o.Seen) {
			return true
		}
		last = latest(last, earliest(o.Said, o.Seen))
	}
	return silent(to)
}

// believed finds wrong answers to operators: that a host is dead although it was heard of, and a
// refusal although it was not.
func (r *Recording) believed() (wrong []Violation) {
	for _, x := range r.Words {
		h := compute.HostID(x.Who)
		switch {
		case x.Key == schedule.WordRecord:
		case x.OK && !r.silentFor(h, operatorsWait, x.First, x.Answered):
			wrong = append(wrong, broken("alive", "", x.Answered,
				"an operator who asked at %s is told at %s that %s is dead, and it was heard of all the time",
				r.At(x.First), r.At(x.Answered), h)...)
		case !x.OK && strings.Contains(x.Err, "it is alive") && !r.Schedule.AnswersWrong() && r.silentAll(h, x):
			wrong = append(wrong, broken("alive", "", x.Answered,
				"an operator who asked at %s is told at %s that %s lives, and nothing was heard of it: %s",
				r.At(x.Began), r.At(x.Answered), h, x.Err)...)
		}
	}
	return wrong
}

// silentAll says whether nothing was heard of a host from long before somebody asked until
// the answer.
func (r *Recording) silentAll(h compute.HostID, x Word) bool {
	return !slices.ContainsFunc(r.signs(h), func(at time.Time) bool {
		return at.After(x.Began.Add(-surelySilent)) && !at.After(x.Answered)
	})
}

// declared says whether a record says that its host was declared dead.
func declared(old, i compute.Instance) bool {
	return old.State.OnHost() && !i.State.OnHost() && i.Reason != nil && i.Reason.Host == old.Host &&
		(i.Reason.Code == compute.HostLost || i.Reason.Code == compute.PinnedHostUnavailable) &&
		strings.Contains(i.Reason.Detail, "declared")
}

// words are those about a host, unless it loses its power.
func (r *Recording) words(h compute.HostID) (all []Word) {
	if slices.ContainsFunc(r.Schedule.Faults, func(f schedule.Fault) bool {
		return f.Kind != schedule.FaultWord && f.Dead != "" && (f.Who == "" || f.Who == string(h))
	}) {
		return nil
	}
	for _, x := range r.Words {
		if x.Who == string(h) {
			all = append(all, x)
		}
	}
	return all
}

// taken are instances that were built elsewhere, or ended, for a host is said to be dead that
// was heard of.
func (r *Recording) taken() (wrong []Violation) {
	last := map[compute.InstanceID]compute.Instance{}
	for _, w := range r.Log {
		i, old := w.Instance, last[w.Instance.ID]
		last[i.ID] = i
		words := r.words(old.Host)
		if !declared(old, i) || len(words) == 0 {
			continue
		}
		if !slices.ContainsFunc(words, func(x Word) bool {
			return !x.First.After(w.Seen) && r.silentFor(old.Host, livesFor, x.First, r.appended(x, w.Seen))
		}) {
			wrong = append(
				wrong,
				broken("alive", i.ID, w.Seen, "%s was %s on %s, and is %s: %s; and that was heard of all the time",
					i.Boot.Name, old.State, old.Host, i.State, i.Reason)...)
		}
	}
	return wrong
}

// appended is when a word that a host is dead, of which something came at a time, was in the log at the latest. One that
// was not acknowledged may have been appended whenever its leader could, and is of that time: brokers stamp records.
func (r *Recording) appended(x Word, by time.Time) time.Time {
	if !x.OK {
		return by
	}
	return earliest(latest(x.Answered, x.First), by)
}

// fates are instances of which an operator was told what becomes of them, and something else
// does.
func (r *Recording) fates() (wrong []Violation) {
	for _, x := range r.Words {
		for _, f := range x.Fates {
			if what := r.otherFate(x, f); x.OK && what != "" {
				wrong = append(
					wrong,
					broken("fate", f.ID, x.Answered, "an operator was told at %s that %s, %s on %s, is %s, and %s",
						r.At(x.Answered), f.Name, f.State, x.Who, f.Becomes, what)...)
			}
		}
	}
	return wrong
}

// otherFate says what became of an instance otherwise; empty: nothing, or something came
// between.
func (r *Recording) otherFate(x Word, f rest.HostFate) string {
	var was compute.Instance
	for _, w := range r.Log {
		i := w.Instance
		if i.ID != f.ID {
			continue
		}
		if !w.Seen.After(x.Began) {
			was = i
			continue
		}
		withSet := i.Reason != nil && i.Reason.Code == compute.SetFailed && strings.Contains(i.Reason.Detail, "declared")
		there := string(was.Host) == x.Who || was.Boot.Host == compute.HostID(x.Who) || f.Other
		if was.State.String() != f.State || !there || i.Delete != was.Delete && !withSet {
			return "" // something else happened to it meanwhile
		}
		if i.State == was.State {
			was = i
			continue
		}
		code := compute.ReasonCode("")
		if i.Reason != nil {
			code = i.Reason.Code
		}
		is := map[compute.State]compute.Fate{
			compute.StateQueued: compute.FateRebuilt, compute.StateError: compute.FateEnded,
			compute.StateDeleted: compute.FateDeleted, compute.StateDeleting: compute.FateDeleted,
		}[i.State]
		others := slices.ContainsFunc(
			r.words(compute.HostID(x.Who)),
			func(y Word) bool { return !y.First.Equal(x.First) && y.First.Before(w.Seen) },
		)
		if withSet { // the host of another of its set may be the one
			elsewhere := func(y Word) bool { return y.Who != x.Who && y.First.Before(w.Seen) }
			others = others || slices.ContainsFunc(r.Words, elsewhere)
		}
		byWord := withSet || declared(was, i) && f.Reason != compute.SetFailed
		if f.Becomes == compute.FateWaits || !byWord || others {
			return "" // what waits may go on, and others, of its set too, have a say in what becomes of it
		}
		if is != f.Becomes || f.Reason != "" && f.Reason != code {
			return fmt.Sprintf("becomes %s at %s: %s", i.State, r.At(w.Seen), i.Reason)
		}
		return ""
	}
	// Others of a set may have run, or gone, before their conductor heard the word: then it stays.
	stays := f.Becomes == compute.FateWaits || f.Reason == compute.SetFailed
	if !stays && was.State.String() == f.State && !r.Settled.IsZero() && was.Version > 0 {
		return "stays what it was"
	}
	return ""
}

// off is a machine that was written off: its host was declared dead, and may run it all the
// same until it comes back.
type off struct {
	id      compute.InstanceID
	host    compute.HostID
	attempt compute.Attempt
	at      time.Time
}

// writtenOff are all machines of hosts that were declared dead by a word alone.
func (r *Recording) writtenOff() []off {
	return r.leave(func(old, i compute.Instance, seen time.Time) bool {
		return (declared(old, i) || old.State == compute.StateDeleting) &&
			slices.ContainsFunc(r.words(old.Host), func(x Word) bool { return !x.First.After(seen) })
	})
}

// succeededOn are all machines of hosts whose clone is the host, as far as anybody can know: the clone said that they
// are not there, and the host, whose journal is lost, is refused its name.
func (r *Recording) succeededOn() []off {
	return r.leave(func(old, i compute.Instance, seen time.Time) bool {
		lost := i.Reason != nil && i.Reason.Code == compute.HostLost
		if old.State == compute.StateActive && i.State != compute.StateQueued && !lost {
			return false
		}
		return slices.ContainsFunc(r.Clones, func(c Cloned) bool {
			return c.Of == old.Host && r.mayBeHost(c) && r.lostJournal(old.Host, seen) &&
				c.From.Before(seen) && seen.Before(c.To.Add(keptTime))
		})
	})
}

// leave are all machines that a record says are not on their hosts any more, by a version of which something is true.
func (r *Recording) leave(is func(old, i compute.Instance, seen time.Time) bool) (all []off) {
	last := map[compute.InstanceID]compute.Instance{}
	for _, w := range r.Log {
		i, old := w.Instance, last[w.Instance.ID]
		last[i.ID] = i
		if old.State.OnHost() && !i.State.OnHost() && is(old, i, w.Seen) {
			all = append(all, off{i.ID, old.Host, old.Attempt, earliest(i.ChangedAt, w.Seen)})
		}
	}
	return all
}

// spared is what hypervisors did, but for what was written off, or is on a host that a clone succeeded: that counts as
// over.
func (r *Recording) spared() []fake.Event {
	gone := append(r.writtenOff(), r.succeededOn()...)
	if len(gone) == 0 {
		return r.Machines
	}
	var kept []fake.Event
	for _, e := range r.Machines {
		if !slices.ContainsFunc(gone, func(o off) bool {
			return o.id == e.Instance && o.host == e.Host && e.Attempt <= o.attempt && e.At.After(o.at)
		}) {
			kept = append(kept, e)
		}
	}
	for _, o := range gone {
		kept = append(kept, fake.Event{Kind: fake.Stopped, Host: o.host, Instance: o.id, Attempt: o.attempt, At: o.at})
	}
	slices.SortStableFunc(kept, func(a, b fake.Event) int { return a.At.Compare(b.At) })
	return kept
}

// runsOn are machines that were written off and run for long after their host was heard again.
func (r *Recording) runsOn() (wrong []Violation) {
	for _, o := range r.writtenOff() {
		if r.stopsOtherwise(o.host) {
			continue
		}
		var back time.Time
		for _, at := range r.signs(o.host) {
			if back.IsZero() && at.After(latest(o.at, r.healed(o.host))) {
				back = at
			}
		}
		host, _ := r.Schedule.Host(o.host)
		due := back.Add(cleared + r.Schedule.Slack() + host.Destroy.Duration())
		for _, m := range runsOf(r.Machines) {
			if !back.IsZero() && m.instance == o.id && m.host == o.host && m.attempt <= o.attempt &&
				m.from.Before(due) &&
				m.to.After(due) {
				wrong = append(
					wrong,
					broken(
						"alive",
						o.id,
						due,
						"attempt %d runs on %s, which was declared dead at %s, and heard again at %s",
						m.attempt,
						m.host,
						r.At(o.at),
						r.At(back),
					)...)
			}
		}
	}
	return wrong
}

// healed is when the last thing that keeps a host from being heard, or from hearing, is over.
func (r *Recording) healed(h compute.HostID) (at time.Time) {
	for _, f := range r.Schedule.Faults {
		if f.Kind != schedule.FaultWord && f.Who == string(h) {
			at = latest(at, r.Start.Add((f.At + f.For).Duration()))
		}
	}
	return at
}

// stopsOtherwise says whether more happens to a host than that it is not heard, or anything to the
// conductors, which tell it what to do.
func (r *Recording) stopsOtherwise(h compute.HostID) bool {
	return !r.Schedule.Decides() || slices.ContainsFunc(r.Schedule.Faults, func(f schedule.Fault) bool {
		return f.Who == string(h) &&
			!slices.Contains(
				[]string{
					schedule.FaultWord,
					schedule.FaultPause,
					schedule.FaultMute,
					schedule.FaultOff,
					schedule.FaultDeaf,
				},
				f.Kind,
			)
	})
}

// Showed is an instance that is on a host as a node showed it to somebody.
type Showed struct {
	Node            int
	Instance        client.Instance
	Began, Answered time.Time
}

// AddShown keeps what of an answer says how hosts are.
func (r *Recording) AddShown(node int, list []client.Instance, began time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range list {
		if s := i.State.Compute(); s == compute.StateUnknown || s == compute.StateActive || s == compute.StateStarting {
			r.Showed = append(r.Showed, Showed{node, i, began, time.Now()})
		}
	}
}

// checkShown: what a host has is shown as unknown while that host is silent, and only then. A
// sign of life may be seen here a moment before or after a node sees it.
func checkShown(r *Recording) (wrong []Violation) {
	if r.Schedule.AnswersWrong() ||
		slices.ContainsFunc(r.Schedule.Faults, func(f schedule.Fault) bool { return f.Dead == "forget" }) {
		return nil
	}
	for _, x := range r.Showed {
		i, slack, signs := x.Instance, r.Schedule.Slack(), r.signs(x.Instance.Host)
		heard := func(from, to time.Time) bool {
			return slices.ContainsFunc(signs, func(at time.Time) bool { return at.After(from) && !at.After(to) })
		}
		silent := !heard(x.Began.Add(-surelySilent-slack), x.Answered.Add(time.Second+slack))
		switch is := i.State.Compute(); {
		case !heard(time.Time{}, x.Answered): // nobody knows since when
		case is == compute.StateUnknown && !r.silentFor(i.Host, operatorsWait-slack, x.Began, x.Answered):
			wrong = append(
				wrong,
				broken(
					"unknown",
					i.ID,
					x.Answered,
					"node %d shows %s as unknown, and %s was heard of",
					x.Node+1,
					i.Name,
					i.Host,
				)...)
		case is != compute.StateUnknown && silent:
			wrong = append(
				wrong,
				broken(
					"unknown",
					i.ID,
					x.Answered,
					"node %d shows %s as %s, and %s was silent",
					x.Node+1,
					i.Name,
					is,
					i.Host,
				)...)
		}
	}
	return wrong
}

// Word is what became of it.
type Word struct {
	schedule.Fault
	First    time.Time // when it was said first
	Began    time.Time // of the last time it was said
	Answered time.Time
	OK       bool
	Err      string
	Fates    []rest.HostFate // what was said to become of what the host had
}

func (r *Recording) AddWord(x Word) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Words = append(r.Words, x)
}
