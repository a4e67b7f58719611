// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// world is a host of ten processors, queues at three brokers, a queue manager, and other hosts that take work as well.
// Time passes from one event to the next.
type world struct {
	*Fetcher
	t      *rapid.T
	now    time.Time
	uses   int64 // processors in use
	slots  int
	closed bool // the host offers nothing
	queues []compute.Queue
	open   map[wire.SessionID]fetching
	fails  map[int32]bool                  // brokers that answer no fetch
	failed map[int32]time.Time             // when one did not last
	lies   map[compute.QueueName][]piece   // work that hosts may take, oldest first
	locked map[int64]piece                 // work that must not run here, until it is given back
	pieces int64                           // that have come
	others int                             // of them: those that must not run here
	silent bool                            // there is no queue manager
	late   bool                            // the queue manager says of work that it waits for long
	advice time.Time                       // when the next comes
	since  map[compute.QueueName]time.Time // since when the host has known of work that it could have
	story  []string
}

// fetching is a fetch that a broker has not answered yet.
type fetching struct {
	queues []wire.QueueRef
	ends   time.Time
	answer time.Time // when its broker answers, by what lies there
}

// piece is a piece of work.
type piece struct {
	came     time.Time
	offset   int64
	others   bool // it must not run on this host
	delivery int16
}

const (
	answers   = 10 * time.Millisecond // how long a broker takes that has work
	longFetch = 5 * time.Second       // how long a fetch lasts that names no time
	waitsMost = 7 * time.Second       // how long known work may wait for a host that has room and takes nothing
	leftTwice = 6 * time.Second       // more for each piece of work that the host has to leave to others
	breakFor  = time.Second           // how long a broker is not asked that has failed
)

func newWorld(t *rapid.T, silent bool) *world {
	w := &world{
		t: t, now: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC),
		uses:  rapid.Int64Range(0, 9).Draw(t, "uses"),
		slots: rapid.IntRange(1, 4).Draw(t, "slots"), late: rapid.Bool().Draw(t, "late"),
		open: map[wire.SessionID]fetching{}, fails: map[int32]bool{}, failed: map[int32]time.Time{},
		lies: map[compute.QueueName][]piece{}, locked: map[int64]piece{}, since: map[compute.QueueName]time.Time{},
	}
	w.Fetcher = New(Options{
		Host: "h", Puller: w, LeaveAlone: 2 * time.Second, Retry: breakFor, Log: zap.NewNop(), Opened: func() {},
	})
	w.began = w.now
	w.Describe(compute.Resources{compute.VCPU: 10}, nil)
	for i := range rapid.IntRange(2, 6).Draw(t, "queues") {
		broker := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "broker")
		q := compute.Queue{
			Name:      compute.QueueName(fmt.Sprint(broker, i)),
			Resources: compute.Resources{compute.VCPU: rapid.Int64Range(1, 10).Draw(t, "needs")},
		}.Tier(rapid.SampledFrom(compute.Priorities()).Draw(t, "class"))
		q.Group, q.TopicID = "g", "t"
		w.queues = append(w.queues, q)
		w.SetQueue(q, w.now)
		w.say("queue %s needs %v", q.Name, q.Resources)
	}
	w.QueuesRead()
	w.silent = silent
	w.advise()
	w.AdviceRead()
	return w
}

func (w *world) say(format string, args ...any) {
	w.story = append(w.story, w.now.Format("05.00 ")+fmt.Sprintf(format, args...))
}

func (w *world) wrong(format string, args ...any) {
	w.t.Fatalf("%s; uses %d, slots %d:\n%s", fmt.Sprintf(format, args...), w.uses, w.slots, strings.Join(w.story, "\n"))
}

func broker(q compute.QueueName) int32 { return int32(q[0]) }

