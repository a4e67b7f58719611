package agent

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io"
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

func (l *loop) readQueues(recs []wire.Record, end bool) {
	for _, rec := range recs {
		name := compute.QueueName(rec.Key)
		if rec.Value == nil {
			delete(l.pull.queues, name)
			l.pull.lots.Forget(name)
			continue
		}
		q, err := wire.DecodeQueue(rec)
		if err != nil {
			l.reject(rec, err)
			continue
		}
		l.pull.queues[q.Name] = q
	}
	l.pull.sorted = nil
	l.pull.queuesEnd = l.pull.queuesEnd || end
	l.pull.changed = true
}

func (l *loop) readAdvice(recs []wire.Record) {
	now := time.Now()
	for _, rec := range recs {
		a, err := wire.DecodeAdvice(rec)
		if err != nil {
			l.reject(rec, err)
			continue
		}
		l.pull.lots.Hear(a, now)
		l.pull.changed = true
	}
}

func (p *pull) list() []compute.Queue {
	if p.sorted == nil {
		p.sorted = slices.SortedFunc(maps.Values(p.queues), func(a, b compute.Queue) int { return cmp.Compare(a.Name, b.Name) })
	}
	return p.sorted
}

// free is what nothing on the host holds, running or not, taken or not.
func (l *loop) free() compute.Resources {
	held := make([]compute.Resources, 0, len(l.tasks))
	for _, t := range l.tasks {
		held = append(held, t.Resources)
	}
	return offer.Free(l.view.inventory, held...)
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

// pulled hears how a fetch ended.
func (l *loop) pulled(p wire.Pulled) {
	delete(l.pull.open, p.Lane)
	l.pull.changed = true
	if p.Err != nil {
		l.log.Debug("a fetch failed", zap.Int32("broker", p.Lane.Broker), zap.Error(p.Err))
	}
	if p.Record == nil {
		return
	}
	b, err := wire.DecodeBuild(*p.Record)
	if err == nil {
		err = checkBuild(b)
	}
	if err != nil {
		l.reject(*p.Record, err)
		l.o.Puller.Ack(p.Ref, wire.AckReject)
		return
	}
	l.receive(b, p.Ref)
}

// checkBuild refuses work that nobody could report about.
func checkBuild(b compute.Build) error {
	if err := b.Instance.Check(); err != nil {
		return err
	}
	if err := b.Project.Check(); err != nil {
		return err
	}
	if b.Attempt == 0 {
		return compute.Invalid("attempt", "0", "attempts count from 1")
	}
	return b.Resources.Check()
}

// receive decides what becomes of a record that came from a queue.
func (l *loop) receive(b compute.Build, ref wire.WorkRef) {
	now := time.Now()
	switch how, why := l.verdict(b, ref, now); how {
	case wire.AckAccept:
		l.log.Debug("work is void", zap.String("instance", string(b.Instance)), zap.String("why", why))
		l.o.Puller.Ack(ref, wire.AckAccept)
	case wire.AckRelease:
		l.log.Debug("work is left to others", zap.String("instance", string(b.Instance)), zap.String("why", why))
		l.a.counts.released.Add(1)
		l.leaveAlone(ref.Queue.Name)
		l.o.Puller.Ack(ref, wire.AckRelease)
	case wire.AckRenew:
		l.refs[b.Instance] = ref // another delivery of what is being built here
	default:
		l.take(b, &ref)
	}
}

// verdict is 0 for work that is taken.
func (l *loop) verdict(b compute.Build, ref wire.WorkRef, now time.Time) (how wire.Ack, why string) {
	if t, ok := l.tasks[b.Instance]; ok {
		return known(*t, b)
	}
	switch {
	case !l.offers(now):
		return wire.AckRelease, "this host does not offer any more"
	case slices.Contains(b.Avoid, l.o.Host):
		return wire.AckRelease, "the request avoids this host"
	case slices.Contains(b.Failed, l.o.Host) && ref.Delivery < thirdDelivery:
		return wire.AckRelease, "an earlier attempt failed here"
	case !b.Deadline.IsZero() && now.After(b.Deadline):
		// One host whose clock is wrong must not eat a queue: two must say so.
		if ref.Delivery > 1 {
			return wire.AckAccept, "its deadline has passed"
		}
		return wire.AckRelease, "its deadline has passed by this host's clock"
	case !offer.Fits(b.Resources, b.Required, b.Forbidden, l.beside(l.free()), l.view.traits) || l.slots() < 1:
		return wire.AckRelease, "it does not fit any more"
	}
	return 0, ""
}

// thirdDelivery is when an earlier failure here does not count any more: it
// seems that nobody else wants the work.
const thirdDelivery = 3

// known decides about work for an instance that is here already.
func known(t task.Task, b compute.Build) (wire.Ack, string) {
	switch {
	case b.Attempt < t.Attempt:
		return wire.AckAccept, "a later attempt is here"
	case b.Attempt > t.Attempt, t.Stage == task.Ending:
		return wire.AckRelease, "an attempt that ends is here"
	case t.Answered:
		return wire.AckAccept, "it is here"
	}
	return wire.AckRenew, "it is being built here"
}

// take begins a task. It is in the journal before anything is done for it.
func (l *loop) take(b compute.Build, ref *wire.WorkRef) {
	var id [16]byte
	if _, err := io.ReadFull(l.o.Random, id[:]); err != nil {
		l.fail(&compute.Error{Op: "make a claim id", Message: "the source of randomness failed", Cause: err})
		return
	}
	t := task.Take(b, compute.ClaimID(hex.EncodeToString(id[:])), ref == nil)
	l.tasks[b.Instance], l.builds[b.Instance] = &t, b
	if ref != nil {
		l.refs[b.Instance] = *ref
	}
	l.a.counts.taken.Add(1)
	l.step(b.Instance, task.Taken{})
}

// takePinned takes the work that was offered to this host alone, or says why
// not. What only has to wait for fetches to end or a slot waits, and its share
// is kept from other fetches.
func (l *loop) takePinned(now time.Time) {
	if !l.stream.caughtUp {
		return
	}
	free := l.free()
	l.pull.pinned = slices.DeleteFunc(l.pull.pinned, func(b compute.Build) bool {
		if l.pinnedOver(b, free, now) {
			return true
		}
		if !b.Resources.FitsIn(l.beside(free)) || l.slots() <= len(l.pull.open) || l.tasks[b.Instance] != nil {
			return false
		}
		l.take(b, nil)
		free = free.Minus(b.Resources)
		return true
	})
}

// pinnedOver says whether there is nothing to wait for.
func (l *loop) pinnedOver(b compute.Build, free compute.Resources, now time.Time) bool {
	if t, ok := l.tasks[b.Instance]; ok && t.Attempt >= b.Attempt {
		return true
	}
	why := ""
	state, reason := l.state(now)
	switch {
	case l.stopping, !b.Deadline.IsZero() && now.After(b.Deadline):
		return true
	case state != compute.HostEnabled:
		why = fmt.Sprintf("the host is %s: %s", state, reason)
	case checkBuild(b) != nil:
		why = checkBuild(b).Error()
	case !offer.Fits(nil, b.Required, b.Forbidden, nil, l.view.traits):
		why = fmt.Sprintf("the host lacks a trait, or has one that it must not: %v, not %v", b.Required, b.Forbidden)
	case !b.Resources.FitsIn(free) && l.tasks[b.Instance] == nil:
		why = fmt.Sprintf("it needs %s, and %s is free", b.Resources, free)
	default:
		return false
	}
	l.tell(compute.Report{
		Op: compute.ReportPinned, Project: b.Project, Instance: b.Instance, Attempt: b.Attempt, Message: why, Trace: b.Trace,
	})
	return true
}

func traitsOf(inv compute.Inventory) map[compute.Trait]bool { return offer.Traits(inv.Traits) }
