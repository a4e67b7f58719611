// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/wire"
)

// plan is a partition as its writers left it: a few producers, each with one
// transaction at a time, spans of several records, some undone, some records
// removed by compaction, and one transaction perhaps still open.
type plan struct {
	spans   []Span
	aborted []Aborted
	stable  int64
	highest int64
	want    []int64 // offsets that a reader of committed records sees
}

func anyPlan(t *rapid.T) plan {
	var p plan
	begun := map[int64]int64{}  // producer: first offset of its open transaction
	held := map[int64][]int64{} // what it wrote since
	for range rapid.IntRange(0, 40).Draw(t, "spans") {
		producer := rapid.Int64Range(1, 3).Draw(t, "producer")
		if _, open := begun[producer]; open && rapid.Bool().Draw(t, "ends") {
			abort := rapid.Bool().Draw(t, "aborts")
			if abort {
				p.aborted = append(p.aborted, Aborted{producer, begun[producer]})
			} else {
				p.want = append(p.want, held[producer]...)
			}
			delete(begun, producer)
			delete(held, producer)
			p.spans = append(p.spans, Span{
				First: p.highest, Last: p.highest, Producer: producer, Transactional: true, Marker: true,
				Abort: abort, Records: []wire.Record{{Offset: p.highest}},
			})
			p.highest++
			continue
		}
		s := Span{First: p.highest, Producer: producer, Transactional: true}
		if _, open := begun[producer]; !open {
			begun[producer] = p.highest
		}
		for range rapid.IntRange(1, 5).Draw(t, "records") {
			if rapid.IntRange(0, 3).Draw(t, "kept") > 0 {
				s.Records = append(s.Records, wire.Record{Offset: p.highest})
				held[producer] = append(held[producer], p.highest)
			}
			p.highest++
		}
		s.Last = p.highest - 1
		if len(s.Records) > 0 || rapid.Bool().Draw(t, "kept without records") {
			p.spans = append(p.spans, s)
		}
	}
	p.stable = p.highest
	for _, first := range begun {
		p.stable = min(p.stable, first)
	}
	slices.Sort(p.want)
	p.want = slices.DeleteFunc(p.want, func(o int64) bool { return o >= p.stable })
	return p
}

// client is what a client makes of an answer.
type client struct {
	tells bool // where spans end
	hides bool // spans without records, and so does not know of an empty answer
}

// answer is what a broker says: from the span that has the offset on, some
// spans, never none if there is one; unless others had their turn.
func (p plan) answer(t *rapid.T, from int64, alone bool, through client) Part {
	part := Part{Highest: p.highest, Stable: p.stable}
	generous := rapid.Bool().Draw(t, "also what is not decided")
	part.Empty = !through.hides
	if !alone && rapid.IntRange(0, 3).Draw(t, "turn of others") == 0 {
		return part
	}
	for _, s := range p.spans {
		if s.Last < from || s.First >= p.stable && !generous {
			continue
		}
		part.Empty = false
		if !through.tells {
			s.Last = -1
		}
		if len(s.Records) > 0 || !through.hides {
			part.Spans = append(part.Spans, s)
		}
		if rapid.Bool().Draw(t, "full") {
			break
		}
	}
	for _, a := range p.aborted {
		if rapid.Bool().Draw(t, "in order") {
			part.Aborted = append(part.Aborted, a)
		} else {
			part.Aborted = slices.Insert(part.Aborted, 0, a)
		}
	}
	// A broker lists only what overlaps the answer.
	part.Aborted = slices.DeleteFunc(part.Aborted, func(a Aborted) bool { return p.endOf(a) < from })
	return part
}

func (p plan) endOf(a Aborted) int64 {
	for _, s := range p.spans {
		if s.Marker && s.Producer == a.Producer && s.First > a.First {
			return s.First
		}
	}
	return p.highest
}

// Whatever the log, and however it is cut into answers, a reader gets exactly
// what was committed, once, in order, and reaches the end.
func TestCommittedAndNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPlan(t)
		through := client{
			tells: rapid.Bool().Draw(t, "the client tells where spans end"),
			hides: rapid.Bool().Draw(t, "the client hides spans without records"),
		}
		c := newCursor(0)
		var got []int64
		for asks := 0; !c.atEnd(); asks++ {
			if asks > 1000 {
				t.Fatalf("stuck at %d of %d", c.next, p.stable)
			}
			alone := c.alone || rapid.Bool().Draw(t, "alone")
			if rapid.IntRange(0, 3).Draw(t, "a leader came") == 0 {
				c.doubt()
			}
			before, part := c.next, p.answer(t, c.from(), alone, through)
			if at := c.parted(part); at >= 0 {
				t.Fatalf("the log was taken for another one from %d on: %+v", at, part)
			}
			for _, r := range c.advance(part, alone) {
				got = append(got, r.Offset)
			}
			if c.next < before {
				t.Fatalf("from %d back to %d", before, c.next)
			}
		}
		if diff := cmp.Diff(p.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("-committed +seen:\n%s", diff)
		}
		if c.caughtUp() != (p.stable == p.highest) {
			t.Fatalf("caught up: %v, with an open transaction: %v", c.caughtUp(), p.stable < p.highest)
		}
	})
}

// An answer about several partitions in which the turn of one did not come compares nothing of it: what was read last
// is asked for again, alone, until an answer has it or nothing of it.
func TestAnAnswerThatComparesNothing(t *testing.T) {
	read := func() *cursor {
		c := newCursor(0)
		c.advance(holds(0, 1, 2, 3), false)
		c.doubt()
		return c
	}
	none := Part{Highest: 3, Stable: 3, Empty: true}
	before := holds(0, 1)
	before.Highest, before.Stable = 3, 3
	for name, part := range map[string]Part{"nothing": none, "what lies before": before} {
		c := read()
		c.advance(part, false)
		if c.from() != 2 || !c.alone {
			t.Errorf("after %s: asked for from %d on, alone: %v", name, c.from(), c.alone)
		}
		if at := c.parted(holds(2, 9)); at != 2 {
			t.Errorf("after %s: another record is taken for the one that was read: %d", name, at)
		}
		if c.advance(none, true); c.from() != 3 || c.alone {
			t.Errorf("after %s, and an answer about it alone: asked for from %d on, alone: %v", name, c.from(), c.alone)
		}
	}
	for name, part := range map[string]Part{"the record": holds(2, 3), "what lies behind": holds(3, 4)} {
		c := read()
		c.advance(part, false)
		if c.from() != part.Stable || c.alone {
			t.Errorf("after %s: asked for from %d on, alone: %v", name, c.from(), c.alone)
		}
	}
}
