// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"cmp"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Candidate is a queue this host would wait on.
type Candidate struct {
	Queue   compute.QueueName
	Needs   compute.Resources
	Skipped int       // how often in a row it was chosen and not fetched
	Deep    bool      // work lies in it
	Extra   bool      // the host has not sampled it: work is the only reason to wait on it
	Rung    bool      // the host was rung to look at it: it looks, and does not wait
	Held    bool      // the host was rung to wait on it
	Oldest  time.Time // since when; zero: not known
	Order   uint64    // random, where nothing else tells
}

// Called says whether the host was rung for the queue.
func (c Candidate) Called() bool { return c.Rung || c.Held }

// before is the order in which candidates are served: those that the host was rung for
// come first, then those that were left out, then deep queues, the longest waiting
// first, then a random one.
func (c Candidate) before(d Candidate) int {
	return cmp.Or(
		first(c.Called(), d.Called()), cmp.Compare(d.Skipped, c.Skipped), first(c.Deep, d.Deep),
		first(!c.Oldest.IsZero(), !d.Oldest.IsZero()), c.Oldest.Compare(d.Oldest), cmp.Compare(c.Order, d.Order),
		cmp.Compare(c.Queue, d.Queue),
	)
}
