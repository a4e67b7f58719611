// SPDX-License-Identifier: Apache-2.0

package share

// Counts is what a puller has done since it was made.
type Counts struct {
	Fetches  uint64 // answered by a broker, with a record or without
	Records  uint64 // handed over
	Sessions uint64 // lost by an error

	AcksDone    uint64 // acks and renewals the broker agreed to
	AcksRefused uint64 // that it did not agree to: the lock had ended, mostly
	AcksUnknown uint64 // that were sent and not answered
	AcksDropped uint64 // that were not sent: their session was gone
}

type counters struct {
	fetches, records, sessions                      tally
	acksDone, acksRefused, acksUnknown, acksDropped tally
}

// Counts answers what the puller has done so far.
func (p *Puller) Counts() Counts {
	c := &p.counts
	return Counts{
		Fetches: c.fetches.Load(), Records: c.records.Load(), Sessions: c.sessions.Load(),
		AcksDone: c.acksDone.Load(), AcksRefused: c.acksRefused.Load(),
		AcksUnknown: c.acksUnknown.Load(), AcksDropped: c.acksDropped.Load(),
	}
}
