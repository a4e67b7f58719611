// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Rules are the numbers of rings.
type Rules struct {
	First   int           // hosts rung for one build
	Batch   int           // builds that a host takes one after the other without being rung again
	Soonest time.Duration // a ring counts at least so long
	Latest  time.Duration // and at most so long, however often it was in vain
	Slowest time.Duration // what claims take lately is believed up to this

	Often   float64       // builds a second from which on hosts are held on a queue
	Spare   int           // hosts that are held beside those that the rate needs
	Away    time.Duration // how long a host that took a build does not wait
	Refresh time.Duration // how long it takes until a host that is full is replaced
	Hold    time.Duration // how long a host is held
	Early   time.Duration // so long before a hold ends another host is drawn

	PerSecond, AtOnce float64 // rings; more wait
}

// DefaultRules are what was measured best (docs/PERFORMANCE.md).
func DefaultRules() Rules {
	return Rules{
		First: 2, Batch: 4, Soonest: 500 * time.Millisecond, Latest: 15 * time.Second, Slowest: 3 * time.Second,
		Often: 0.2, Spare: 2, Away: 250 * time.Millisecond, Refresh: 2 * time.Second,
		Hold: 15 * time.Second, Early: 2 * time.Second,
		PerSecond: 1000, AtOnce: 4000,
	}
}

// Work is one build that waits in a queue.
type Work struct {
	Key    string           // of the instance
	Due    time.Time        // when it is published, by the log: see Ringer.Ahead
	Avoid  []compute.HostID // it must not run there
	Failed []compute.HostID // earlier attempts failed there: rather not
	// Kept says whether it must not run on a host as things are; nil: on none. It may change at any time.
	Kept func(compute.HostID) bool
	// Apart says whether it wants a host that has none of its group; nil: it does not. It is asked once the work is
	// published, and by Again.
	Apart func() bool
	apart bool // what it said last
}

// Ring is what one host is told.
type Ring struct {
	Host compute.HostID
	Look compute.Look
}

// Hosts are what is known of hosts.
type Hosts interface {
	// Eligible counts the hosts that fit a queue's work now; room is how many machines
	// of it they have room for together.
	Eligible(compute.QueueName) (hosts int, room uint64)
	// Fits says whether a host fits the queue's work now and can be rung.
	Fits(compute.QueueName, compute.HostID) bool
	// Sample draws up to n hosts that fit the queue's work now and can be rung,
	// more often those that should be (compute.Weigher), none of which not is true. n is not negative.
	Sample(q compute.QueueName, n int, not func(compute.HostID) bool) []compute.HostID
}
