// SPDX-License-Identifier: Apache-2.0

package read

import (
	"context"
	"time"

	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
)

// caller waits in Sync for one partition, or for every one.
type caller struct {
	partition int32
	done      chan struct{}
}

// every stands for all partitions.
const every int32 = -1

// lateEnds is how long the ends of all partitions are waited for on behalf of a caller that wants to know one. One
// question for all is cheap, also for brokers that are slow; while one partition has no leader it has no answer.
const lateEnds = time.Second

// question asks where one partition ends, or every one, on behalf of all that wait for it.
type question struct {
	asked []caller  // they wait for its answer
	next  []caller  // callers that came while it was under way: its answer may be older than they are
	since time.Time // when it was asked; zero: it is not under way
}

// ends is the answer to a question.
type ends struct {
	partition int32
	at        map[int32]int64
	err       error // they cannot be known
}

// question is the one for a partition.
func (l *readLoop) question(p int32) *question {
	q := l.questions[p]
	if q == nil {
		q = &question{}
		l.questions[p] = q
	}
	return q
}

// wantEnd has a caller wait for the end of what it asks for. While the question for all is late, each partition is
// asked for by itself.
func (l *readLoop) wantEnd(ctx context.Context, c caller) {
	of := every
	if all := l.question(every); !all.since.IsZero() && time.Since(all.since) >= lateEnds {
		of = c.partition
	}
	q := l.question(of)
	q.next = append(q.next, c)
	l.askEnds(ctx, of)
}

// askEnds asks, if anybody waits and no question is under way.
func (l *readLoop) askEnds(ctx context.Context, p int32) {
	q := l.question(p)
	if !q.since.IsZero() || len(q.next) == 0 {
		return
	}
	q.asked, q.next, q.since = q.next, nil, time.Now()
	if p == every {
		l.lateEnds.Reset(lateEnds)
	}
	l.asking++
	go func() {
		e := ends{partition: p}
		if p == every {
			e.at, e.err = l.src.Persist(ctx, fetch.Latest)
		} else {
			var end int64
			end, e.err = l.src.End(ctx, p)
			e.at = map[int32]int64{p: end}
		}
		l.answeredEnds <- e
	}()
}

// splitEnds asks for each partition by itself, for those that wait for one only, if the question for all is late.
func (l *readLoop) splitEnds(ctx context.Context) {
	all := l.question(every)
	if all.since.IsZero() {
		return
	}
	for _, list := range []*[]caller{&all.asked, &all.next} {
		var stay []caller
		for _, c := range *list {
			if c.partition == every {
				stay = append(stay, c)
				continue
			}
			q := l.question(c.partition)
			q.next = append(q.next, c)
			l.askEnds(ctx, c.partition)
		}
		*list = stay
	}
}

// takeEnds lets the callers wait for the ends, each for what it asked for.
func (l *readLoop) takeEnds(ctx context.Context, e ends) error {
	l.asking--
	q := l.question(e.partition)
	waited := q.asked
	q.asked, q.since = nil, time.Time{}
	if ctx.Err() != nil {
		return nil
	}
	if e.err != nil {
		return l.r.classified(e.err)
	}
	byPartition := map[int32]target{}
	for _, c := range waited {
		t, ok := byPartition[c.partition]
		if !ok {
			t.ends = e.at
			if c.partition != every {
				t.ends = map[int32]int64{c.partition: e.at[c.partition]}
			}
		}
		t.done = append(t.done, c.done)
		byPartition[c.partition] = t
	}
	for _, t := range byPartition {
		l.targets = append(l.targets, t)
	}
	l.settle()
	l.askEnds(ctx, e.partition)
	return nil
}
