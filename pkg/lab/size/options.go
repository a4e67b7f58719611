// SPDX-License-Identifier: Apache-2.0

package size

import (
	"fmt"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/queues/advise"
	"github.com/berth-project/berth/queues/save"
)

// Mode is how much of Berth there is.
type Mode uint8

// The modes. The last two are what the tables of costs were measured with.
const (
	Berth  Mode = iota
	Floor       // the records of a boot: fixed waiters, no advice, beacons, journals
	Claims      // records in queues, fetched and acknowledged, and nothing else
)

// Options are a cloud and what is asked of it. DefaultOptions has all of them.
type Options struct {
	Mode       Mode
	Seed       uint64
	Hosts      int
	Requests   int
	Rate       float64 // requests a second; 0: all are in the log when it begins
	Burst      int     // of them that are due at once
	Queues     int
	Partitions int // of requests, reports and instances
	Projects   int

	Brokers     int
	Processors  float64 // of each broker
	Replication int
	Conductors  int
	Shared      bool // clients and conductors run on the first broker's processors, as on a bench

	HostSize int             // processors a host has for machines; 0: what the run needs and a quarter more
	Sizes    []int           // of machines, in processors; queue i is for the i-th of them, again and again
	Slots    int             // builds a host has under way
	Weigher  compute.Weigher // which hosts wait more often
	Waiters  int             // hosts that wait on each queue, always the same ones; 0: by lot
	Prepare  time.Duration   // of a machine
	Launch   time.Duration   // of a machine
	Journal  time.Duration   // until a disk has what was taken
	Life     time.Duration   // how long machines run, in the mean of an exponential distribution; 0: for ever
	Savings  save.Rules      // of hosts that save room for large work; After 0: none does

	Wait     time.Duration // how long an open fetch is held
	Pace     time.Duration // how often a host hears advice
	Beacon   time.Duration // how often it says that it lives
	Apart    time.Duration // least time between two beacons
	Patience time.Duration // how long a report that nobody waits for waits for company
	Hop      time.Duration // a message's way through the network
	Turn     int           // inputs of each kind that a turn takes at most
	Advice   advise.Rules

	Costs  Costs
	Limits Limits
	Stall  time.Duration // nothing granted for so long: what is left has no room
}

// Limits are what a cell may use of a broker.
type Limits struct {
	Busy       float64 `json:"busy"`       // share of its processors
	Handles    int     `json:"handles"`    // open files and connections
	Partitions int     `json:"partitions"` // replicas
}

// warm is how long hosts are there before the first request.
const warm = 20 * time.Second

// DefaultOptions is the product as it is, on three brokers of eight processors.
func DefaultOptions() Options {
	savings := save.DefaultRules()
	savings.After = 0
	return Options{
		Savings: savings,
		Seed:    1, Hosts: 1000, Requests: 10_000, Burst: 1, Queues: 100, Partitions: 12, Projects: 1000,
		Brokers: 3, Processors: 8, Replication: 3, Conductors: 3,
		Sizes: []int{1}, Slots: 4, Journal: 2 * time.Millisecond,
		Wait: 5 * time.Second, Pace: 4 * time.Second, Beacon: 15 * time.Second, Apart: 5 * time.Second,
		Patience: 20 * time.Millisecond, Hop: 100 * time.Microsecond, Turn: 500, Advice: advise.DefaultRules(),
		Costs: DefaultCosts(), Limits: Limits{Busy: 0.7, Handles: 100_000, Partitions: 32_000}, Stall: 2 * time.Minute,
	}
}

// The most that is simulated: what four gigabytes hold.
const (
	maxHosts    = 200_000
	maxRequests = 5_000_000
	maxPairs    = 100_000_000 // hosts × queues
)

// Check refuses what cannot be simulated.
func (o Options) Check() error {
	for _, c := range []struct {
		name      string
		n         float64
		low, high float64
	}{
		{"hosts", float64(o.Hosts), 1, maxHosts}, {"requests", float64(o.Requests), 1, maxRequests},
		{"rate", o.Rate, 0, 1e6},
		{"queues", float64(o.Queues), 1, 20_000}, {"partitions", float64(o.Partitions), 1, 1000},
		{"projects", float64(o.Projects), 1, 1e6},
		{"brokers", float64(o.Brokers), 1, 100}, {"processors", o.Processors, 0.1, 1024},
		{"replication", float64(o.Replication), 1, float64(max(1, o.Brokers))},
		{"conductors", float64(o.Conductors), 1, float64(max(1, o.Partitions))},
		{"host-size", float64(o.HostSize), 0, 1e6}, {"slots", float64(o.Slots), 1, 1000},
		{"fetch-wait", o.Wait.Seconds(), 0.1, 60}, {"advice-pace", o.Pace.Seconds(), 0.1, 60},
		{"beacon", o.Beacon.Seconds(), 1, 600},
		{"prepare-time", o.Prepare.Seconds(), 0, 3600}, {"launch-time", o.Launch.Seconds(), 0, 3600},
		{"life", o.Life.Seconds(), 0, 1e6}, {"save-after", o.Savings.After.Seconds(), 0, 1e6},
		{"save-for", o.Savings.For.Seconds(), 1, 86_400}, {"save-share", float64(o.Savings.Share), 1, 1e6},
		{"hop", o.Hop.Seconds(), 0, 1},
		{"busy", o.Limits.Busy, 0.01, 1}, {"handles", float64(o.Limits.Handles), 1, 1e9},
		{"partitions-limit", float64(o.Limits.Partitions), 1, 1e9},
	} {
		if !(c.n >= c.low && c.n <= c.high) {
			return compute.Invalid(c.name, fmt.Sprint(c.n), fmt.Sprintf("give %v to %v", c.low, c.high))
		}
	}
	if o.Hosts*o.Queues > maxPairs {
		return compute.Invalid(
			"queues",
			fmt.Sprint(o.Queues),
			fmt.Sprintf("give at most %d with %d hosts", maxPairs/o.Hosts, o.Hosts),
		)
	}
	for _, s := range o.Sizes {
		if s < 1 || o.HostSize > 0 && s > o.HostSize {
			return compute.Invalid("sizes", fmt.Sprint(s), "give 1 to what a host has")
		}
	}
	if len(o.Sizes) == 0 {
		return compute.Invalid("sizes", "", "give one or more")
	}
	return o.Costs.check()
}

// size is what a host has for machines.
func (o Options) size() int {
	if o.HostSize > 0 {
		return o.HostSize
	}
	sum, most := 0, 0
	for _, s := range o.Sizes {
		sum, most = sum+s, max(most, s)
	}
	need := float64(o.Requests) * float64(sum) / float64(len(o.Sizes)) / float64(o.Hosts)
	return max(int(need*1.25+0.999), most, o.Slots*most)
}
