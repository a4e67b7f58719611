// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"container/heap"
	"slices"
	"sort"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/sorted"
)

// Paging is how a caller walks through a list. What exists throughout a walk on
// one node is seen exactly once, whatever comes and goes meanwhile: a marker is a
// place in the order of the list, not a number of entries. It is good on every
// node, but two of them may order one instance differently (docs/decisions/0014).
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"500" doc:"Most entries in one answer."`
	Marker string `query:"marker" doc:"The next of the page before: the list goes on behind it. Nothing else is promised about it."`
}

// projectPage asks for a page of what a project has.
type projectPage struct {
	Project compute.Project `query:"project" doc:"Left out, \"default\"."`
	Paging
}

// pageOfNames is a page of a list that is ordered by names, without doubles, and the
// marker of the next page if there is one. all must be sorted.
func pageOfNames[T any, N ~string](p Paging, all []T, name func(T) N) (page []T, next string) {
	from := sort.Search(len(all), func(i int) bool { return p.Marker == "" || string(name(all[i])) > p.Marker })
	page = all[from:]
	if len(page) > p.Limit {
		page = page[:p.Limit]
		next = string(name(page[p.Limit-1]))
	}
	return page, next
}

// pageAfter is the page of a list in the order of its names that begins behind
// the marker, and the marker of the next page if there is one: of what is wanted, or of all. It looks at what is
// on the page, at what is not wanted in between, and at no more than a search for its beginning takes.
func pageAfter[T any, N ~string](
	p Paging, list *sorted.List[T], name func(T) N, wanted func(T) bool,
) (page []T, next string) {
	for item := range list.From(func(t T) bool { return p.Marker != "" && string(name(t)) <= p.Marker }) {
		if wanted != nil && !wanted(item) {
			continue
		}
		if len(page) == p.Limit {
			return page, string(name(page[p.Limit-1]))
		}
		page = append(page, item)
	}
	return page, ""
}

// smallest is the n smallest, in order. It does not sort the others, of which a
// large project has many.
func smallest[T any](n int, all []T, compare func(a, b T) int) []T {
	if len(all) <= n {
		slices.SortFunc(all, compare)
		return all
	}
	kept := &maxHeap[T]{items: slices.Clone(all[:n]), compare: compare}
	heap.Init(kept)
	for _, item := range all[n:] {
		if compare(item, kept.items[0]) < 0 {
			kept.items[0] = item
			heap.Fix(kept, 0)
		}
	}
	slices.SortFunc(kept.items, compare)
	return kept.items
}

// maxHeap is a heap whose first item is the next to go.
type maxHeap[T any] struct {
	items   []T
	compare func(a, b T) int
}

func (h *maxHeap[T]) Len() int           { return len(h.items) }
func (h *maxHeap[T]) Less(i, j int) bool { return h.compare(h.items[i], h.items[j]) > 0 }
func (h *maxHeap[T]) Swap(i, j int)      { h.items[i], h.items[j] = h.items[j], h.items[i] }
func (h *maxHeap[T]) Push(any)           { panic("never grows") }
func (h *maxHeap[T]) Pop() any           { panic("never shrinks") }

// cursor is a place in a list of instances: behind one asked for then, with that
// id. The zero cursor is before the first.
type cursor struct {
	since int64 // nanoseconds since 1970
	id    string
}

func (c cursor) compare(other cursor) int {
	return cmp.Or(cmp.Compare(c.since, other.since), cmp.Compare(c.id, other.id))
}
