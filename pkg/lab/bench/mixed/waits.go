// SPDX-License-Identifier: Apache-2.0

package mixed

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Wait is what became of one boot until the end of what is measured.
type Wait struct {
	Size     int // in processors
	Priority compute.Priority
	Member   bool          // of a group
	Measured bool          // it came when that had begun
	Took     time.Duration // from accepted to granted, or until the end
	Waits    bool          // in the end still
}

// Row sums up the waits of boots that have something in common. Times are in seconds.
type Row struct {
	Size     int    `json:"size,omitempty"`     // in processors; 0: all
	Priority string `json:"priority,omitempty"` // empty: all
	Boots    int    `json:"boots"`              // that are measured
	// Quantiles of the time from accepted to granted, of measured boots; one that waits in the end counts with the time
	// that it has waited.
	P50 float64 `json:"p50_s"`
	P90 float64 `json:"p90_s"`
	P99 float64 `json:"p99_s"`
	Max float64 `json:"max_s"`
	// Of all boots, those before what is measured too:
	Waiting int     `json:"waiting"`  // in the end
	Oldest  float64 `json:"oldest_s"` // for how long the oldest of them has waited
}

// Rows are the waits by what boots have in common.
type Rows struct {
	Sizes   []Row `json:"sizes"`
	Classes []Row `json:"classes"`         // the highest first
	Each    []Row `json:"sizes_by_class"`  // the size first
	Members *Row  `json:"members"`         // of groups; nil: there are none
	Alone   *Row  `json:"in_no_group"`     // nil where there are no members
	All     Row   `json:"all_of_the_load"` // together
}

// SumUp makes the rows.
func SumUp(waits []Wait) Rows {
	type kind struct {
		size  int
		class compute.Priority
	}
	sizes, classes, each := map[int][]Wait{}, map[compute.Priority][]Wait{}, map[kind][]Wait{}
	var members, alone []Wait
	for _, w := range waits {
		sizes[w.Size] = append(sizes[w.Size], w)
		classes[w.Priority] = append(classes[w.Priority], w)
		each[kind{w.Size, w.Priority}] = append(each[kind{w.Size, w.Priority}], w)
		if w.Member {
			members = append(members, w)
		} else {
			alone = append(alone, w)
		}
	}
	r := Rows{All: rowOf(waits)}
	for size, of := range sizes {
		row := rowOf(of)
		row.Size = size
		r.Sizes = append(r.Sizes, row)
	}
	for class, of := range classes {
		row := rowOf(of)
		row.Priority = class.String()
		r.Classes = append(r.Classes, row)
	}
	for k, of := range each {
		row := rowOf(of)
		row.Size, row.Priority = k.size, k.class.String()
		r.Each = append(r.Each, row)
	}
	for _, rows := range [][]Row{r.Sizes, r.Classes, r.Each} {
		slices.SortFunc(rows, func(a, b Row) int {
			return cmp.Or(cmp.Compare(a.Size, b.Size), cmp.Compare(order(a.Priority), order(b.Priority)))
		})
	}
	if len(members) > 0 {
		m, a := rowOf(members), rowOf(alone)
		r.Members, r.Alone = &m, &a
	}
	return r
}

// order is the place of a class among all, the highest first.
func order(class string) int {
	return slices.IndexFunc(compute.Priorities(), func(p compute.Priority) bool { return p.String() == class })
}

func rowOf(waits []Wait) (r Row) {
	var took []float64
	for _, w := range waits {
		s := max(0, w.Took.Seconds())
		if w.Measured {
			took = append(took, s)
		}
		if w.Waits {
			r.Waiting, r.Oldest = r.Waiting+1, max(r.Oldest, s)
		}
	}
	r.Boots, r.Oldest = len(took), millis(r.Oldest)
	if len(took) == 0 {
		return r
	}
	slices.Sort(took)
	// The p-th is the smallest that p in a hundred do not exceed.
	at := func(p float64) float64 { return millis(took[max(int(math.Ceil(p/100*float64(len(took))))-1, 0)]) }
	r.P50, r.P90, r.P99, r.Max = at(50), at(90), at(99), at(100)
	return r
}

// millis is a time in seconds, to the millisecond.
func millis(s float64) float64 { return math.Round(s*1000) / 1000 }
