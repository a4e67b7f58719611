// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"

	"github.com/berth-project/berth/pkg/lab"
)

// The classic experiment compares designs of schedulers by how many requests they
// must try again because another one was faster: a few hosts that take almost all
// they have room for at once, then many hosts and more than one conductor.

const (
	classicHosts = 3
	classicBoots = 31
	classicFill  = 0.9
)

// Published is what was published of another design. What is not known is zero.
type Published struct {
	Design     string  `json:"design"`
	Schedulers int     `json:"schedulers"`
	Requests   int     `json:"requests"`
	Retries    int     `json:"retries"`
	Retried    float64 `json:"retried"` // share of the requests
	// BlockedMS is how long a request waited for the state of the hosts, at least
	// and at most.
	BlockedMS [2]float64 `json:"blocked_ms"`
}

// ClassicPublished are the numbers of the shared-state scheduler's evaluation, of
// 31 requests for 3 hosts. Machines and load were others than any of a run here.
func ClassicPublished() []Published {
	database := [2]float64{355, 697}
	return []Published{
		{
			Design:     "shared state in a database",
			Schedulers: 1,
			Requests:   classicBoots,
			Retries:    7,
			Retried:    0.226,
			BlockedMS:  database,
		},
		{
			Design:     "shared state in a database",
			Schedulers: 4,
			Requests:   classicBoots,
			Retries:    16,
			Retried:    0.516,
			BlockedMS:  database,
		},
		{
			Design:    "shared state in memory",
			Requests:  classicBoots,
			Retries:   2,
			Retried:   0.065,
			BlockedMS: [2]float64{3, 3},
		},
	}
}

// Classic are the runs of the classic experiment, each on a cell of its own. o has
// the broker, and of the runs with many hosts how many those are, the rate, and
// how many boots; Count 0 is nine for each host.
func Classic(o Options) []Options {
	if o.Count == 0 {
		o.Count = 9 * o.Hosts
	}
	o.Fill, o.Partitions = classicFill, max(o.Partitions, 4)
	few := o
	few.Hosts, few.Count, few.Burst = classicHosts, classicBoots, classicBoots
	var runs []Options
	for _, n := range []int{1, 4} {
		few.Conductors = n
		runs = append(runs, few)
	}
	for _, n := range []int{1, 2, 4} {
		o.Conductors = n
		runs = append(runs, o)
	}
	return runs
}

// RunAll measures one after the other, and answers the results of those that came
// to their end. All are checked before the first begins; they have their defaults
// filled in.
func RunAll(ctx context.Context, runs []Options, p lab.Product) ([]Result, error) {
	for _, o := range runs {
		if err := o.Check(); err != nil {
			return nil, err
		}
		if _, _, _, err := plan(o.resolved()); err != nil {
			return nil, err
		}
		if _, err := raiseFiles(o); err != nil {
			return nil, err
		}
	}
	var results []Result
	for _, o := range runs {
		r, err := Run(ctx, o, p)
		if r.Boots > 0 {
			results = append(results, r)
		}
		if err != nil {
			return results, err
		}
	}
	return results, nil
}
