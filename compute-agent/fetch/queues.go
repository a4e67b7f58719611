// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// SetQueue takes a queue of the list. One that has no topic could not be made: there is nothing to wait on.
func (f *Fetcher) SetQueue(q compute.Queue, now time.Time) {
	if q.TopicID == "" {
		f.RemoveQueue(q.Name)
		return
	}
	if _, known := f.queues[q.Name]; !known {
		f.since[q.Name] = now
	}
	f.queues[q.Name] = q
	f.relist()
}

// RemoveQueue drops a queue that is gone.
func (f *Fetcher) RemoveQueue(q compute.QueueName) {
	delete(f.queues, q)
	delete(f.since, q)
	f.sampler.Forget(q)
	f.rings.Forget(q)
	f.relist()
}

func (f *Fetcher) relist() { f.listed, f.asked, f.changed = false, false, true }

// QueuesRead says that the list of queues was read to its end once; nothing is waited on before.
func (f *Fetcher) QueuesRead() {
	f.queuesEnd = true
	f.relist()
}

// KnowsQueues says whether the list of queues was read to its end once.
func (f *Fetcher) KnowsQueues() bool { return f.queuesEnd }

// Advise takes advice.
func (f *Fetcher) Advise(a compute.Advice, now time.Time) {
	f.sampler.Advise(a, now)
	f.changed = true
}

// AdviceRead says that advice was read to its end once.
func (f *Fetcher) AdviceRead() { f.changed, f.advised = f.changed || !f.advised, true }

// Outgrown says whether work needs more than its queue is for now: its flavor was
// made smaller after it was asked for. It keeps what it was given, and runs where
// there is room for that.
func (f *Fetcher) Outgrown(b compute.Build) bool {
	q, ok := f.queues[b.Queue]
	return ok && !b.Resources.FitsIn(q.Resources)
}

func (f *Fetcher) list() []compute.Queue {
	return slices.SortedFunc(maps.Values(f.queues), func(a, b compute.Queue) int { return cmp.Compare(a.Name, b.Name) })
}
