// SPDX-License-Identifier: Apache-2.0

package agent

import "sync/atomic"

// Stats count what an agent did since it was made.
type Stats struct {
	Offers   int64 // fetches opened
	Taken    int64 // builds taken
	Released int64 // records given to others
	Claims   int64 // claims sent, repeats included
	Denied   int64
	Launches int64 // launches that succeeded
	Failed   int64 // builds that failed here
	Offering bool  // reconciled, caught up with its stream and allowed to offer
}

// counters are Stats that one goroutine counts and others read.
type counters struct {
	offers, taken, released, claims, denied, launches, failed tally
	offering                                                  atomic.Bool
}

func (c *counters) stats() Stats {
	return Stats{
		Offers: c.offers.Load(), Taken: c.taken.Load(), Released: c.released.Load(), Claims: c.claims.Load(),
		Denied: c.denied.Load(), Launches: c.launches.Load(), Failed: c.failed.Load(), Offering: c.offering.Load(),
	}
}
