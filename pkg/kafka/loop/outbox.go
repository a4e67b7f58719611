package loop

import (
	"errors"
	"slices"
	"sync"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/wire"
)

// outbox publishes effects after their turn is committed, and knows how far
// that has come. It outlives a session: what is committed is sent, whoever owns
// the partition now. All but report is for the loop's goroutine.
type outbox struct {
	producer *write.Producer
	metrics  *loopMetrics
	shelves  map[int32]*shelf // of owned partitions
	unsent   int              // effects that are not answered yet
	sent     []wire.Sent      // for the handler's next turn

	mu       sync.Mutex
	outcomes []outcome
	news     chan struct{} // holds one: there are outcomes
}

// shelf is the effects of one partition for as long as this process has it.
//
// Kafka forgets nothing of a turn but its effects: the new owner sends again
// what follows from every record at or behind the cursor. So the cursor is the
// first record whose effects are not all acknowledged, and as long as it stays
// behind, doubles are the price; ahead, effects would be lost.
type shelf struct {
	open []*parcel // in the order of their turns
	next int64     // the offset behind the last turn's changes
	gone bool      // the partition is not ours any more, or ours anew
}

// parcel is the effects of one turn for one partition.
type parcel struct {
	offset int64 // of the turn's first change
	left   int   // effects that are not acknowledged
}

type outcome struct {
	shelf  *shelf
	parcel *parcel // nil: no cursor waits for it
	tag    any
	offset int64
	err    error
}

func newOutbox(p *write.Producer, m *loopMetrics) *outbox {
	return &outbox{producer: p, metrics: m, shelves: map[int32]*shelf{}, news: make(chan struct{}, 1)}
}

// gain begins partition p; everything before next is in the log.
func (o *outbox) gain(p int32, next int64) { o.shelves[p] = &shelf{next: next} }

// lose forgets partition p: what becomes of its effects is another's concern.
func (o *outbox) lose(p int32) {
	if s := o.shelves[p]; s != nil {
		s.gone = true
		delete(o.shelves, p)
	}
}

// cursor is what to commit with the position of p, before a turn is published.
func (o *outbox) cursor(p int32) int64 {
	s := o.shelves[p]
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
	parcels := map[int32]*parcel{}
	for p, s := range of {
		parcels[p] = &parcel{offset: s.first}
	}
	for _, e := range effects {
		if c := parcels[e.Partition]; c != nil {
			c.left++
		}
	}
	for p, c := range parcels {
		s := o.shelves[p]
		s.next = max(s.next, of[p].behind)
		if c.left > 0 {
			s.open = append(s.open, c)
		} else {
			moved = append(moved, p)
		}
	}
	for _, e := range effects {
		o.send(e, outcome{shelf: o.shelves[e.Partition], parcel: parcels[e.Partition], tag: e.Tag})
	}
	return moved
}

func (o *outbox) send(e wire.Effect, out outcome) {
	o.unsent++
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

// collect takes what was reported, and answers the partitions whose cursor moved.
func (o *outbox) collect() []int32 {
	o.mu.Lock()
	outcomes := o.outcomes
	o.outcomes = nil
	o.mu.Unlock()
	o.unsent -= len(outcomes)
	before := map[int32]int64{}
	for p := range o.shelves {
		before[p] = o.cursor(p)
	}
	for _, out := range outcomes {
		o.settle(out)
	}
	var moved []int32
	for p, s := range o.shelves {
		s.open = slices.DeleteFunc(s.open, func(c *parcel) bool { return c.left == 0 })
		if o.cursor(p) != before[p] {
			moved = append(moved, p)
		}
	}
	return moved
}

// settle counts an outcome. An effect whose topic is gone, or that no broker
// takes as it is, can never be sent. Any other failure keeps the cursor where it
// is: the next owner tries again.
func (o *outbox) settle(out outcome) {
	hopeless := errors.Is(out.err, wire.ErrNoTopic) || compute.KindOf(out.err) == compute.KindInvalid
	if out.parcel != nil && (out.err == nil || hopeless) {
		out.parcel.left--
	}
	if out.tag != nil && out.shelf != nil && !out.shelf.gone {
		o.sent = append(o.sent, wire.Sent{Tag: out.tag, Offset: out.offset, Err: out.err})
	}
}

// takeSent hands out what the handler wants to know.
func (o *outbox) takeSent() []wire.Sent {
	s := o.sent
	o.sent = nil
	return s
}
