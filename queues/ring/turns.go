// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"container/heap"
	"slices"
	"time"
)

// turn says that a queue is to be looked at. One that is not at its queue's next is
// left over from before, and void.
type turn struct {
	at    time.Time
	queue *queue
}

func (t turn) valid() bool { return t.at.Equal(t.queue.next) }

// at has a queue looked at at a time, or sooner.
func (r *Ringer) at(q *queue, when time.Time) {
	if q.next.IsZero() || when.Before(q.next) {
		q.next = when
		if len(r.turns) > 2*len(r.queues)+fewTurns {
			r.tidy()
		}
		heap.Push(&r.turns, turn{when, q})
	}
}

// fewTurns are so few that it is not worth while to look for void ones among them.
const fewTurns = 64

// tidy drops the turns that are void. A queue manager that stands by hears of work all
// the time and never asks for rings, which would take them out.
func (r *Ringer) tidy() {
	r.turns = slices.DeleteFunc(r.turns, func(t turn) bool { return !t.valid() })
	heap.Init(&r.turns)
}

// turns are a heap, the first one first.
type turns []turn

func (t turns) Len() int { return len(t) }

func (t turns) Less(i, j int) bool {
	if c := t[i].at.Compare(t[j].at); c != 0 {
		return c < 0
	}
	return t[i].queue.name < t[j].queue.name
}

func (t turns) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

func (t *turns) Push(x any) { *t = append(*t, x.(turn)) }

func (t *turns) Pop() any {
	last := len(*t) - 1
	x := (*t)[last]
	*t = (*t)[:last]
	return x
}
