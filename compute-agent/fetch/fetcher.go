// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Options are what a Fetcher is made of.
type Options struct {
	Host       compute.HostID
	Weigher    compute.Weigher
	Puller     Puller
	LeaveAlone time.Duration // how long a queue is left to other hosts after a release
	Retry      time.Duration // after brokers could not be asked
	Log        *zap.Logger
	Opened     func()           // called for each fetch that is opened
	Saved      func(how string) // called when a saving has ended; nil: nobody asks
}

// Fetcher keeps a host's fetches. One goroutine owns it, and none of its methods blocks.
type Fetcher struct {
	o         Options
	began     time.Time
	totals    compute.Resources // of the host, as it is offered
	traits    map[compute.Trait]bool
	sampler   *offer.Sampler
	rings     offer.Rings
	queues    map[compute.QueueName]compute.Queue
	since     map[compute.QueueName]time.Time // when each was listed first
	listed    bool                            // the sampler has the queues as they are, and traits
	asked     bool                            // brokers were asked where they are
	queuesEnd bool                            // the list was read to its end once
	advised   bool                            // advice was read to its end once
	open      map[wire.SessionID]opened
	alone     map[compute.QueueName]time.Time // left to other hosts until then
	held      []held                          // must not run here, and are kept for one more look
	saving    saving                          // what it saves room for
	first     compute.QueueName               // what went before others the last time, unless those were fetched since
	pinned    []compute.Build                 // offered to this host alone, oldest first
	pinnedAt  map[pin]int                     // where in pinned each is
	changed   bool                            // what fits, or what may be fetched, may be something else now
	placing   bool                            // a Question is not answered yet
	again     time.Time                       // when to look again though nothing changed
}

// New is a host's Fetcher before anything is known.
func New(o Options) *Fetcher {
	return &Fetcher{
		o: o, began: time.Now(), sampler: offer.NewSampler(o.Host, o.Weigher),
		queues: map[compute.QueueName]compute.Queue{},
		since:  map[compute.QueueName]time.Time{}, open: map[wire.SessionID]opened{},
		alone: map[compute.QueueName]time.Time{}, pinnedAt: map[pin]int{},
		changed: true,
	}
}

// Supply is what the host has to offer at a moment.
type Supply struct {
	Offers bool       // it takes work
	Until  time.Time  // when it does again, if it does not now and that is known
	Room   offer.Room // what nothing on the host holds, running or not, taken or not
	Slots  int        // how many more builds it may take, open fetches not counted
}

// Describe says what the host is: how much of each class it offers, and its traits.
func (f *Fetcher) Describe(totals compute.Resources, traits map[compute.Trait]bool) {
	f.totals, f.traits, f.listed, f.changed = totals, traits, false, true
}

// Changed says that what fits, or what may be fetched, may be something else now.
func (f *Fetcher) Changed() { f.changed = true }

// Freed says that room has appeared on the host.
func (f *Fetcher) Freed(now time.Time) {
	f.changed = true
	f.sampler.Freed(now)
}

// Ring takes a ring.
func (f *Fetcher) Ring(look compute.Look, now time.Time) {
	f.sampler.NoteRing(now)
	if f.save(look, now); !look.Spend {
		f.rings.Ring(look, f.waitsOn(look.Queue), now)
	}
	f.changed = true
}

// Open is how many fetches are open.
func (f *Fetcher) Open() int { return len(f.open) }

// Waiting are the queues that open fetches list, sorted.
func (f *Fetcher) Waiting() []compute.QueueName {
	waiting := map[compute.QueueName]bool{}
	for _, o := range f.open {
		maps.Copy(waiting, o.queues)
	}
	return slices.Sorted(maps.Keys(waiting))
}

// Placing says that what the host waits on is about to change.
func (f *Fetcher) Placing() bool { return f.placing }

