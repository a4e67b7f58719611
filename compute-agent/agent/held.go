package agent

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

// mostHeld bounds how much work is held at once.
const mostHeld = 64

// never says whether work that is not taken cannot run here later either: the request avoids
// this host, or its flavor was another when it was asked for, and that is not for this host.
func (l *loop) never(b compute.Build, fits bool) bool {
	return slices.Contains(b.Avoid, l.o.Host) || !accepts(b, l.view.traits) || !fits && l.outgrown(b)
}

// release leaves work to other hosts: at once, or, if it can never run here and nobody else
// took it twice, once the host has looked at what lies behind it.
func (l *loop) release(ref wire.WorkRef, never bool, now time.Time) {
	l.a.counts.released.Add(1)
	again := ref.Delivery >= thirdDelivery || l.pull.hiding(ref.Queue.Name)
	if never && again && l.offers(now) && len(l.pull.held) < mostHeld {
		l.pull.held = append(l.pull.held, held{ref, now.Add(l.o.Timing.LeaveAlone)})
		return
	}
	// Together: what is given back on a fetch that lists its queue comes back.
	l.letGo(func(h held) bool { return h.ref.Queue.Name == ref.Queue.Name })
	l.leaveAlone(ref.Queue.Name)
	l.o.Puller.Ack(ref, wire.AckRelease)
}

// looked gives back what a fetch that has ended found nothing behind.
func (l *loop) looked(o opened, p wire.Pulled) {
	l.letGo(func(h held) bool { return p.Record == nil && o.queues[h.ref.Queue.Name] })
}

// giveBack gives back what was held for too long.
func (l *loop) giveBack(now time.Time) {
	l.letGo(func(h held) bool { return !now.Before(h.until) && !l.waitsOn(h.ref.Queue.Name) })
}

// letGo releases some of what is held, and leaves its queues to others.
func (l *loop) letGo(which func(held) bool) {
	l.pull.held = slices.DeleteFunc(l.pull.held, func(h held) bool {
		if !which(h) {
			return false
		}
		l.leaveAlone(h.ref.Queue.Name)
		l.o.Puller.Ack(h.ref, wire.AckRelease)
		return true
	})
}

// hiding says whether work of a queue is held.
func (p *pull) hiding(q compute.QueueName) bool {
	return slices.ContainsFunc(p.held, func(h held) bool { return h.ref.Queue.Name == q })
}

// waitsOn says whether an open fetch lists a queue.
func (l *loop) waitsOn(q compute.QueueName) bool {
	for _, o := range l.pull.open {
		if o.queues[q] {
			return true
		}
	}
	return false
}

// heldUntil is when something is to be given back though no fetch ends before.
func (l *loop) heldUntil() (next time.Time) {
	for _, h := range l.pull.held {
		if !l.waitsOn(h.ref.Queue.Name) && (next.IsZero() || h.until.Before(next)) {
			next = h.until
		}
	}
	return next
}
