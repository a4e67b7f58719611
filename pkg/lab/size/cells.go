// SPDX-License-Identifier: Apache-2.0

package size

import (
	"math"
	"time"
)

// Cells is how many a cloud needs.
type Cells struct {
	Rate       float64 `json:"rate"`       // boots a second that all of them do
	Needed     int     `json:"needed"`     // the most of the others
	Processors int     `json:"processors"` // so that no broker and no conductor is busier than its limit
	Handles    int     `json:"handles"`
	Partitions int     `json:"partitions"`
	Each       *Result `json:"each"` // one of them at its share of the rate
}

// most cells that are tried.
const mostCells = 10_000

// window is how long a cell is watched at its share of the rate.
const window = 30 * time.Second

// Divide finds how many cells like o a cloud needs to do a rate.
func Divide(o Options, rate float64, say func(Progress) error) (Cells, error) {
	c := Cells{Rate: rate}
	c.Handles = least(o, func(b Broker) bool { return b.Handles <= o.Limits.Handles })
	c.Partitions = least(o, func(b Broker) bool { return b.Partitions <= o.Limits.Partitions })
	enough := func(n int) (Result, bool, error) {
		r, err := Run(o.cell(n, rate), say)
		return r, err == nil && r.within(o.Limits), err
	}
	low, n := 0, max(1, (o.Hosts+maxHosts-1)/maxHosts)
	for n <= mostCells { // up, until it is enough
		r, ok, err := enough(n)
		if err != nil {
			return c, err
		}
		if ok {
			c.Each = &r
			break
		}
		low, n = n, max(n+1, int(math.Ceil(float64(n)*min(2, r.load()/o.Limits.Busy))))
	}
	if c.Each == nil || n > o.Hosts {
		return c, nil // each alone is too much
	}
	for low+1 < n { // and down again
		mid := (low + n) / 2
		r, ok, err := enough(mid)
		if err != nil {
			return c, err
		}
		if ok {
			n, c.Each = mid, &r
		} else {
			low = mid
		}
	}
	c.Processors = n
	if c.Handles > 0 && c.Partitions > 0 {
		c.Needed = max(c.Processors, c.Handles, c.Partitions)
		if c.Needed > n {
			r, _, err := enough(c.Needed)
			c.Each = &r
			return c, err
		}
	}
	return c, nil
}

// cell is one of n, watched for a while in which its hosts do not fill up: clouds
// live by what is deleted.
func (o Options) cell(n int, rate float64) Options {
	size := o.size()
	o.Hosts, o.Projects = max(1, (o.Hosts+n-1)/n), max(1, o.Projects/n)
	o.Rate, o.Mode = rate/float64(n), Berth
	o.Requests, o.HostSize = max(100, int(o.Rate*window.Seconds())), 0
	o.HostSize = max(size, 2*o.size())
	return o
}

// least is the fewest cells whose brokers are all within; 0: there is no such number.
func least(o Options, within func(Broker) bool) int {
	for n := 1; n <= min(mostCells, o.Hosts); n++ {
		ok, one := true, o
		one.Hosts = (o.Hosts + n - 1) / n
		for b := range o.Brokers {
			ok = ok && within(one.uses(b))
		}
		if ok {
			return n
		}
	}
	return 0
}

// load is the busiest processors, those of a cell that waits for work too.
func (r Result) load() float64 {
	most := 0.0
	for _, b := range r.Brokers {
		most = max(most, b.Busy, b.Idle)
	}
	for _, c := range r.Conductors {
		most = max(most, c.Busy)
	}
	return most
}

// within says whether a cell keeps up, and is no busier than it may.
func (r Result) within(l Limits) bool {
	return r.Left == 0 && r.load() <= l.Busy && r.Seconds <= 2*max(float64(r.Requests)/r.Rate, 10)
}
