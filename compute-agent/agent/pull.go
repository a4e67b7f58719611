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
	queues    map[compute.QueueName]compute.Queue
	sorted    []compute.Queue // of queues; nil: to be made anew
	queuesEnd bool            // the list was read to its end once
	open      map[wire.Lane]opened
	alone     map[compute.QueueName]time.Time // left to other hosts until then
	pinned    []compute.Build                 // offered to this host alone, oldest first
	free      compute.Resources               // nil: to be worked out anew
	changed   bool                            // what fits, or what may be fetched, may be something else now
	placing   bool
	again     time.Time // when to look again though nothing changed
}

// opened is a fetch under way: what it may bring is reserved.
type opened struct {
	queues map[compute.QueueName]bool
	most   compute.Resources
}

func newPull(o Options) pull {
	return pull{
		lots: offer.NewLots(o.Host, o.Weigher), queues: map[compute.QueueName]compute.Queue{},
		open: map[wire.Lane]opened{}, alone: map[compute.QueueName]time.Time{}, changed: true,
	}
}

// free is what nothing on the host holds, running or not, taken or not. It is
// asked several times a turn, and seldom changes: whoever adds or removes a task,
// or learns of another inventory, forgets the answer.
func (l *loop) free() compute.Resources {
	if l.pull.free == nil {
		held := make([]compute.Resources, 0, len(l.tasks))
		for _, t := range l.tasks {
			held = append(held, t.Resources)
		}
		l.pull.free = offer.Free(l.view.inventory, held...)
	}
	return l.pull.free
}

// beside is what is free beside all that open fetches may bring.
func (l *loop) beside(free compute.Resources) compute.Resources {
	for _, o := range l.pull.open {
		free = free.Minus(o.most)
	}
	return free
}

// slots is how many more builds may be taken, open fetches not counted.
func (l *loop) slots() int {
	n := l.o.Slots
	for _, t := range l.tasks {
		if t.Busy == task.BusyPreparing || t.Stage == task.Preparing || t.Stage == task.Claiming && !t.Answered {
			n--
		}
	}
	return n
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
		q := l.pull.queues[c.Queue]
		refs = append(refs, wire.QueueRef{Name: q.Name, Group: q.Group, TopicID: q.TopicID})
		byName[c.Queue] = c
	}
	l.pull.placing = true
	l.workers.Go(func() {
		ctx, cancel := context.WithTimeout(l.work, l.o.Timing.Poll)
		defer cancel()
		lanes, err := l.o.Puller.Place(ctx, refs)
		l.a.inbox.put(func(l *loop) { l.placed(byName, lanes, err) })
	})
}

// draw lists the queues this host would wait on now and does not yet.
func (l *loop) draw(now time.Time) []offer.Candidate {
	free := l.free()
	fits := offer.Look(free, l.view.traits, l.pull.list())
	waiting := map[compute.QueueName]bool{}
	for _, o := range l.pull.open {
		maps.Copy(waiting, o.queues)
	}
	fits = slices.DeleteFunc(fits, func(q compute.Queue) bool { return waiting[q.Name] || l.leftAlone(q.Name, now) })
	return l.pull.lots.Wait(fits, offer.Used(l.view.inventory.Totals, free), now)
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

// placed opens a fetch in every idle lane that has something to list which
// fits beside all others. Things may have changed since it was drawn.
func (l *loop) placed(drawn map[compute.QueueName]offer.Candidate, at map[wire.Lane][]wire.QueueRef, err error) {
	l.pull.placing = false
	now := time.Now()
	if err != nil {
		l.log.Debug("some queues cannot be fetched now", zap.Error(err))
		l.pull.again = now.Add(l.o.Timing.Retry)
	}
	if !l.offers(now) {
		return
	}
	lanes := slices.SortedFunc(maps.Keys(at), byLane)
	plan := make([]offer.Lane, len(lanes))
	for i, lane := range lanes {
		if o, busy := l.pull.open[lane]; busy {
			plan[i].Open = o.most
		}
		for _, ref := range at[lane] {
			if q, ok := l.pull.queues[ref.Name]; ok && q.TopicID == ref.TopicID && !l.leftAlone(ref.Name, now) {
				plan[i].Candidates = append(plan[i].Candidates, drawn[ref.Name])
			}
		}
	}
	free, slots := l.free(), l.slots()
	for _, b := range l.pull.pinned {
		free = free.Minus(b.Resources)
	}
	for lane, o := range l.pull.open {
		if _, ok := at[lane]; !ok {
			free, slots = free.Minus(o.most), slots-1
		}
	}
	for i, p := range offer.Plan(free, plan, slots) {
		l.open(lanes[i], p, at[lanes[i]])
	}
}

func byLane(a, b wire.Lane) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Broker, b.Broker))
}

func (l *loop) open(lane wire.Lane, p offer.Planned, refs []wire.QueueRef) {
	l.pull.lots.Planned(p.Listed, p.Left)
	if len(p.Listed) == 0 {
		return
	}
	o := opened{queues: map[compute.QueueName]bool{}, most: p.Most}
	for _, c := range p.Listed {
		o.queues[c.Queue] = true
	}
	l.pull.open[lane] = o
	l.a.counts.offers.Add(1)
	l.o.Puller.Open(lane, slices.DeleteFunc(slices.Clone(refs), func(r wire.QueueRef) bool { return !o.queues[r.Name] }))
}
