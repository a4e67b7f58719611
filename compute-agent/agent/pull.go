package agent

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// pull is what the host waits on.
type pull struct {
	lots      *offer.Lots
	rings     offer.Rings
	queues    map[compute.QueueName]compute.Queue
	heard     map[compute.QueueName]time.Time // when each was first heard of
	listed    bool                            // lots are drawn from queues as they are, and traits
	asked     bool                            // brokers were asked where they are
	queuesEnd bool                            // the list was read to its end once
	advised   bool                            // advice was read to its end once
	open      map[wire.Lane]opened
	alone     map[compute.QueueName]time.Time // left to other hosts until then
	held      []held                          // must not run here, and are kept for one more look
	pinned    []compute.Build                 // offered to this host alone, oldest first
	room      *offer.Room                     // nil: to be worked out anew
	changed   bool                            // what fits, or what may be fetched, may be something else now
	placing   bool
	again     time.Time // when to look again though nothing changed
}

// opened is a fetch under way.
type opened struct {
	offer.Reserved
	queues map[compute.QueueName]bool
	drawn  time.Time // when queues were drawn for it
	began  time.Time
	room   offer.Room                 // of the host when it was opened
	passed map[compute.QueueName]bool // drawn then, and left out
	extra  []compute.QueueName        // waited on for a glance only: work is said to lie there
	rung   []compute.QueueName        // looked at because the host was rung
}

// split finds the queues that came up since: the host was rung for them, they were
// not there, or their work did not fit then. Other lots, and work that is known to lie somewhere, wait for the
// next fetch: where there is more work than hosts can take, every host would open
// another fetch.
func (p *pull) split(o opened, some []offer.Candidate) (missed, rest []offer.Candidate) {
	for _, c := range some {
		if c.Called() || !o.passed[c.Queue] && (!p.heard[c.Queue].Before(o.drawn) || !o.room.Fits(c.Needs)) {
			missed = append(missed, c)
		} else {
			rest = append(rest, c)
		}
	}
	return missed, rest
}

func newPull(o Options) pull {
	return pull{
		lots: offer.NewLots(o.Host, o.Weigher), queues: map[compute.QueueName]compute.Queue{}, heard: map[compute.QueueName]time.Time{},
		open: map[wire.Lane]opened{}, alone: map[compute.QueueName]time.Time{}, changed: true,
	}
}

// room is what nothing on the host holds, running or not, taken or not. It is
// asked several times a turn, and seldom changes: whoever adds or removes a task,
// or learns of another inventory, forgets the answer.
func (l *loop) room() offer.Room {
	if l.pull.room == nil {
		held := make([]offer.Held, 0, len(l.tasks))
		for _, t := range l.tasks {
			held = append(held, offer.Held{Resources: t.Resources, Place: t.Place})
		}
		room := l.view.host.Room(held...)
		l.pull.room = &room
	}
	return *l.pull.room
}

// beside is the room beside all that open fetches may bring.
func (l *loop) beside(room offer.Room) offer.Room {
	for _, o := range l.pull.open {
		room = room.Hold(o.Most, o.Place)
	}
	return room
}

// slots is how many more builds may be taken, open fetches not counted.
func (l *loop) slots() int {
	n := l.o.Slots
	for _, t := range l.tasks {
		if hasSlot(*t) {
			n--
		}
	}
	return n
}

// hasSlot says whether a build is one of the few that are made at once.
func hasSlot(t task.Task) bool {
	return t.Busy == task.BusyPreparing || t.Stage == task.Preparing || t.Stage == task.Claiming && !t.Answered
}

// offers says whether the host takes work, and if not, why.
func (l *loop) offers(now time.Time) bool {
	state, _ := l.state(now)
	ok := l.stream.settled && l.pull.queuesEnd && !l.stopping && state == compute.HostEnabled
	l.a.counts.offering.Store(ok)
	return ok
}

