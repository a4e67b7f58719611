// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"cmp"
	"context"
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
	due        time.Time          // when they are asked for next; zero: that is open
	timer      *time.Timer        // fires then
	single     map[int32]bool     // by broker: whether it was asked about one partition alone last
	viewed     time.Time          // when they were asked for last, or the loop began
	unread     map[int32]*unread  // by partition: what cannot be read now
	blind      unread             // likewise which brokers lead; zero: that is known
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
	failed map[int32]error // by partition: why its leader did not say
	calm   bool            // all was well when it was asked for
	err    error
}

const (
	// answerWithin is how much longer than it may wait an answer may take.
	answerWithin = 15 * time.Second
	// stalledAfter is how much longer it may take before it is asked whether the
	// broker still leads: a frozen one keeps its connections.
	stalledAfter = 3 * time.Second
	checkEvery   = time.Second
	// verifyEvery is how often the leaders are asked for at least, as Berth's own readers do.
	verifyEvery = 30 * time.Second
	// oldestWithin is how long a broker of several may take to say where partitions begin.
	oldestWithin = 5 * time.Second
)

func newLoop(f *Follower) *loop {
	return &loop{
		f: f, at: map[int32]*cursor{}, open: map[int32]*request{}, seen: map[owned]compute.Version{},
		unread: map[int32]*unread{}, single: map[int32]bool{}, answers: make(chan *request), views: make(chan view),
	}
}

func (l *loop) run(ctx context.Context) error {
	l.timer, l.viewed = time.NewTimer(0), time.Now()
	defer l.timer.Stop()
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		l.dispatch(ctx)
		var err error
		select {
		case <-ctx.Done():
			return nil
		case a := <-l.answers:
			err = l.handle(a)
		case v := <-l.views:
			err = l.applyView(v)
		case <-l.timer.C:
			l.askLeaders(ctx)
		case now := <-tick.C:
			l.checkStalled(now)
			l.verifyLeaders(ctx, now)
			l.tell(now)
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

// dispatch asks every broker that leads something and has no open question. Partitions that are asked for alone and
// the others take turns, and so do those that are asked for alone among themselves.
func (l *loop) dispatch(ctx context.Context) {
	together, single := map[int32]*request{}, map[int32]*request{}
	next := map[int32]*cursor{} // that single asks for
	for p, c := range l.at {
		broker := l.topic.Of[p]
		if c.lost || c.by != nil || broker < 0 || l.open[broker] != nil {
			continue
		}
		if c.byItself() {
			if n := next[broker]; n == nil || c.asked.Before(n.asked) {
				next[broker] = c
				single[broker] = &request{broker: broker, from: map[int32]int64{p: c.from()}}
			}
			continue
		}
		if together[broker] == nil {
			together[broker] = &request{broker: broker, from: map[int32]int64{}}
		}
		together[broker].from[p] = c.from()
	}
	for broker, a := range together {
		if single[broker] == nil || l.single[broker] {
			l.single[broker] = false
			l.begin(ctx, a, single[broker] != nil)
		}
	}
	for broker, a := range single {
		if l.open[broker] == nil {
			l.single[broker] = true
			l.begin(ctx, a, together[broker] != nil)
		}
	}
}

// begin asks a question. It does not wait for something new where others wait for their turn at the broker.
func (l *loop) begin(ctx context.Context, a *request, others bool) {
	l.open[a.broker] = a
	room := Room{Wait: l.f.opts.Wait, Bytes: partitionBytes}
	for p := range a.from {
		c := l.at[p]
		c.by, c.asked = a, time.Now()
		room.Bytes >>= c.halved
		if others || !c.atEnd() || c.byItself() {
			room.Wait = 0 // or there is something to know at once
		}
	}
	a.since = time.Now().Add(room.Wait)
	ctx, a.cancel = context.WithTimeout(ctx, room.Wait+answerWithin)
	go func() {
		a.parts, a.err = l.f.client.Fetch(ctx, a.broker, l.f.topic, a.from, room)
		l.answers <- a
	}()
}

// handle hands over what an answer brought.
func (l *loop) handle(a *request) error {
	l.close(a)
	var changes []Change
	for _, part := range a.parts {
		c := l.at[part.Partition]
		if c == nil || c.by != a {
			continue // it was asked of another meanwhile
		}
		before := c.next
		read, why, err := l.read(c, part, len(a.from) == 1)
		if err != nil {
			return err
		}
		if why != nil {
			c.lost = true
			l.fails(part.Partition, why)
		} else {
			l.reads(part.Partition, c, before)
		}
		changes = append(changes, read...)
	}
	l.release(a)
	l.deliver(changes)
	if compute.KindOf(a.err) == compute.KindForbidden {
		return a.err
	}
	if l.lost(a) {
		l.refreshLeaders()
	}
	return nil
}

// read reads an answer about one partition: what it brought, or why it says nothing and the leader must be asked for.
// An error ends the follower.
func (l *loop) read(c *cursor, part Part, alone bool) (read []Change, why, err error) {
	if part.Err != nil {
		return nil, part.Err, nil
	}
	if part.Code != 0 {
		why = fmt.Errorf("partition %d: Kafka's error %d", part.Partition, part.Code)
		return nil, why, l.refused(c, part)
	}
	if at := c.parted(part); at >= 0 {
		return nil, nil, replaced(l.f.topic, fmt.Sprintf("partition %d is another from offset %d on", part.Partition, at))
	}
	if c.short(part) {
		c.beyond = c.gone(time.Now(), laggedFor) || c.beyond
		return nil, fmt.Errorf("partition %d ends before what was read of it", part.Partition), nil
	}
	if c.reached() {
		return nil, nil, nil
	}
	read, err = l.changes(c.advance(part, alone))
	return read, nil, err
}

// release lets the partitions of a question be asked about again; those that the
// answer leaves out only once their leaders are known. If it is about none, it may
// be one of them that a client cannot read, or too much for the time that there is: each is asked about alone, and then
// with less room.
func (l *loop) release(a *request) {
	alone := len(a.from) > 1 && len(a.parts) == 0
	shrink := len(a.from) == 1 && a.err != nil && time.Since(a.since) > stalledAfter // and not refused at once
	for p := range a.from {
		c := l.at[p]
		if c == nil || c.by != a {
			continue
		}
		c.by = nil
		if !a.about(p) {
			c.lost, c.alone = true, c.alone || alone
			if shrink {
				c.shrink()
			}
			l.fails(p, cmp.Or(a.err, errNothing))
		}
	}
}

// lost says whether a partition of a question waits for its leader to be known, or for where it begins.
func (l *loop) lost(a *request) bool {
	for p := range a.from {
		if c := l.at[p]; c == nil || c.lost {
			return true
		}
	}
	return false
}

// about says whether the answer is about a partition.
func (a *request) about(p int32) bool {
	return slices.ContainsFunc(a.parts, func(part Part) bool { return part.Partition == p })
}

// refused is about an error that asking again cannot mend.
func (l *loop) refused(c *cursor, part Part) error {
	cause := fmt.Errorf("partition %d, offset %d: Kafka's error %d", part.Partition, c.next, part.Code)
	switch {
	case part.Code == offsetOutOfRange && c.began && !c.gone(time.Now(), missedFor):
		return nil // asked again, once the leaders were asked for
	case part.Code == offsetOutOfRange && c.began:
		return lostRecords(l.f.topic)
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
