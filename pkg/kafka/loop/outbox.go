// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"errors"
	"slices"
	"sync"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/wire"
)

// outbox publishes effects after their turn is committed, and knows how far that has come. It outlives a session:
// what is committed is sent, even after the partition has another owner. All but report is for the loop's goroutine.
type outbox struct {
	producer   *write.Producer
	metrics    *loopMetrics
	partitions map[int32]*partitionEffects // of owned partitions
	unsent     int                         // effects that are not answered yet
	sent       []wire.Sent                 // for the handler's next turn

	mu       sync.Mutex
	outcomes []outcome
	news     chan struct{} // holds one: there are outcomes
}

// partitionEffects is the effects of one partition for as long as this process has it.
//
// Kafka forgets nothing of a turn but its effects: the new owner sends again what follows from every record at or
// behind the cursor. So the cursor is the first record with effects that are not all acknowledged, and as long as it
// stays behind, doubles are the price; ahead, effects would be lost.
type partitionEffects struct {
	open   []*turnEffects // in the order of their turns
	next   int64          // the offset behind the last turn's changes
	gone   bool           // the partition is not ours any more, or ours anew
	unsent int            // effects that are not answered yet
	needed int            // those of them that no change led to, and that are not final: lost, their input is read again
}

// turnEffects is the effects of one turn for one partition.
type turnEffects struct {
	offset int64 // of the turn's first change
	left   int   // effects that are not acknowledged
}

type outcome struct {
	partition *partitionEffects
	turn      *turnEffects // nil: no cursor waits for it
	tag       any
	final     bool // its input need not be decided again: it is repeated, or follows from a change
	offset    int64
	err       error
}

func newOutbox(p *write.Producer, m *loopMetrics) *outbox {
	return &outbox{producer: p, metrics: m, partitions: map[int32]*partitionEffects{}, news: make(chan struct{}, 1)}
}

// gain begins partition p; everything before next is in the log.
func (o *outbox) gain(p int32, next int64) { o.partitions[p] = &partitionEffects{next: next} }

// lose forgets partition p: what becomes of its effects is another's concern.
func (o *outbox) lose(p int32) {
	if s := o.partitions[p]; s != nil {
		s.gone = true
		delete(o.partitions, p)
	}
}

// cursor is what to commit with the position of p, before a turn is published.
func (o *outbox) cursor(p int32) int64 {
	s := o.partitions[p]
	if s == nil {
		return -1
	}
	if len(s.open) > 0 {
		return s.open[0].offset
	}
	return s.next
}

// span is the records a partition's effects follow from: from the first up to
// the offset behind the last.
type span struct{ first, behind int64 }

// and is from the first of both to the last.
func (s *span) and(t span) *span {
	if s != nil {
		t = span{min(s.first, t.first), max(s.behind, t.behind)}
	}
	return &t
}

// publish sends the effects of a committed turn. The cursor of a partition stays
// at the first record of its span until they are acknowledged; those where there
// is nothing to wait for it answers.
func (o *outbox) publish(effects []wire.Effect, of map[int32]span) (moved []int32) {
	turns := map[int32]*turnEffects{}
	for p, s := range of {
		turns[p] = &turnEffects{offset: s.first}
	}
	for _, e := range effects {
		if c := turns[e.Partition]; c != nil {
			c.left++
		}
	}
	for p, c := range turns {
		s := o.partitions[p]
		s.next = max(s.next, of[p].behind)
		if c.left > 0 {
			s.open = append(s.open, c)
		} else {
			moved = append(moved, p)
		}
	}
	for _, e := range effects {
		of := turns[e.Partition]
		o.send(e, outcome{partition: o.partitions[e.Partition], turn: of, tag: e.Tag, final: e.Final || of != nil})
	}
	return moved
}

func (o *outbox) send(e wire.Effect, out outcome) {
	o.unsent++
	if out.partition != nil {
		out.partition.count(1, out.final)
	}
	o.producer.SendAsync(e.Record, func(offset int64, err error) {
		out.offset, out.err = offset, err
		o.metrics.published(err)
		o.report(out)
	})
}

// report keeps an outcome for the loop. It may be called from anywhere.
func (o *outbox) report(out outcome) {
	o.mu.Lock()
	o.outcomes = append(o.outcomes, out)
	o.mu.Unlock()
	select {
	case o.news <- struct{}{}:
	default:
	}
}

// collect takes what was reported, and answers the partitions with a cursor that moved.
func (o *outbox) collect() []int32 {
	o.mu.Lock()
	outcomes := o.outcomes
	o.outcomes = nil
	o.mu.Unlock()
	o.unsent -= len(outcomes)
	before := map[int32]int64{}
	for p := range o.partitions {
		before[p] = o.cursor(p)
	}
	for _, out := range outcomes {
		if out.partition != nil {
			out.partition.count(-1, out.final)
		}
		o.settle(out)
	}
	var moved []int32
	for p, s := range o.partitions {
		s.open = slices.DeleteFunc(s.open, func(c *turnEffects) bool { return c.left == 0 })
		if o.cursor(p) != before[p] {
			moved = append(moved, p)
		}
	}
	return moved
}

// settle counts an outcome. An effect for a topic that is gone, or that no broker takes as it is, can never be sent.
// Any other failure keeps the cursor where it is: the next owner tries again.
func (o *outbox) settle(out outcome) {
	hopeless := errors.Is(out.err, wire.ErrNoTopic) || compute.KindOf(out.err) == compute.KindInvalid
	if out.turn != nil && (out.err == nil || hopeless) {
		out.turn.left--
	}
	if out.tag != nil && out.partition != nil && !out.partition.gone {
		o.sent = append(o.sent, wire.Sent{Tag: out.tag, Offset: out.offset, Err: out.err})
	}
}

// count adds n effects to those that are not answered yet.
func (s *partitionEffects) count(n int, final bool) {
	if s.unsent += n; !final {
		s.needed += n
	}
}

// allFinal says whether no input of partition p has to be decided again if what is not answered yet is lost.
func (o *outbox) allFinal(p int32) bool {
	s := o.partitions[p]
	return s == nil || s.needed == 0
}

// unsentOf is how many effects of partition p are not answered yet.
func (o *outbox) unsentOf(p int32) int {
	if s := o.partitions[p]; s != nil {
		return s.unsent
	}
	return 0
}

// takeSent hands out what the handler wants to know.
func (o *outbox) takeSent() []wire.Sent {
	s := o.sent
	o.sent = nil
	return s
}