// look finds what to wait on and has it placed; placed goes on.
func (l *loop) look(now time.Time) {
	if !l.pull.again.IsZero() && !now.Before(l.pull.again) {
		l.pull.changed, l.pull.again = true, time.Time{}
	}
	if !l.offers(now) {
		if l.pull.again = (time.Time{}); l.guard.Quarantined(now) {
			l.pull.again = l.guard.Until
		}
		return
	}
	if l.pull.placing || !l.pull.changed {
		return
	}
	l.pull.changed, l.pull.again = false, l.pull.lots.Turns(now)
	if l.slots() <= len(l.pull.open) {
		return
	}
	candidates := l.draw(now)
	if len(candidates) == 0 {
		return
	}
	refs := make([]wire.QueueRef, 0, len(candidates))
	byName := make(map[compute.QueueName]offer.Candidate, len(candidates))
	for _, c := range candidates {
		refs = append(refs, l.pull.ref(c.Queue))
		byName[c.Queue] = c
	}
	l.pull.placing = true
	was, others := maps.Clone(l.pull.open), l.unasked(refs, now)
	l.workers.Go(func() {
		asked := min(len(others), mostAsked)
		if asked > 0 {
			_, _ = l.place(others[:asked]) // one question for these too
		}
		lanes, err := l.place(refs)
		l.a.inbox.put(func(l *loop) {
			l.dropStale(lanes, was)
			l.placed(byName, now, lanes, err)
		})
		for some := range slices.Chunk(others[asked:], mostAsked) {
			_, _ = l.place(some) // their trouble is told when they are drawn
		}
	})
}

func (l *loop) place(refs []wire.QueueRef) (map[wire.Lane][]wire.QueueRef, error) {
	ctx, cancel := context.WithTimeout(l.work, l.o.Timing.Poll)
	defer cancel()
	return l.o.Puller.Place(ctx, refs)
}

func (p *pull) ref(name compute.QueueName) wire.QueueRef {
	q := p.queues[name]
	return wire.QueueRef{Name: q.Name, Group: q.Group, TopicID: q.TopicID}
}

// mostAsked bounds for how many queues brokers are asked at once: a request of 80 KB
// and an answer of twice that. A broker pays for each queue it is asked about, however
// many come in one request.
const mostAsked = 2000

// mostAskedRung is how many queues there may be for a host that is rung to ask for all.
const mostAskedRung = 200