func (w *world) Place(_ context.Context, refs []wire.QueueRef) (map[wire.SessionID][]wire.QueueRef, error) {
	at, err := map[wire.SessionID][]wire.QueueRef{}, error(nil)
	for _, r := range refs {
		session := wire.SessionID{Group: "g", Broker: broker(r.Name)}
		if w.now.Before(w.failed[session.Broker].Add(breakFor)) {
			err = errors.New("the broker has just failed")
			continue
		}
		at[session] = append(at[session], r)
	}
	return at, err
}

func (w *world) Open(session wire.SessionID, refs []wire.QueueRef, wait time.Duration) {
	ends := w.now.Add(cmp.Or(wait, longFetch))
	w.open[session] = fetching{refs, ends, ends}
	var names []compute.QueueName
	for _, r := range refs {
		names = append(names, r.Name)
	}
	w.say("open %v %v for %v", session, names, wait)
}

func (w *world) Results() <-chan wire.Pulled { return nil }

// Ack has work that must not run here lie in its queue again.
func (w *world) Ack(ref wire.WorkRef, how wire.Ack) {
	if how != wire.AckRelease {
		return
	}
	w.say("released %s %d", ref.Queue.Name, ref.Offset)
	all := append(w.lies[ref.Queue.Name], w.locked[ref.Offset])
	delete(w.locked, ref.Offset)
	slices.SortFunc(all, func(a, b piece) int { return cmp.Compare(a.offset, b.offset) })
	w.lies[ref.Queue.Name] = all
}

func (w *world) supply() Supply {
	host := offer.Terms{}.Offer(compute.Inventory{Totals: compute.Resources{compute.VCPU: 10}}, nil, nil)
	held := offer.Held{Resources: compute.Resources{compute.VCPU: w.uses}}
	return Supply{Offers: !w.closed, Slots: w.slots, Room: host.Room(held)}
}

// look has the host do what is due.
func (w *world) look() {
	w.GiveBack(w.now)
	for q := w.Look(w.supply(), w.now); q != nil; q = w.Look(w.supply(), w.now) {
		q.Ask(context.Background())
		w.Placed(q, w.supply(), w.now)
	}
}

// advise tells of all queues, as a queue manager does.
func (w *world) advise() {
	if w.advice = w.now.Add(time.Second); w.silent {
		return
	}
	a := compute.Advice{At: w.now, Rings: true, Full: true}
	for _, q := range w.queues {
		about := compute.QueueAdvice{Queue: q.Name, Eligible: 5}
		if all := w.lies[q.Name]; len(all) > 0 && w.now.Sub(all[0].came) > 500*time.Millisecond {
			about.Depth, about.Oldest = uint64(len(all)), all[0].came
			about.Late = w.late && w.now.Sub(all[0].came) > 3*time.Second
		}
		a.About = append(a.About, about)
	}
	w.Advise(a, w.now)
}

// ring has a queue manager ring the host.
func (w *world) ring(l compute.Look) {
	if w.silent {
		return
	}
	if all := w.lies[l.Queue]; len(all) > 0 {
		l.Oldest = all[0].came
	}
	w.say("rung %+v", l)
	w.Ring(l, w.now)
}

// comes has work come into a queue.
func (w *world) comes(q compute.Queue, others bool) {
	w.pieces++
	w.say("came %s %d, for others: %v", q.Name, w.pieces, others)
	w.lies[q.Name] = append(w.lies[q.Name], piece{came: w.now, offset: w.pieces, others: others})
}

// pass lets time pass, and the host do what it does meanwhile.
func (w *world) pass(long time.Duration) {
	for until := w.now.Add(long); ; {
		w.look()
		w.judge()
		at := w.next()
		if at.After(until) {
			w.now = until
			return
		}
		if w.now = at; !w.now.Before(w.advice) {
			w.advise()
		}
		for _, id := range slices.SortedFunc(maps.Keys(w.open), bySession) {
			if f := w.open[id]; !w.now.Before(f.answer) || !w.now.Before(f.ends) {
				w.end(id, f)
			}
		}
	}
}

