// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
)

const (
	// callsIn is in which time a host's calls for work are counted, and mostCalls how
	// many it may send then where nothing is said to it. A fetch lasts as long: two in each
	// of two sessions at each of three brokers, and three that poll for a moment.
	callsIn   = fetchTime
	mostCalls = 2*2*3 + 3
	// callsBuild is how many more it may send for each build that it begins, and
	// callsRing for each ring: it looks, and goes on waiting where it waited.
	callsBuild = 4
	callsRing  = 2
	// callsWork is how many more it may send for each work that comes into a queue: kfake wakes all that wait there, and
	// answers those with nothing that did not get it.
	callsWork = 2
	// callsEnded is how many more it may send for each work that ended while its record lay in a queue, for up to
	// endedFor: a host leaves what is past its deadline to others once, and drops it when it comes there again.
	callsEnded = 2
	endedFor   = 2 * time.Minute
	// leftFor is how long a queue is left to others. So often a host comes to each work of
	// it that it must not take, one a call, and then finds that nothing lies behind.
	leftFor = 2 * time.Second
	walks   = int(callsIn/leftFor) + 1
	// besides is how often it comes to them in one walk where other hosts walk there too: each finds what the others do
	// not have at that moment, and goes once more when they have given it back.
	besides = 2
)

// checkCalls: a host to which nothing comes does not ask for work again and again.
func checkCalls(r *Recording) (wrong []Violation) {
	if len(r.Schedule.Faults) > 0 {
		return nil
	}
	denied := func(c Claimed) bool { return r.denied(c.Claim) } // its record lies there again, whatever it waits for
	waits, often := append(r.waitsBeside(denied), r.copies()...), walks
	if len(r.Schedule.World.Hosts) > 1 {
		often *= besides
	}
	for _, h := range r.Schedule.World.Hosts {
		at := r.Fetches[h.ID]
		others := slices.DeleteFunc(slices.Clone(waits), func(w waiting) bool { return r.mayRun(w.instance, h) })
		for n, from := range at {
			if n+mostCalls >= len(at) || at[n+mostCalls].Sub(from) > callsIn {
				continue
			}
			begun := r.builds(h.ID, span{from.Add(-time.Second), from.Add(callsIn)})
			rings := r.rung(h.ID, span{from.Add(-time.Second), from.Add(callsIn)})
			useless := useless(others, span{from.Add(-leftFor), from.Add(callsIn)}) // it looks there once more
			came := r.came(span{from.Add(-time.Second), from.Add(callsIn)})
			ended := r.endedInQueues(span{from.Add(-endedFor), from.Add(callsIn)})
			m := n + mostCalls + callsBuild*begun + callsRing*rings + often*useless + callsWork*came + callsEnded*ended
			if m < len(at) && at[m].Sub(from) <= callsIn {
				wrong = append(wrong, broken("calls", "", at[m],
					"%s asked for work %d times from %s to %s, began with %d builds, was rung %d times, came to %d that "+
						"it must not take, %d were put into queues, and %d had ended there", h.ID, m-n+1, r.At(from),
					r.At(at[m]), begun, rings, useless, came, ended)...)
				break
			}
		}
	}
	return wrong
}

// copies are the records of work that was published before: where a host claims one, the others lie there until hosts
// that may have them come to them. As work of an affinity group that is offered to a host, to all, and to a host again.
func (r *Recording) copies() (list []waiting) {
	queued := map[work]compute.Instance{}
	for _, w := range r.Log {
		if i := w.Instance; i.State == compute.StateQueued {
			queued[work{i.ID, i.Attempt}] = i
		}
	}
	before := map[work]bool{}
	for _, b := range r.Builds {
		k := work{b.Instance, b.Attempt}
		if i, known := queued[k]; known && before[k] {
			list = append(list, waiting{span: span{b.Seen, b.Deadline}, instance: i})
		}
		before[k] = true
	}
	return list
}

// endedInQueues is how much work ended while it waited.
func (r *Recording) endedInQueues(in span) (n int) {
	waited := map[compute.InstanceID]bool{}
	for _, w := range r.Log {
		i := w.Instance
		over := i.State == compute.StateError || i.State == compute.StateDeleted
		if over && waited[i.ID] && !w.Seen.Before(in.from) && w.Seen.Before(in.to) {
			n++
		}
		waited[i.ID] = i.State == compute.StateQueued
	}
	return n
}

// builds are how many a host began with.
func (r *Recording) builds(h compute.HostID, in span) (n int) {
	for _, w := range r.Works {
		if w.Host == h && w.Method == "Prepare" && !w.From.Before(in.from) && w.From.Before(in.to) {
			n++
		}
	}
	return n
}

// came is how much work was put into queues.
func (r *Recording) came(in span) (n int) {
	for _, b := range r.Builds {
		if !b.Seen.Before(in.from) && b.Seen.Before(in.to) {
			n++
		}
	}
	return n
}

// rung is how often a host was told to look somewhere.
func (r *Recording) rung(h compute.HostID, in span) (n int) {
	for _, x := range r.Rings {
		if x.Host == h && !x.Seen.Before(in.from) && x.Seen.Before(in.to) {
			n++
		}
	}
	return n
}