// unasked are the queues that may be drawn some time, those that were drawn now first:
// brokers are asked for all of them at first, instead of whenever the lots bring up
// another. A host that is rung needs few of many: it asks for those it is rung for.
func (l *loop) unasked(drawn []wire.QueueRef, now time.Time) (refs []wire.QueueRef) {
	if l.pull.asked || l.pull.lots.Rung(now) && len(l.pull.queues) > mostAskedRung {
		return nil
	}
	l.pull.asked = true
	refs = slices.Clone(drawn)
	for _, q := range offer.Accepted(l.view.traits, l.pull.list()) {
		if ref := l.pull.ref(q.Name); !slices.Contains(drawn, ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// dropStale leaves out lanes of which a fetch has ended since it was drawn: what
// that fetch listed was not drawn, and would be missing from the next one for as
// long as that lasts. Everything is drawn again at once.
func (l *loop) dropStale(at map[wire.Lane][]wire.QueueRef, was map[wire.Lane]opened) {
	for lane := range was {
		if _, open := l.pull.open[lane]; !open {
			delete(at, first(lane))
			l.pull.changed = true
		}
	}
}

// draw lists the queues this host would wait on now and does not yet.
func (l *loop) draw(now time.Time) []offer.Candidate {
	room := l.room()
	waiting := map[compute.QueueName]bool{}
	for _, o := range l.pull.open {
		maps.Copy(waiting, o.queues)
	}
	drawn := l.rung(room, l.chosen(room, now), now)
	return slices.DeleteFunc(drawn, func(c offer.Candidate) bool { return waiting[c.Queue] || l.leftAlone(c.Queue, now) })
}

// chosen are the queues that the host finds by itself: by lot, or, while it is rung,
// those in which work is said to lie.
func (l *loop) chosen(room offer.Room, now time.Time) []offer.Candidate {
	if l.pull.lots.Rung(now) {
		return l.pull.lots.Glances(room, now, l.needs)
	}
	if waits := l.began.Add(adviceWithin); !l.pull.advised && now.Before(waits) {
		l.pull.again = waits
		return nil
	}
	if !l.pull.listed {
		l.pull.lots.List(offer.Accepted(l.view.traits, l.pull.list()))
		l.pull.listed = true
	}
	return l.pull.lots.Wait(room, offer.Used(l.view.host.Inventory.Totals, room.Free()), now)
}

// adviceWithin is how long a host that has just started draws no lots, for advice
// probably says that it will be rung.
const adviceWithin = 10 * time.Second

// rung adds the queues that the host was rung for to those that it chose.
func (l *loop) rung(room offer.Room, chosen []offer.Candidate, now time.Time) []offer.Candidate {
	l.pull.rings.Listed(now, func(q compute.QueueName, look bool) {
		needs, ours := l.needs(q)
		if !ours || !room.Fits(needs) {
			return
		}
		i := slices.IndexFunc(chosen, func(c offer.Candidate) bool { return c.Queue == q })
		if i < 0 {
			chosen = append(chosen, offer.Candidate{Queue: q, Needs: needs, Skipped: l.pull.lots.Skipped(q)})
			i = len(chosen) - 1
		}
		c := &chosen[i]
		c.Rung, c.Held, c.Deep, c.Extra = look, !look, c.Deep || look, false
	})
	return chosen
}

// needs is what a queue's work needs, if it is for this host.
func (l *loop) needs(q compute.QueueName) (compute.Resources, bool) {
	is, there := l.pull.queues[q]
	return is.Resources, there && is.Accepts(l.view.traits)
}

// hearRing takes a ring. One that was said before the agent had caught up is old.
func (l *loop) hearRing(look compute.Look) {
	if !l.stream.live {
		return
	}
	now := time.Now()
	l.pull.lots.Heard(now)
	l.pull.rings.Ring(look, l.waitsOn(look.Queue), now)
	l.pull.changed = true
}

// leaveAlone gives others the chance to take what this host should not.
func (l *loop) leaveAlone(q compute.QueueName) {
	l.pull.alone[q] = time.Now().Add(l.o.Timing.LeaveAlone)
	l.pull.changed = true
}

func (l *loop) leftAlone(q compute.QueueName, now time.Time) bool {
	until, ok := l.pull.alone[q]
	switch {
	case !ok:
		return false
	case !now.Before(until):
		delete(l.pull.alone, q)
		return false
	case until.Before(l.pull.again):
		l.pull.again = until
	}
	return true
}

// placed opens a fetch in every idle lane, and in spare ones, that has something
// to list which fits beside all others. Things may have changed since it was drawn.
func (l *loop) placed(drawn map[compute.QueueName]offer.Candidate, when time.Time, at map[wire.Lane][]wire.QueueRef, err error) {
	l.pull.placing = false
	now := time.Now()
	if err != nil {
		l.log.Debug("some queues cannot be fetched now", zap.Error(err))
		l.pull.again = now.Add(l.o.Timing.Retry)
	}
	if !l.offers(now) {
		return
	}
	lanes, plan := l.lay(drawn, at, now)
	room, slots := l.room(), l.slots()
	for lane, o := range l.pull.open {
		if !slices.Contains(lanes, lane) {
			room, slots = room.Hold(o.Most, o.Place), slots-1
		}
	}
	for _, b := range l.pull.pinned {
		place, _, _ := l.beside(room).Take(b.Resources, compute.Place{}) // nowhere: its amounts are kept
		room = room.Hold(b.Resources, place)
	}
	for i, p := range offer.Plan(room, plan, slots) {
		l.open(lanes[i], p, when, at[first(lanes[i])])
	}
}

// spareOverdue is when a fetch in a spare lane should long have ended: there is
// trouble, and the first lane does not wait for it.
const spareOverdue = 1500 * time.Millisecond

// lay gives the candidates of each lane to the lane, or if a fetch is open there,
// those that came up since to the spare one beside it. While one is open in the
// spare lane alone, which is not for long, the other waits: then it lists all.
func (l *loop) lay(drawn map[compute.QueueName]offer.Candidate, at map[wire.Lane][]wire.QueueRef, now time.Time) (lanes []wire.Lane, plan []offer.Lane) {
	add := func(lane wire.Lane, p offer.Lane) { lanes, plan = append(lanes, lane), append(plan, p) }
	for _, lane := range slices.SortedFunc(maps.Keys(at), byLane) {
		var some []offer.Candidate
		for _, ref := range at[lane] {
			if q, ok := l.pull.queues[ref.Name]; ok && q.TopicID == ref.TopicID && !l.leftAlone(ref.Name, now) {
				some = append(some, drawn[ref.Name])
			}
		}
		spare := lane
		spare.Spare = true
		o, busy := l.pull.open[lane]
		s, spared := l.pull.open[spare]
		if overdue := s.began.Add(spareOverdue); spared && !busy {
			if spared = now.Before(overdue); spared && (l.pull.again.IsZero() || overdue.Before(l.pull.again)) {
				l.pull.again = overdue
			}
		}
		switch {
		case !busy && !spared:
			add(lane, offer.Lane{Candidates: some})
		case busy && !spared:
			missed, rest := l.pull.split(o, some)
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

// glance is how long a host waits for work that is said to lie somewhere: it would
// come at once.
const glance = 500 * time.Millisecond

// ringLook is how long a host that was rung waits for work: a ring may come a moment
// before the work does. While it lasts, the host cannot follow its other rings.
const ringLook = 100 * time.Millisecond

// refute takes note of what a fetch looked for in vain.
func (l *loop) refute(o opened, p wire.Pulled, now time.Time) {
	if p.Err == nil && p.Record == nil {
		for _, q := range o.rung {
			l.pull.rings.Looked(q)
		}
	}
	if p.Err != nil || p.Record != nil && now.Sub(o.began) < glance {
		return
	}
	for _, q := range o.extra {
		if (p.Record == nil || p.Ref.Queue.Name != q) && !l.pull.hiding(q) { // what lies there may be what is held
			l.pull.lots.Refute(q, now)
		}
	}
}

// untilOwed is how long a fetch may last at most because the host was rung for another
// queue, for which there may be no room beside it: until that queue is no longer left to
// other hosts, or for a glance. Zero: for as long as any.
func (l *loop) untilOwed(o opened) (wait time.Duration) {
	l.pull.rings.Listed(o.began, func(q compute.QueueName, look bool) {
		alone, is := l.pull.alone[q]
		if look && !o.queues[q] && (is || o.passed[q]) {
			if after := max(glance, alone.Sub(o.began)); wait == 0 || after < wait {
				wait = after
			}
		}
	})
	return wait
}

func (l *loop) open(lane wire.Lane, p offer.Planned, drawn time.Time, refs []wire.QueueRef) {
	l.pull.lots.Planned(p.Listed, p.Left)
	if len(p.Listed) == 0 {
		return
	}
	o := opened{
		Reserved: p.Reserved, queues: map[compute.QueueName]bool{}, passed: map[compute.QueueName]bool{},
		drawn: drawn, began: time.Now(), room: l.room(),
	}
	var wait time.Duration
	for _, c := range p.Listed {
		o.queues[c.Queue] = true
		if c.Extra {
			o.extra, wait = append(o.extra, c.Queue), glance
		}
		if l.pull.hiding(c.Queue) {
			wait = glance
		}
	}
	for _, c := range p.Listed {
		if c.Rung {
			o.rung, wait = append(o.rung, c.Queue), ringLook
		}
	}
	for _, c := range p.Left {
		o.passed[c.Queue] = true
	}
	if wait == 0 {
		wait = l.untilOwed(o)
	}
	l.pull.open[lane] = o
	l.a.counts.offers.Add(1)
	l.o.Puller.Open(lane, slices.DeleteFunc(slices.Clone(refs), func(r wire.QueueRef) bool { return !o.queues[r.Name] }), wait)
}
