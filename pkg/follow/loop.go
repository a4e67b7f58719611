// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// loop is a follower at work: one goroutine runs it and calls Handle. Each open
// question to a broker has one of its own and answers over a channel.
type loop struct {
	f          *Follower
	topic      Leaders
	at         map[int32]*cursor
	open       map[int32]*request // by broker: the open question
	late       []*request         // given up, and not yet answered
	refreshing bool               // a goroutine asks for the leaders
	fails      int                // failures in a row
	seen       map[owned]compute.Version
	told       bool // CaughtUp was said

	answers chan *request
	views   chan view
}

// owned is an instance by its whole name: in another partition, another project
// may have one of the same id.
type owned struct {
	project compute.Project
	id      compute.InstanceID
}

// request is one question to a broker, and its answer.
type request struct {
	broker int32
	from   map[int32]int64
	since  time.Time
	cancel context.CancelFunc
	parts  []Part
	err    error
}

// view is which brokers lead, and where unknown partitions begin.
type view struct {
	topic  Leaders
	oldest map[int32]int64
	err    error
}

const (
	// answerWithin is how much longer than it may wait an answer may take.
	answerWithin = 15 * time.Second
	// stalledAfter is how much longer it may take before it is asked whether the
	// broker still leads: a frozen one keeps its connections.
	stalledAfter = 3 * time.Second
	checkEvery   = time.Second
	logAfter     = 8 // failures in a row; a change of leaders makes a few
	maxPause     = 2 * time.Second
)

func newLoop(f *Follower) *loop {
	return &loop{
		f: f, at: map[int32]*cursor{}, open: map[int32]*request{}, seen: map[owned]compute.Version{},
		answers: make(chan *request), views: make(chan view),
	}
}

func (l *loop) run(ctx context.Context) error {
	l.refreshLeaders(ctx, nil)
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		l.dispatch(ctx)
		var err error
		select {
		case <-ctx.Done():
			return nil
		case a := <-l.answers:
			err = l.handle(ctx, a)
		case v := <-l.views:
			err = l.applyView(ctx, v)
		case now := <-tick.C:
			l.checkStalled(ctx, now)
		}
		if err != nil {
			return err
		}
	}
}

// drain waits for the goroutines of the loop, which end because ctx has.
func (l *loop) drain() {
	for len(l.open)+len(l.late) > 0 || l.refreshing {
		select {
		case a := <-l.answers:
			l.close(a)
		case <-l.views:
			l.refreshing = false
		}
	}
}

// close notes that a question is answered.
func (l *loop) close(a *request) {
	a.cancel()
	if l.open[a.broker] == a {
		delete(l.open, a.broker)
	}
	for i, late := range l.late {
		if late == a {
			l.late = append(l.late[:i], l.late[i+1:]...)
			break
		}
	}
}

// dispatch asks every broker that leads something and has no open question.
func (l *loop) dispatch(ctx context.Context) {
	asks := map[int32]*request{}
	alone := map[int32]bool{}
	for p, c := range l.at {
		broker := l.topic.Of[p]
		if c.lost || c.by != nil || broker < 0 || l.open[broker] != nil || alone[broker] {
			continue
		}
		if asks[broker] == nil || c.alone {
			asks[broker] = &request{broker: broker, from: map[int32]int64{}}
			alone[broker] = c.alone
		}
		asks[broker].from[p] = c.from()
	}
	for broker, a := range asks {
		l.open[broker] = a
		l.begin(ctx, a)
	}
}

func (l *loop) begin(ctx context.Context, a *request) {
	wait := l.f.opts.Wait
	for p := range a.from {
		c := l.at[p]
		c.by = a
		if !c.atEnd() {
			wait = 0 // there is something to know at once
		}
	}
	a.since = time.Now().Add(wait)
	ctx, a.cancel = context.WithTimeout(ctx, wait+answerWithin)
	go func() {
		a.parts, a.err = l.f.client.Fetch(ctx, a.broker, l.f.topic, a.from, wait)
		l.answers <- a
	}()
}

