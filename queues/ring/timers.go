// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"container/heap"
	"slices"
	"time"
)

// timer says that a queue is to be looked at. One that is not at its queue's next is
// left over from before, and void.
type timer struct {
	at    time.Time
	queue *queue
}

func (t timer) valid() bool { return t.at.Equal(t.queue.next) }

// schedule has a queue looked at at a time, or sooner.
func (r *Ringer) schedule(q *queue, when time.Time) {
	if q.next.IsZero() || when.Before(q.next) {
		q.next = when
		if len(r.timers) > 2*len(r.queues)+fewTimers {
			r.dropVoid()
		}
		heap.Push(&r.timers, timer{when, q})
	}
}

// fewTimers are so few that it is not worth while to look for void ones among them.
const fewTimers = 64

// dropVoid drops the timers that are void. A queue manager that stands by hears of work all
// the time and never asks for rings, which would take them out.
func (r *Ringer) dropVoid() {
	r.timers = slices.DeleteFunc(r.timers, func(t timer) bool { return !t.valid() })
	heap.Init(&r.timers)
}

// timers are a heap, the first one first.
type timers []timer

func (t timers) Len() int { return len(t) }

func (t timers) Less(i, j int) bool {
	if c := t[i].at.Compare(t[j].at); c != 0 {
		return c < 0
	}
	return t[i].queue.name < t[j].queue.name
}

func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

func (t *timers) Push(x any) { *t = append(*t, x.(timer)) }

func (t *timers) Pop() any {
	last := len(*t) - 1
	x := (*t)[last]
	*t = (*t)[:last]
	return x
}