// Due is when to look, or to give something back, though nothing happens before; zero: never.
func (f *Fetcher) Due() time.Time {
	next := f.again
	for _, at := range []time.Time{f.heldUntil(), f.saving.until} {
		if next.IsZero() || !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next
}

// Beside is the room beside all that open fetches may bring.
func (f *Fetcher) Beside(room offer.Room) offer.Room {
	for _, o := range f.open {
		room = room.Hold(o.Most, o.Place)
	}
	return room
}

// Look finds what to wait on. The answer has to be asked of brokers, and then given back by Placed; nil: there is
// nothing to ask. Until then there is no other.
func (f *Fetcher) Look(has Supply, now time.Time) *Question {
	if !f.again.IsZero() && !now.Before(f.again) {
		f.changed, f.again = true, time.Time{}
	}
	f.SavingDue(now)
	if !has.Offers {
		f.Stopped()
		f.again = has.Until
		return nil
	}
	if f.placing || !f.changed {
		return nil
	}
	f.changed, f.again = false, f.sampler.NextEpoch(now)
	if has.Slots <= len(f.open) {
		return nil
	}
	candidates := f.candidates(has.Room, now)
	if len(candidates) == 0 {
		return nil
	}
	q := &Question{
		puller: f.o.Puller, chosen: make(map[compute.QueueName]offer.Candidate, len(candidates)), when: now,
		was: maps.Clone(f.open),
	}
	for _, c := range candidates {
		q.refs = append(q.refs, f.ref(c.Queue))
		q.chosen[c.Queue] = c
	}
	q.others = f.unasked(q.refs, now)
	f.placing = true
	return q
}

// Placed opens a fetch in every idle session, primary or secondary, that has something
// to list which fits beside all others. Things may have changed since it was asked for.
func (f *Fetcher) Placed(q *Question, has Supply, now time.Time) {
	f.dropStale(q)
	f.placing = false
	if q.err != nil {
		f.o.Log.Debug("some queues cannot be fetched now", zap.Error(q.err))
		f.again = now.Add(f.o.Retry)
	}
	if !has.Offers {
		return
	}
	sessions, plan := f.assign(q, now)
	room := has.Room
	for _, b := range f.pinned {
		if b.In.ID != "" {
			continue // it has its room here already
		}
		if !b.WaitUntil.IsZero() && !has.Room.Fits(b.Resources) {
			continue // nobody knows when it will: until then others may have what is free
		}
		if f.mightGo(b) && !f.besideSaved(has.Room).Fits(b.Resources) {
			continue // what is saved comes first
		}
		place, _, _ := f.Beside(room).Allocate(b.Resources, compute.Place{}) // nowhere: its amounts are kept
		room = room.Hold(b.Resources, place)
	}
	o := opened{chosen: q.when, began: now, room: has.Room, others: q.placed()}
	room = f.beginFirst(q, room, has.Slots, sessions, plan, o)
	maps.DeleteFunc(o.others, func(q compute.QueueName, _ bool) bool { return f.waitsOn(q) })
	planned := offer.Plan(room, plan, has.Slots)
	for _, p := range planned {
		for _, c := range p.Listed {
			delete(o.others, c.Queue)
		}
	}
	for i, p := range planned {
		f.begin(sessions[i], p, o, q.at[primary(sessions[i])])
	}
}

// Ended takes note of how a fetch ended; the answer is where its fetch had room for what came. What came is the
// caller's from now on.
func (f *Fetcher) Ended(p wire.Pulled, now time.Time) compute.Place {
	o := f.open[p.Session]
	f.refute(o, p, now)
	f.keepTurns(o, p)
	delete(f.open, p.Session)
	f.changed = true
	f.giveBackBehind(o, p, now)
	return o.Place
}

// doubt has nothing else wait any more for what is said to lie in queues of a fetch that failed: their broker may not
// answer for long.
func (f *Fetcher) doubt(o opened, now time.Time) {
	first := map[compute.QueueName]bool{}
	for _, c := range o.ahead {
		first[c.Queue] = true
	}
	for q := range o.queues {
		if first[q] || f.sampler.Late(q) {
			f.rings.Looked(q)
			f.sampler.Refute(q, now)
		}
	}
}

// keepTurns has what a full fetch did not get to listed next: work of one queue ended it, and the others may have
// some as well. If this host must not take that work, it comes again and again, and without this the same queues would
// be listed beside it each time.
func (f *Fetcher) keepTurns(o opened, p wire.Pulled) {
	if p.Err == nil && p.Record != nil {
		f.sampler.Planned(nil, slices.DeleteFunc(o.full, func(c offer.Candidate) bool {
			return c.Queue == p.Ref.Queue.Name
		}))
	}
}

// refute takes note of what a fetch looked for in vain.
func (f *Fetcher) refute(o opened, p wire.Pulled, now time.Time) {
	if p.Err == nil && p.Record == nil {
		for _, q := range o.rung {
			f.rings.Looked(q)
			if f.sampler.Late(q) { // it was listed alone, and others wait behind it
				f.sampler.Refute(q, now)
			}
		}
	}
	if p.Err != nil {
		f.doubt(o, now)
		return
	}
	if p.Record != nil && now.Sub(o.began) < ShortPoll {
		return
	}
	for _, q := range o.extra {
		if (p.Record == nil || p.Ref.Queue.Name != q) && !f.hiding(q) { // what lies there may be what is held
			f.sampler.Refute(q, now)
		}
	}
}
