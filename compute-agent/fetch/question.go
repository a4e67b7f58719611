// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Question is in which sessions queues are to be fetched. It is asked outside the Fetcher's goroutine.
type Question struct {
	puller Placer
	chosen map[compute.QueueName]offer.Candidate
	refs   []wire.QueueRef // of those chosen
	others []wire.QueueRef // that may be chosen some time
	when   time.Time       // when they were chosen
	was    map[wire.SessionID]opened
	at     map[wire.SessionID][]wire.QueueRef
	err    error
}

// Ask asks brokers for what was chosen, and with it for some others: one question for these too.
func (q *Question) Ask(ctx context.Context) {
	if n := min(len(q.others), mostAsked); n > 0 {
		_, _ = q.puller.Place(ctx, q.others[:n])
		q.others = q.others[n:]
	}
	q.at, q.err = q.puller.Place(ctx, q.refs)
}

// Rest asks for some more of the others, after Ask; false: there are none. Their trouble is told when they
// are chosen.
func (q *Question) Rest(ctx context.Context) bool {
	n := min(len(q.others), mostAsked)
	if n > 0 {
		_, _ = q.puller.Place(ctx, q.others[:n])
		q.others = q.others[n:]
	}
	return n > 0
}

// placed are the queues that can be fetched now, of those chosen.
func (q *Question) placed() map[compute.QueueName]bool {
	queues := map[compute.QueueName]bool{}
	for _, refs := range q.at {
		for _, ref := range refs {
			queues[ref.Name] = true
		}
	}
	return queues
}

func (f *Fetcher) ref(name compute.QueueName) wire.QueueRef {
	q := f.queues[name]
	return wire.QueueRef{Name: q.Name, Group: q.Group, TopicID: q.TopicID}
}

// mostAsked bounds for how many queues brokers are asked at once: a request of 80 KB
// and an answer of twice that. A broker pays for each queue it is asked about, however
// many come in one request.
const mostAsked = 2000

// mostAskedRung is how many queues there may be for a host that is rung to ask for all.
const mostAskedRung = 200

// unasked are the queues that may be chosen some time, those that were chosen now first:
// brokers are asked for all of them at first, instead of whenever another is
// sampled. A host that is rung needs few of many: it asks for those it is rung for.
func (f *Fetcher) unasked(chosen []wire.QueueRef, now time.Time) (refs []wire.QueueRef) {
	if f.asked || f.sampler.Rung(now) && len(f.queues) > mostAskedRung {
		return nil
	}
	f.asked = true
	refs = slices.Clone(chosen)
	for _, q := range offer.Accepted(f.traits, f.list()) {
		if ref := f.ref(q.Name); !slices.Contains(chosen, ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// dropStale leaves out sessions of which a fetch has ended since it was asked for: what
// that fetch listed was not chosen, and would be missing from the next one for as
// long as that lasts. Everything is chosen again at once.
func (f *Fetcher) dropStale(q *Question) {
	for session := range q.was {
		if _, open := f.open[session]; !open {
			delete(q.at, primary(session))
			f.changed = true
		}
	}
}
