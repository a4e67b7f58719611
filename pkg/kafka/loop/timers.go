// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"time"

	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
)

// timers lets the handler's timers fire, but only behind the inputs: when one
// is due, the ends of the inputs are asked for, and the handler may go by the
// time of that question once everything up to those ends has been handed over.
// What was in the log by then has so been heard first. Each leader is asked by
// itself: one that does not answer holds up what it leads, and nothing else.
type timers struct {
	in      *inputs
	gap     time.Duration
	wake    time.Time            // when the handler's next timer is due; zero: none
	asked   time.Time            // when the last question began
	open    map[int32]*timerEnds // partitions of which not all is answered
	ends    map[int32]*timerEnds // partitions that have an answer and are not there yet
	away    int                  // questions that are not answered
	answers chan timerAnswer
}

// timerEnds is where the inputs of a partition ended at a time.
type timerEnds struct {
	partition int32
	at        time.Time
	from      [inputTopics]int64 // the positions then
	ends      [inputTopics]int64
	left      int // topics that are not answered
}

// timerAnswer is what one leader said of one topic.
type timerAnswer struct {
	topic int
	of    []*timerEnds
	ends  map[int32]int64
}

func newTimers(in *inputs, gap time.Duration) *timers {
	return &timers{
		in: in, gap: gap, open: map[int32]*timerEnds{}, ends: map[int32]*timerEnds{}, answers: make(chan timerAnswer),
	}
}

// due is when the ends should be asked for next; zero: nothing waits for it.
func (t *timers) due() time.Time {
	if next := t.asked.Add(t.gap); !t.wake.IsZero() && t.wake.Before(next) {
		return next
	}
	return t.wake
}

// ask asks for the ends of partitions that have no answer waiting: a newer one
// would move the goal of those that are behind further away.
func (t *timers) ask(ctx context.Context, now time.Time, owned map[int32]*ownedPartition) {
	t.asked = now
	var questions [inputTopics]map[int32][]*timerEnds // by leader
	for p, o := range owned {
		if !o.ready || t.open[p] != nil || t.ends[p] != nil {
			continue
		}
		e := &timerEnds{partition: p, at: now, from: t.in.at(p), left: inputTopics}
		t.open[p] = e
		for topic := range questions {
			if questions[topic] == nil {
				questions[topic] = map[int32][]*timerEnds{}
			}
			broker := t.in.views[topic].Leaders[p].Broker
			questions[topic][broker] = append(questions[topic][broker], e)
		}
	}
	for topic, by := range questions {
		for _, of := range by {
			t.question(ctx, timerAnswer{topic: topic, of: of})
		}
	}
}

func (t *timers) question(ctx context.Context, a timerAnswer) {
	t.away++
	s, v := t.in.sources[a.topic], t.in.views[a.topic]
	var partitions []int32
	for _, e := range a.of {
		partitions = append(partitions, e.partition)
	}
	go func() {
		a.ends, _ = s.Offsets(ctx, v, partitions, fetch.Latest) // a partition's own fetches find out what is wrong
		t.answers <- a
	}()
}

// answered takes an answer. A partition without one is asked for again in its time. An end before the position is no
// answer: there is nothing that this position is behind.
func (t *timers) answered(a timerAnswer) {
	t.away--
	for _, e := range a.of {
		p := e.partition
		if t.open[p] != e {
			continue // it was lost since, or the other topic's leader did not answer
		}
		end, told := a.ends[p]
		if !told || end < e.from[a.topic] {
			delete(t.open, p)
			continue
		}
		e.ends[a.topic] = end
		if e.left--; e.left == 0 {
			delete(t.open, p)
			t.ends[p] = e
		}
	}
}

// reached answers the partitions with inputs that have been taken up to their ends.
func (t *timers) reached() map[int32]time.Time {
	var until map[int32]time.Time
	for p, e := range t.ends {
		if t.in.parked[p] || t.in.beyondEnd(p) {
			continue
		}
		at := t.in.at(p)
		if at[requests] < e.ends[requests] || at[reports] < e.ends[reports] {
			continue
		}
		if until == nil {
			until = map[int32]time.Time{}
		}
		until[p] = e.at
	}
	return until
}

// fired forgets the answers that were handed over.
func (t *timers) fired(until map[int32]time.Time) {
	for p := range until {
		delete(t.ends, p)
	}
}

// lose forgets partition p.
func (t *timers) lose(p int32) {
	delete(t.open, p)
	delete(t.ends, p)
}

// drain waits for the goroutines, which end because their context has.
func (t *timers) drain() {
	for ; t.away > 0; t.away-- {
		<-t.answers
	}
}