// next is when something happens.
func (w *world) next() time.Time {
	at := w.advice
	sooner := func(t time.Time) {
		if t.After(w.now) && t.Before(at) {
			at = t
		}
	}
	sooner(w.Due())
	for id, f := range w.open {
		_, some := w.brings(f)
		switch some = some || w.fails[id.Broker]; {
		case !some:
			f.answer = f.ends
		case !f.answer.Before(f.ends):
			f.answer = w.now.Add(answers)
		}
		w.open[id] = f
		sooner(f.answer)
		sooner(f.ends)
	}
	return at
}

// brings is the queue of which a fetch brings work.
func (w *world) brings(f fetching) (wire.QueueRef, bool) {
	i := slices.IndexFunc(f.queues, func(r wire.QueueRef) bool { return len(w.lies[r.Name]) > 0 })
	if i < 0 {
		return wire.QueueRef{}, false
	}
	return f.queues[i], true
}

// end ends a fetch: its broker fails, or has work, or it has lasted long enough.
func (w *world) end(id wire.SessionID, f fetching) {
	delete(w.open, id)
	from, some := w.brings(f)
	switch {
	case w.fails[id.Broker]:
		w.say("failed %v", id)
		w.failed[id.Broker] = w.now
		w.Ended(wire.Pulled{Session: id, Err: errors.New("the broker does not answer")}, w.now)
	case some:
		w.take(id, from)
	default:
		w.say("ended %v with nothing", id)
		w.Ended(wire.Pulled{Session: id}, w.now)
	}
}

// take has a fetch bring the oldest work of a queue.
func (w *world) take(id wire.SessionID, from wire.QueueRef) {
	x := w.lies[from.Name][0]
	w.lies[from.Name] = w.lies[from.Name][1:]
	x.delivery++
	w.say("ended %v with work of %s %d", id, from.Name, x.offset)
	ref := wire.WorkRef{Session: id, Queue: from, Offset: x.offset, Delivery: x.delivery}
	w.Ended(wire.Pulled{Session: id, Record: &wire.Record{}, Ref: ref}, w.now)
	if x.others {
		w.locked[x.offset] = x
		w.Release(ref, true, true, w.now)
		return
	}
	w.Took(from.Name)
	needs, _, _ := w.needs(from.Name)
	if w.uses += needs[compute.VCPU]; w.uses > 10 {
		w.wrong("more was taken than there is room for")
	}
	clear(w.since) // it did something
	w.Changed()
}

// fits says whether the host has room for work of a queue, beside what it saves room for.
func (w *world) fits(q compute.Queue) bool {
	needs := q.Resources[compute.VCPU]
	if s := w.Saving(w.now); s != nil && s.Queue != q.Name {
		needs += s.Needs[compute.VCPU]
	}
	return needs <= 10-w.uses
}

// may says whether the host may have work of a queue now.
func (w *world) may(q compute.Queue) bool {
	ours := func(x piece) bool { return !x.others }
	return !w.closed && !w.fails[broker(q.Name)] && w.fits(q) && slices.ContainsFunc(w.lies[q.Name], ours)
}

// most is how long work may wait. Where nobody rings, each queue is listed once in a minute, and the host leaves work
// to others twice.
func (w *world) most() time.Duration {
	most := waitsMost + time.Duration(w.others)*leftTwice
	if w.silent {
		most += time.Minute + time.Duration(w.others)*2*10*longFetch
	}
	return most
}

// judge compares with what a host should do: where it was rung for a queue and has room for work that lies there, it
// takes some soon, of that queue or of another.
func (w *world) judge() {
	rung := map[compute.QueueName]bool{}
	w.rings.Listed(w.now, func(q compute.QueueName, look bool) { rung[q] = look })
	for _, q := range w.queues {
		switch at, knows := w.since[q.Name]; {
		case !w.may(q):
			delete(w.since, q.Name)
		case !knows && (rung[q.Name] || w.silent):
			w.since[q.Name] = w.now
		case knows && w.now.Sub(at) > w.most():
			w.wrong("work waits in %s from %s on", q.Name, at.Format("05.00"))
		}
	}
}
