// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Work that must not or cannot run here, and that nobody else takes, is the first that a
// queue hands out: given back at once it would keep this host from all that lies
// behind it. So it is kept locked while the host looks once more at the queue, and
// what comes and cannot run here either is kept with it. All of it is given back
// together when a look has brought nothing.

// held is such work.
type held struct {
	ref   wire.WorkRef
	until time.Time // when it is given back whatever the looks bring
}

// ThirdDelivery is when it seems that nobody else wants the work.
const ThirdDelivery = 3

// LastDelivery is when work that hosts leave to each other is said to its conductor: a queue drops it after the 25th.
const LastDelivery = 20

// mostHeld bounds how much work is held at once.
const mostHeld = 64

// Release leaves work to other hosts: at once, or, if it can never run here, nobody else took it
// twice and the host offers more room, once the host has looked at what lies behind it.
func (f *Fetcher) Release(ref wire.WorkRef, never, offers bool, now time.Time) {
	again := ref.Delivery >= ThirdDelivery || f.hiding(ref.Queue.Name)
	if never && again && offers && len(f.held) < mostHeld {
		f.held = append(f.held, held{ref, now.Add(f.o.LeaveAlone)})
		return
	}
	// Together: what is given back on a fetch that lists its queue comes back.
	f.letGo(now, func(h held) bool { return h.ref.Queue.Name == ref.Queue.Name })
	f.LeaveAlone(ref.Queue.Name, now)
	f.o.Puller.Ack(ref, wire.AckRelease)
}

// giveBackBehind gives back what a fetch that has ended found nothing behind.
func (f *Fetcher) giveBackBehind(o opened, p wire.Pulled, now time.Time) {
	f.letGo(now, func(h held) bool { return p.Record == nil && o.queues[h.ref.Queue.Name] })
}

// GiveBack gives back what was held for too long.
func (f *Fetcher) GiveBack(now time.Time) {
	f.letGo(now, func(h held) bool { return !now.Before(h.until) && !f.waitsOn(h.ref.Queue.Name) })
}

// GiveAllBack gives back all that is held.
func (f *Fetcher) GiveAllBack(now time.Time) { f.letGo(now, func(held) bool { return true }) }

// letGo releases some of what is held, and leaves its queues to others.
func (f *Fetcher) letGo(now time.Time, which func(held) bool) {
	f.held = slices.DeleteFunc(f.held, func(h held) bool {
		if !which(h) {
			return false
		}
		f.LeaveAlone(h.ref.Queue.Name, now)
		f.o.Puller.Ack(h.ref, wire.AckRelease)
		return true
	})
}

// hiding says whether work of a queue is held.
func (f *Fetcher) hiding(q compute.QueueName) bool {
	return slices.ContainsFunc(f.held, func(h held) bool { return h.ref.Queue.Name == q })
}

// waitsOn says whether an open fetch lists a queue.
func (f *Fetcher) waitsOn(q compute.QueueName) bool {
	for _, o := range f.open {
		if o.queues[q] {
			return true
		}
	}
	return false
}

// heldUntil is when something is to be given back though no fetch ends before.
func (f *Fetcher) heldUntil() (next time.Time) {
	for _, h := range f.held {
		if !f.waitsOn(h.ref.Queue.Name) && (next.IsZero() || h.until.Before(next)) {
			next = h.until
		}
	}
	return next
}
