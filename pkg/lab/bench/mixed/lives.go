// SPDX-License-Identifier: Apache-2.0

package mixed

import (
	"container/heap"
	"time"
)

// Lives are machines and when each is to end. The zero value has none.
type Lives[T any] struct{ ends ends[T] }

// Add has a machine end at a moment.
func (l *Lives[T]) Add(machine T, at time.Time) { heap.Push(&l.ends, end[T]{machine, at}) }

// Ended takes out those that end at a moment or before, in their order.
func (l *Lives[T]) Ended(now time.Time) (out []T) {
	for len(l.ends) > 0 && !l.ends[0].at.After(now) {
		out = append(out, heap.Pop(&l.ends).(end[T]).machine)
	}
	return out
}

// All takes out all.
func (l *Lives[T]) All() (out []T) {
	for len(l.ends) > 0 {
		out = append(out, heap.Pop(&l.ends).(end[T]).machine)
	}
	return out
}

// Next is when the next one ends; zero: there is none.
func (l *Lives[T]) Next() time.Time {
	if len(l.ends) == 0 {
		return time.Time{}
	}
	return l.ends[0].at
}

type end[T any] struct {
	machine T
	at      time.Time
}

type ends[T any] []end[T]

func (e ends[T]) Len() int           { return len(e) }
func (e ends[T]) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e ends[T]) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends[T]) Push(x any)        { *e = append(*e, x.(end[T])) }
func (e *ends[T]) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}
