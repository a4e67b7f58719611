// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"cmp"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/sorted"
)

// Candidate is a queue this host would wait on.
type Candidate struct {
	Queue   compute.QueueName
	Needs   compute.Resources
	Skipped int       // how often in a row it was chosen and not fetched
	Deep    bool      // work lies in it
	Unsaid  bool      // no queue manager says whether work lies in it
	Extra   bool      // the host has not sampled it: work is the only reason to wait on it
	Rung    bool      // the host was rung to look at it: it looks, and does not wait
	Held    bool      // the host was rung to wait on it
	Probe   bool      // work may lie there that is served before other work: the host looks, and does not wait
	Behind  bool      // the host keeps work of it locked to see what lies behind, for a moment
	Oldest  time.Time // since when; zero: not known
	Order   uint64    // random, where nothing else tells
	Lies
}

// Called says whether the queue is to be fetched at once: the host was rung for it,
// keeps work of it locked for this, or other work waits for it.
func (c Candidate) Called() bool { return c.Rung || c.Held || c.Behind || c.Probe }

// mostSkipped is how often in a row a queue of which nobody says whether work lies in it is left out for others, before
// these wait for it.
const mostSkipped = 8

// overdue says whether nobody says what lies in a queue, and this host has not looked for long.
func (c Candidate) overdue() bool { return c.Skipped >= mostSkipped && c.Unsaid }

// waited says whether other queues have to wait until this one was fetched, if there is no room for both.
func (c Candidate) waited() bool { return c.Skipped > 0 && c.Deep || c.overdue() }

// before is the order in which candidates are served: first what is looked for behind work that is kept locked, since
// that is given back soon, then those to be fetched at once, then those that were left out, then deep queues, the
// longest waiting first, then a random one.
func (c Candidate) before(d Candidate) int {
	return cmp.Or(
		sorted.TrueFirst(c.Behind, d.Behind), sorted.TrueFirst(c.Called(), d.Called()), cmp.Compare(d.Skipped, c.Skipped),
		sorted.TrueFirst(c.Deep, d.Deep),
		sorted.TrueFirst(!c.Oldest.IsZero(), !d.Oldest.IsZero()), c.Oldest.Compare(d.Oldest), cmp.Compare(c.Order, d.Order),
		cmp.Compare(c.Queue, d.Queue),
	)
}