// handle hands over what an answer brought.
func (l *loop) handle(ctx context.Context, a *request) error {
	l.close(a)
	trouble := a.err
	var changes []Change
	for _, part := range a.parts {
		c := l.at[part.Partition]
		if c == nil || c.by != a {
			continue // it was asked of another meanwhile
		}
		if part.Code != 0 {
			if err := l.refused(c, part); err != nil {
				return err
			}
			c.lost, trouble = true, fmt.Errorf("partition %d: Kafka's error %d", part.Partition, part.Code)
			continue
		}
		if at := c.parted(part); at >= 0 {
			return replaced(l.f.topic, fmt.Sprintf("partition %d is another from offset %d on", part.Partition, at))
		}
		read, err := l.changes(c.advance(part, len(a.from) == 1))
		if err != nil {
			return err
		}
		changes = append(changes, read...)
	}
	if left := l.release(a); left && trouble == nil {
		trouble = errNothing
	}
	l.deliver(changes)
	switch {
	case trouble == nil:
		l.fails = 0
	case compute.KindOf(trouble) == compute.KindForbidden:
		return trouble
	default:
		l.refreshLeaders(ctx, trouble)
	}
	return nil
}

// release lets the partitions of a question be asked about again; those that the
// answer leaves out only once their leaders are known.
func (l *loop) release(a *request) (left bool) {
	for p := range a.from {
		c := l.at[p]
		if c == nil || c.by != a {
			continue
		}
		c.by = nil
		if !a.about(p) {
			c.lost, left = true, true
		}
	}
	return left
}

var errNothing = errors.New("a broker did not answer about every partition")

// about says whether the answer is about a partition.
func (a *request) about(p int32) bool {
	return slices.ContainsFunc(a.parts, func(part Part) bool { return part.Partition == p })
}

// refused is about an error that asking again cannot mend.
func (l *loop) refused(c *cursor, part Part) error {
	cause := fmt.Errorf("partition %d, offset %d: Kafka's error %d", part.Partition, c.next, part.Code)
	switch {
	case part.Code == offsetOutOfRange && c.verify:
		c.verify, c.last = false, mark{} // it may have been removed: what was read on from is asked for again
		return nil
	case part.Code == offsetOutOfRange && c.began && !c.gone(time.Now()):
		return nil // asked again, once the leaders were asked for
	case part.Code == offsetOutOfRange && c.began:
		return replaced(l.f.topic, "it lost records that had been read")
	case part.Code == offsetOutOfRange:
		delete(l.at, part.Partition) // it was just shortened; where it begins is asked again
	}
	if err := Code(part.Code, cause); compute.KindOf(err) == compute.KindForbidden {
		return err
	}
	return nil
}

func (l *loop) changes(recs []wire.Record) ([]Change, error) {
	var changes []Change
	for _, rec := range recs {
		if rec.IsTakeover() {
			continue // of a partition, by another conductor: nothing has changed
		}
		change, err := l.change(rec)
		if err != nil {
			return nil, err
		}
		changes = append(changes, change)
	}
	return changes, nil
}

// change reads a record. A version that is not above the one known is of
// another log: the one writer of an instance only counts up.
func (l *loop) change(rec wire.Record) (Change, error) {
	ch := Change{Partition: rec.Partition, Offset: rec.Offset}
	if rec.Unread != nil {
		ch.Err = rec.Unread
		return ch, nil
	}
	ch.Project, ch.ID, ch.Err = wire.ParseInstanceKey(rec.Key)
	if ch.Err != nil {
		return ch, nil
	}
	name := owned{ch.Project, ch.ID}
	if rec.Value == nil {
		delete(l.seen, name)
		return ch, nil
	}
	inst, err := wire.DecodeInstance(rec)
	if err != nil {
		ch.Err = err
		return ch, nil
	}
	if last := l.seen[name]; inst.Version <= last {
		return ch, replaced(l.f.topic, fmt.Sprintf("version %d of %s follows version %d", inst.Version, ch.ID, last))
	}
	l.seen[name] = inst.Version
	ch.Instance = &inst
	return ch, nil
}

func (l *loop) deliver(changes []Change) {
	caughtUp := l.told || l.caughtUp()
	if len(changes) > 0 || caughtUp && !l.told {
		l.f.opts.Handle(Batch{Changes: changes, CaughtUp: caughtUp})
	}
	if caughtUp && !l.told {
		close(l.f.ready)
	}
	l.told = caughtUp
}

func (l *loop) caughtUp() bool {
	for p := range l.topic.Of {
		if c := l.at[p]; c == nil || !c.caughtUp() {
			return false
		}
	}
	return len(l.topic.Of) > 0
}
