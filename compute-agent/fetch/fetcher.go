package fetch

import (
	"cmp"
	"context"
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
	Opened     func() // called for each fetch that is opened
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
	heard     map[compute.QueueName]time.Time // when each was first heard of
	listed    bool                            // the sampler has the queues as they are, and traits
	asked     bool                            // brokers were asked where they are
	queuesEnd bool                            // the list was read to its end once
	advised   bool                            // advice was read to its end once
	open      map[wire.Lane]opened
	alone     map[compute.QueueName]time.Time // left to other hosts until then
	held      []held                          // must not run here, and are kept for one more look
	pinned    []compute.Build                 // offered to this host alone, oldest first
	changed   bool                            // what fits, or what may be fetched, may be something else now
	placing   bool                            // a Question is not answered yet
	again     time.Time                       // when to look again though nothing changed
}

// New is a host's Fetcher before anything is known.
func New(o Options) *Fetcher {
	return &Fetcher{
		o: o, began: time.Now(), sampler: offer.NewSampler(o.Host, o.Weigher), queues: map[compute.QueueName]compute.Queue{},
		heard: map[compute.QueueName]time.Time{}, open: map[wire.Lane]opened{}, alone: map[compute.QueueName]time.Time{},
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
	f.rings.Ring(look, f.waitsOn(look.Queue), now)
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
	held := f.heldUntil()
	if f.again.IsZero() || !held.IsZero() && held.Before(f.again) {
		return held
	}
	return f.again
}

// opened is a fetch under way.
type opened struct {
	offer.Reserved
	queues map[compute.QueueName]bool
	chosen time.Time // when queues were chosen for it
	began  time.Time
	room   offer.Room                 // of the host when it was opened
	passed map[compute.QueueName]bool // chosen then, and left out
	extra  []compute.QueueName        // waited on for a short poll only: work is said to lie there
	rung   []compute.QueueName        // looked at because the host was rung
}

// split finds the queues that came up since: the host was rung for them, they were
// not there, or their work did not fit then. Queues sampled since, and work that is known to lie somewhere, wait for the
// next fetch: where there is more work than hosts can take, every host would open
// another fetch.
func (f *Fetcher) split(o opened, some []offer.Candidate) (missed, rest []offer.Candidate) {
	for _, c := range some {
		if c.Called() || !o.passed[c.Queue] && (!f.heard[c.Queue].Before(o.chosen) || !o.room.Fits(c.Needs)) {
			missed = append(missed, c)
		} else {
			rest = append(rest, c)
		}
	}
	return missed, rest
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
	if !has.Offers {
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
	q := &Question{puller: f.o.Puller, chosen: make(map[compute.QueueName]offer.Candidate, len(candidates)), when: now, was: maps.Clone(f.open)}
	for _, c := range candidates {
		q.refs = append(q.refs, f.ref(c.Queue))
		q.chosen[c.Queue] = c
	}
	q.others = f.unasked(q.refs, now)
	f.placing = true
	return q
}

// Question is in which lanes queues are to be fetched. It is asked outside the Fetcher's goroutine.
type Question struct {
	puller Placer
	chosen map[compute.QueueName]offer.Candidate
	refs   []wire.QueueRef // of those chosen
	others []wire.QueueRef // that may be chosen some time
	when   time.Time       // when they were chosen
	was    map[wire.Lane]opened
	at     map[wire.Lane][]wire.QueueRef
	err    error
}

// Ask asks brokers for what was chosen, and with it for some others: one question for these too.
func (q *Question) Ask(ctx context.Context) {
	if n := min(len(q.others), mostAsked); n > 0 {
		_, _ = q.puller.Place(ctx, q.others[:n])
		q.others = q.others[n:]
	}
	q.at, q.err = q.puller.Place(ctx, q.refs)
}

// Rest asks for some more of the others, after Ask; false: there are none. Their trouble is told when they
// are chosen.
func (q *Question) Rest(ctx context.Context) bool {
	n := min(len(q.others), mostAsked)
	if n > 0 {
		_, _ = q.puller.Place(ctx, q.others[:n])
		q.others = q.others[n:]
	}
	return n > 0
}

func (f *Fetcher) ref(name compute.QueueName) wire.QueueRef {
	q := f.queues[name]
	return wire.QueueRef{Name: q.Name, Group: q.Group, TopicID: q.TopicID}
}

// mostAsked bounds for how many queues brokers are asked at once: a request of 80 KB
// and an answer of twice that. A broker pays for each queue it is asked about, however
// many come in one request.
const mostAsked = 2000

// mostAskedRung is how many queues there may be for a host that is rung to ask for all.
const mostAskedRung = 200

// unasked are the queues that may be chosen some time, those that were chosen now first:
// brokers are asked for all of them at first, instead of whenever another is sampled. A host that is rung needs few of many: it asks for those it is rung for.
func (f *Fetcher) unasked(chosen []wire.QueueRef, now time.Time) (refs []wire.QueueRef) {
	if f.asked || f.sampler.Rung(now) && len(f.queues) > mostAskedRung {
		return nil
	}
	f.asked = true
	refs = slices.Clone(chosen)
	for _, q := range offer.Accepted(f.traits, f.list()) {
		if ref := f.ref(q.Name); !slices.Contains(chosen, ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// dropStale leaves out lanes of which a fetch has ended since it was asked for: what
// that fetch listed was not chosen, and would be missing from the next one for as
// long as that lasts. Everything is chosen again at once.
func (f *Fetcher) dropStale(q *Question) {
	for lane := range q.was {
		if _, open := f.open[lane]; !open {
			delete(q.at, first(lane))
			f.changed = true
		}
	}
}

// candidates are the queues that this host would wait on now and does not yet.
func (f *Fetcher) candidates(room offer.Room, now time.Time) []offer.Candidate {
	waiting := map[compute.QueueName]bool{}
	for _, o := range f.open {
		maps.Copy(waiting, o.queues)
	}
	all := f.rung(room, f.own(room, now), now)
	return slices.DeleteFunc(all, func(c offer.Candidate) bool { return waiting[c.Queue] || f.leftAlone(c.Queue, now) })
}

// own are the queues that the host finds by itself: by sampling, or, while it is rung,
// those in which work is said to lie.
func (f *Fetcher) own(room offer.Room, now time.Time) []offer.Candidate {
	if f.sampler.Rung(now) {
		return f.sampler.ShortPolls(room, now, f.needs)
	}
	if waits := f.began.Add(AdviceWithin); !f.advised && now.Before(waits) {
		f.again = waits
		return nil
	}
	if !f.listed {
		f.sampler.List(offer.Accepted(f.traits, f.list()))
		f.listed = true
	}
	return f.sampler.Sample(room, offer.Used(f.totals, room.Free()), now)
}

// AdviceWithin is how long a host that has just started samples nothing, for advice
// probably says that it will be rung.
const AdviceWithin = 10 * time.Second

// rung adds the queues that the host was rung for to those that it chose.
func (f *Fetcher) rung(room offer.Room, chosen []offer.Candidate, now time.Time) []offer.Candidate {
	f.rings.Listed(now, func(q compute.QueueName, look bool) {
		needs, ours := f.needs(q)
		if !ours || !room.Fits(needs) {
			return
		}
		i := slices.IndexFunc(chosen, func(c offer.Candidate) bool { return c.Queue == q })
		if i < 0 {
			chosen = append(chosen, offer.Candidate{Queue: q, Needs: needs, Skipped: f.sampler.Skipped(q)})
			i = len(chosen) - 1
		}
		c := &chosen[i]
		c.Rung, c.Held, c.Deep, c.Extra = look, !look, c.Deep || look, false
	})
	return chosen
}

// needs is what a queue's work needs, if it is for this host.
func (f *Fetcher) needs(q compute.QueueName) (compute.Resources, bool) {
	is, there := f.queues[q]
	return is.Resources, there && is.Accepts(f.traits)
}

// LeaveAlone gives others the chance to take what this host should not.
func (f *Fetcher) LeaveAlone(q compute.QueueName, now time.Time) {
	f.alone[q] = now.Add(f.o.LeaveAlone)
	f.changed = true
}

func (f *Fetcher) leftAlone(q compute.QueueName, now time.Time) bool {
	until, ok := f.alone[q]
	switch {
	case !ok:
		return false
	case !now.Before(until):
		delete(f.alone, q)
		return false
	case until.Before(f.again):
		f.again = until
	}
	return true
}

// Placed opens a fetch in every idle lane, and in spare ones, that has something
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
	lanes, plan := f.assign(q, now)
	room, slots := has.Room, has.Slots
	for lane, o := range f.open {
		if !slices.Contains(lanes, lane) {
			room, slots = room.Hold(o.Most, o.Place), slots-1
		}
	}
	for _, b := range f.pinned {
		place, _, _ := f.Beside(room).Allocate(b.Resources, compute.Place{}) // nowhere: its amounts are kept
		room = room.Hold(b.Resources, place)
	}
	for i, p := range offer.Plan(room, plan, slots) {
		f.begin(lanes[i], p, opened{chosen: q.when, began: now, room: has.Room}, q.at[first(lanes[i])])
	}
}

// spareOverdue is when a fetch in a spare lane should long have ended: there is
// trouble, and the first lane does not wait for it.
const spareOverdue = 1500 * time.Millisecond

// assign gives the candidates of each lane to the lane, or if a fetch is open there,
// those that came up since to the spare one beside it. While one is open in the
// spare lane alone, which is not for long, the other waits: then it lists all.
func (f *Fetcher) assign(q *Question, now time.Time) (lanes []wire.Lane, plan []offer.Lane) {
	add := func(lane wire.Lane, p offer.Lane) { lanes, plan = append(lanes, lane), append(plan, p) }
	for _, lane := range slices.SortedFunc(maps.Keys(q.at), byLane) {
		var some []offer.Candidate
		for _, ref := range q.at[lane] {
			if is, ok := f.queues[ref.Name]; ok && is.TopicID == ref.TopicID && !f.leftAlone(ref.Name, now) {
				some = append(some, q.chosen[ref.Name])
			}
		}
		spare := lane
		spare.Spare = true
		o, busy := f.open[lane]
		s, spared := f.open[spare]
		if overdue := s.began.Add(spareOverdue); spared && !busy {
			if spared = now.Before(overdue); spared && (f.again.IsZero() || overdue.Before(f.again)) {
				f.again = overdue
			}
		}
		switch {
		case !busy && !spared:
			add(lane, offer.Lane{Candidates: some})
		case busy && !spared:
			missed, rest := f.split(o, some)
			add(lane, offer.Lane{Open: &o.Reserved, Candidates: rest})
			add(spare, offer.Lane{Candidates: missed})
		case busy:
			add(lane, offer.Lane{Open: &o.Reserved, Candidates: some})
		}
	}
	return lanes, plan
}

// first is the lane that a spare one is beside.
func first(lane wire.Lane) wire.Lane {
	lane.Spare = false
	return lane
}

func byLane(a, b wire.Lane) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Broker, b.Broker))
}

// ShortPoll is how long a host waits for work that is said to lie somewhere: it would
// come at once.
const ShortPoll = 500 * time.Millisecond

// RungPoll is how long a host that was rung waits for work: a ring may come a moment
// before the work does. While it lasts, the host cannot follow its other rings.
const RungPoll = 100 * time.Millisecond

// Ended takes note of how a fetch ended; the answer is where its fetch had room for what came. What came is the
// caller's from now on.
func (f *Fetcher) Ended(p wire.Pulled, now time.Time) compute.Place {
	o := f.open[p.Lane]
	f.refute(o, p, now)
	delete(f.open, p.Lane)
	f.changed = true
	f.giveBackBehind(o, p, now)
	return o.Place
}

// refute takes note of what a fetch looked for in vain.
func (f *Fetcher) refute(o opened, p wire.Pulled, now time.Time) {
	if p.Err == nil && p.Record == nil {
		for _, q := range o.rung {
			f.rings.Looked(q)
		}
	}
	if p.Err != nil || p.Record != nil && now.Sub(o.began) < ShortPoll {
		return
	}
	for _, q := range o.extra {
		if (p.Record == nil || p.Ref.Queue.Name != q) && !f.hiding(q) { // what lies there may be what is held
			f.sampler.Refute(q, now)
		}
	}
}

// untilOwed is how long a fetch may last at most because the host was rung for another
// queue, for which there may be no room beside it: until that queue is no longer left to
// other hosts, or for a short poll. Zero: for as long as any.
func (f *Fetcher) untilOwed(o opened) (wait time.Duration) {
	f.rings.Listed(o.began, func(q compute.QueueName, look bool) {
		alone, is := f.alone[q]
		if look && !o.queues[q] && (is || o.passed[q]) {
			if after := max(ShortPoll, alone.Sub(o.began)); wait == 0 || after < wait {
				wait = after
			}
		}
	})
	return wait
}

// begin opens a fetch of what is planned for a lane, if anything is.
func (f *Fetcher) begin(lane wire.Lane, p offer.Planned, o opened, refs []wire.QueueRef) {
	f.sampler.Planned(p.Listed, p.Left)
	if len(p.Listed) == 0 {
		return
	}
	o.Reserved, o.queues, o.passed = p.Reserved, map[compute.QueueName]bool{}, map[compute.QueueName]bool{}
	var wait time.Duration
	for _, c := range p.Listed {
		o.queues[c.Queue] = true
		if c.Extra {
			o.extra, wait = append(o.extra, c.Queue), ShortPoll
		}
		if f.hiding(c.Queue) {
			wait = ShortPoll
		}
	}
	for _, c := range p.Listed {
		if c.Rung {
			o.rung, wait = append(o.rung, c.Queue), RungPoll
		}
	}
	for _, c := range p.Left {
		o.passed[c.Queue] = true
	}
	if wait == 0 {
		wait = f.untilOwed(o)
	}
	f.open[lane] = o
	f.o.Opened()
	f.o.Puller.Open(lane, slices.DeleteFunc(slices.Clone(refs), func(r wire.QueueRef) bool { return !o.queues[r.Name] }), wait)
}
