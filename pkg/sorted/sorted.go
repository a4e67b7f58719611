// SPDX-License-Identifier: Apache-2.0

// Package sorted keeps many things in order while they come and go, so that a
// few of them, or how many there are before one, can be found without looking
// at the others. It has orders that Go lacks, too.
package sorted

import (
	"iter"
	"slices"
	"sort"
)

// most is the length of a run at which it is cut in two.
const most = 512

// List is in the order of its compare function, which must not change for what
// is in it; items that compare equal are one. Adding, removing and finding take
// O(log n) comparisons and move at most a run, and the list of runs where one
// begins or ends. It is not safe for concurrent use.
type List[T any] struct {
	compare func(a, b T) int
	runs    [][]T // none is empty
	n       int
}

// New is an empty list.
func New[T any](compare func(a, b T) int) *List[T] { return &List[T]{compare: compare} }

// Len is how many there are. A nil list is empty.
func (l *List[T]) Len() int {
	if l == nil {
		return 0
	}
	return l.n
}

// Add puts an item in, in the place of one that compares equal.
func (l *List[T]) Add(item T) {
	r, i := l.find(func(other T) bool { return l.compare(other, item) < 0 })
	switch {
	case r < len(l.runs) && l.compare(l.runs[r][i], item) == 0:
		l.runs[r][i] = item
		return
	case r == len(l.runs) && (r == 0 || len(l.runs[r-1]) == most):
		l.runs = append(l.runs, nil)
	case r == len(l.runs):
		r, i = r-1, len(l.runs[r-1])
	}
	l.n++
	if l.runs[r] = slices.Insert(l.runs[r], i, item); len(l.runs[r]) > most {
		right := slices.Clone(l.runs[r][most/2:])
		l.runs[r] = slices.Delete(l.runs[r], most/2, len(l.runs[r]))
		l.runs = slices.Insert(l.runs, r+1, right)
	}
}

// Remove takes an item out; one that is not in changes nothing.
func (l *List[T]) Remove(item T) {
	r, i := l.find(func(other T) bool { return l.compare(other, item) < 0 })
	if r == len(l.runs) || l.compare(l.runs[r][i], item) != 0 {
		return
	}
	l.n--
	if l.runs[r] = slices.Delete(l.runs[r], i, i+1); len(l.runs[r]) == 0 {
		l.runs = slices.Delete(l.runs, r, r+1)
	}
}

// Count is how many come before the first for which before is false. From there
// on it must be false for all.
func (l *List[T]) Count(before func(T) bool) int {
	if l == nil {
		return 0
	}
	r, n := l.find(before)
	for _, run := range l.runs[:r] {
		n += len(run)
	}
	return n
}

// First is what comes before all others; false: there is nothing.
func (l *List[T]) First() (first T, ok bool) {
	if l.Len() == 0 {
		return first, false
	}
	return l.runs[0][0], true
}

// From is what comes after those for which before is true, in order; nil for
// before is all. The list must not change meanwhile.
func (l *List[T]) From(before func(T) bool) iter.Seq[T] {
	return func(yield func(T) bool) {
		if l == nil {
			return
		}
		r, i := 0, 0
		if before != nil {
			r, i = l.find(before)
		}
		for ; r < len(l.runs); r, i = r+1, 0 {
			for _, item := range l.runs[r][i:] {
				if !yield(item) {
					return
				}
			}
		}
	}
}

// find is the place of the first item for which before is false: its run, and
// where in it; behind the last run if there is none.
func (l *List[T]) find(before func(T) bool) (run, at int) {
	run = sort.Search(len(l.runs), func(r int) bool { return !before(l.runs[r][len(l.runs[r])-1]) })
	if run == len(l.runs) {
		return run, 0
	}
	return run, sort.Search(len(l.runs[run]), func(i int) bool { return !before(l.runs[run][i]) })
}
