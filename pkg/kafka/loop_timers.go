package kafka

import (
	"context"
	"time"
)

// timers lets the handler's timers fire, but only behind the inputs: when one
// is due, the ends of the inputs are asked for, and the handler may go by the
// time of that question once everything up to those ends has been handed over.
// What was in the log by then has so been heard first.
type timers struct {
	in     *inputs
	gap    time.Duration
	wake   time.Time // when the handler's next timer is due; zero: none
	asked  time.Time // when the last question began
	asking bool
	ends   map[int32]timerEnds // partitions that have an answer and are not there yet
	heard  chan timerAnswer
}

// timerEnds is where the inputs of a partition ended at a time.
type timerEnds struct {
	at   time.Time
	ends [inputTopics]int64
}

// timerAnswer is the ends of all partitions that were asked for.
type timerAnswer struct {
	at   time.Time
	of   []*ownedPartition
	ends [inputTopics]map[int32]int64
	err  error
}

func newTimers(in *inputs, gap time.Duration) *timers {
	return &timers{in: in, gap: gap, ends: map[int32]timerEnds{}, heard: make(chan timerAnswer)}
}

// due is when the ends should be asked for next; zero: nothing waits for it.
func (t *timers) due() time.Time {
	if t.wake.IsZero() || t.asking {
		return time.Time{}
	}
	if next := t.asked.Add(t.gap); t.wake.Before(next) {
		return next
	}
	return t.wake
}

// ask asks for the ends of partitions that have no answer waiting: a newer one
// would move the goal of those that are behind further away.
func (t *timers) ask(ctx context.Context, now time.Time, owned map[int32]*ownedPartition) {
	a := timerAnswer{at: now}
	var ids []int32
	for p, o := range owned {
		if _, waits := t.ends[p]; o.ready && !waits {
			a.of = append(a.of, o)
			ids = append(ids, p)
		}
	}
	t.asked = now
	if len(ids) == 0 {
		return
	}
	t.asking = true
	views := t.in.views
	go func() {
		for topic, s := range t.in.sources {
			if a.err == nil {
				a.ends[topic], a.err = s.offsets(ctx, views[topic], ids, latest)
			}
		}
		t.heard <- a
	}()
}

// hear takes an answer. Without one the question is asked again in its time;
// the partitions' own fetches find out what is wrong.
func (t *timers) hear(a timerAnswer, owned map[int32]*ownedPartition) {
	t.asking = false
	if a.err != nil {
		return
	}
	for _, o := range a.of {
		if owned[o.id] == o {
			t.ends[o.id] = timerEnds{a.at, [inputTopics]int64{a.ends[requests][o.id], a.ends[reports][o.id]}}
		}
	}
}

// reached answers the partitions whose inputs have been taken up to their ends.
func (t *timers) reached() map[int32]time.Time {
	var until map[int32]time.Time
	for p, e := range t.ends {
		if t.in.parked[p] {
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
func (t *timers) lose(p int32) { delete(t.ends, p) }

// drain waits for the goroutine, which ends because its context has.
func (t *timers) drain() {
	if t.asking {
		<-t.heard
		t.asking = false
	}
}