// useless is how much of the work that a host must not take waited, and one more for each queue of it.
func useless(others []waiting, in span) (n int) {
	queues := map[compute.QueueName]bool{}
	for _, w := range others {
		if w.from.Before(in.to) && w.to.After(in.from) {
			queues[w.instance.Queue] = true
			n++
		}
	}
	return n + len(queues)
}

// Rung is a ring in a host's stream.
type Rung struct {
	Seen time.Time
	Host compute.HostID
	compute.Look
}

// AddRing sees what a host is told.
func (r *Recording) AddRing(h compute.HostID, rec wire.Record) {
	r.unreadable(h, rec)
	c, err := wire.DecodeCommand(rec.ReadUpTo(schedule.LaterSchema))
	if err != nil {
		r.AddViolation("log", "", "a command cannot be read: %v", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.Project != "" && c.Op != compute.CommandDeny {
		r.Effects = append(r.Effects, Effect{c.Project, c.Instance, c.At})
	}
	switch c.Op {
	case compute.CommandLook:
		r.Rings = append(r.Rings, Rung{time.Now(), h, *c.Look})
	case compute.CommandDeny:
		r.Denials = append(r.Denials, Denied{time.Now(), h, c})
	case compute.CommandBuild:
		r.Told = append(r.Told, Told{time.Now(), h, *c.Build})
	}
}

// stillRings is how long after the last work of a queue was claimed or ended hosts may
// be rung for it: it takes a moment until the queue manager hears of that.
const stillRings = 2 * time.Second

// checkRung: nobody is told to look at a queue in which nothing waits, or nothing but what avoids
// the host. Holds are for what may come, and that a host need not save room any more is said when nothing waits.
func checkRung(r *Recording) (wrong []Violation) {
	if len(r.Schedule.Faults) > 0 {
		return nil
	}
	waits := map[compute.QueueName][]waiting{}
	for n, w := range r.Log {
		if i := w.Instance; i.State == compute.StateQueued {
			slack := stillRings + 60*r.Schedule.World.Latency.Duration()
			in := span{w.Seen.Add(-slack), r.over(n).Add(slack)}
			q, _ := lineOf(i)
			waits[q] = append(waits[q], waiting{span: in, instance: i})
		}
	}
	for _, x := range r.Rings {
		in := func(w waiting) bool {
			return !x.Seen.Before(w.from) && !x.Seen.After(w.to) && !slices.Contains(w.instance.Boot.Avoid, x.Host)
		}
		if x.Hold == 0 && !x.Spend && x.Seen.After(r.Start) && !slices.ContainsFunc(waits[x.Queue], in) {
			return broken("rung", "", x.Seen, "%s is rung for %s, and nothing waits there that it may take", x.Host,
				x.Queue)
		}
	}
	return nil
}

// checkDrained: a host that said that it offers nothing begins nothing, until an
// operator asks it to offer again: it says so later than it hears it.
func checkDrained(r *Recording) (wrong []Violation) {
	if slices.ContainsFunc(
		r.Schedule.Faults,
		func(f schedule.Fault) bool { return f.Kind != schedule.FaultRing || f.Key == schedule.RingDead },
	) {
		return nil
	}
	slack := time.Second + 60*r.Schedule.World.Latency.Duration()
	for _, w := range r.Works {
		var last Offered
		for _, o := range r.Offers {
			if o.Host == w.Host && o.Seen.Before(w.From) {
				last = o
			}
		}
		closed := last.State == compute.HostDisabled || last.State == compute.HostDraining
		if w.Method != "Prepare" || !closed || w.From.Sub(last.Seen) <= slack ||
			r.partOfTaken(w.Instance, w.Host, last.Seen) || r.wishes(w.Host, last.Seen.Add(-seenLate-slack), w.From) {
			continue
		}
		wrong = append(wrong, broken("drained", w.Instance, w.From, "%s is %s since %s, and begins with %s",
			w.Host, last.State, r.At(last.Seen), w.Instance)...)
	}
	return wrong
}

// partOfTaken says whether a host had begun with another part of a set by then that it took whole: it has taken all of
// it, and begins with each part when a slot is free.
func (r *Recording) partOfTaken(id compute.InstanceID, h compute.HostID, by time.Time) bool {
	for _, b := range r.Wholes {
		is := func(id compute.InstanceID) bool {
			return slices.ContainsFunc(b.Parts, func(p compute.Build) bool { return p.Instance == id })
		}
		if is(id) && slices.ContainsFunc(r.Given, func(g Given) bool {
			return g.Host == h && g.Spec.Instance != id && is(g.Spec.Instance) && !g.At.After(by.Add(time.Second))
		}) {
			return true
		}
	}
	return false
}

// seenLate is how much later than it was so a beacon may say that a host is closed: two
// are that far apart. By then the operator may have asked it to offer again.
const seenLate = 5 * time.Second

// wishes says whether an operator asked a host to offer between two moments.
func (r *Recording) wishes(h compute.HostID, from, to time.Time) bool {
	return slices.ContainsFunc(r.Asks, func(a Ask) bool {
		return a.Op == schedule.LoadHost && a.Host == h && a.Wish == "enable" && a.Began.After(from) &&
			!a.Began.After(to)
	})
}
