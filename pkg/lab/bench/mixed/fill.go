// SPDX-License-Identifier: Apache-2.0

package mixed

import (
	"cmp"
	"slices"
	"time"
)

// Change is a machine that begins or ends to run.
type Change struct {
	At         time.Time
	Processors int // less than zero: it ends
}

// Fill is how much of the hosts' processors machines that ran had over a time: 1 is all.
type Fill struct {
	Mean float64 `json:"mean"`
	P10  float64 `json:"p10"` // a tenth of the time it was this or less
}

// Offered is how full these boots would keep the hosts of a load, while it is measured, if none had to wait and hosts had
// room for all: by chance more or less than the load's Fill.
func (l Load) Offered(arrivals []Arrival) Fill {
	var start time.Time
	var all []Change
	for _, a := range arrivals {
		n := l.Sizes[a.Size]
		all = append(all, Change{start.Add(a.At), n}, Change{start.Add(a.At + a.Life), -n})
	}
	return FillOver(all, start.Add(l.From()), start.Add(l.Until()), l.Processors())
}

// FillOver sums up changes, from the first machine on, over the time from one moment to another.
func FillOver(changes []Change, from, until time.Time, processors int) Fill {
	changes = slices.Clone(changes)
	slices.SortStableFunc(changes, func(a, b Change) int { return a.At.Compare(b.At) })
	type level struct {
		used int
		took time.Duration
	}
	var levels []level
	used, since := 0, from
	pass := func(to time.Time) {
		if took := to.Sub(since); took > 0 {
			levels, since = append(levels, level{used, took}), to
		}
	}
	for _, c := range changes {
		if !c.At.Before(until) {
			break
		}
		pass(c.At)
		used += c.Processors
	}
	pass(until)
	slices.SortFunc(levels, func(a, b level) int { return cmp.Compare(a.used, b.used) })
	all, sum := until.Sub(from), 0.0
	if all <= 0 || processors == 0 {
		return Fill{}
	}
	f, low, passed := Fill{}, -1, time.Duration(0)
	for _, x := range levels {
		sum += float64(x.used) * float64(x.took)
		if passed += x.took; low < 0 && passed*10 >= all {
			low = x.used
		}
	}
	f.Mean, f.P10 = sum/float64(all)/float64(processors), float64(max(low, 0))/float64(processors)
	return f
}
