package ring

import (
	"container/heap"
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
		heap.Push(&r.turns, turn{when, q})
	}
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
