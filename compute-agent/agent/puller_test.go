// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"hash/fnv"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/wire"
)

// Place spreads queues over brokers by name.
func (n *node) Place(_ context.Context, refs []wire.QueueRef) (map[wire.SessionID][]wire.QueueRef, error) {
	out := map[wire.SessionID][]wire.QueueRef{}
	for _, r := range refs {
		h := fnv.New32()
		h.Write([]byte(r.Name))
		session := wire.SessionID{Group: r.Group, Broker: int32(h.Sum32() % uint32(n.cell.brokers))}
		out[session] = append(out[session], r)
	}
	return out, nil
}

func (n *node) Results() <-chan wire.Pulled { return n.results }

func (n *node) Open(session wire.SessionID, refs []wire.QueueRef, wait time.Duration) {
	c := n.cell
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.trip.dead() {
		return
	}
	if n.open[session] != nil {
		c.t.Errorf("session %v is opened twice", session)
	}
	if len(refs) == 0 || len(refs) > 64 {
		c.t.Errorf("a fetch lists %d queues", len(refs))
	}
	c.opens = append(c.opens, opening{session.Secondary, refs, wait})
	f := &openFetch{queues: refs}
	n.open[session] = f
	if wait == 0 {
		wait = 5 * time.Second
	}
	if session.Secondary {
		wait = min(wait, time.Second)
	}
	if session.Secondary && c.hang {
		wait = time.Hour
	}
	f.timer = time.AfterFunc(wait, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if n.open[session] == f {
			delete(n.open, session)
			n.results <- wire.Pulled{Session: session, Queues: refs}
		}
	})
	c.serve()
}

// serve hands waiting work to open fetches.
func (c *cell) serve() {
	n := c.node
	if n == nil || n.trip.dead() {
		return
	}
	for session, f := range n.open {
		it, ref := c.next(f)
		if it == nil {
			continue
		}
		f.timer.Stop()
		delete(n.open, session)
		it.holder, it.session, it.since = n, session, time.Now()
		it.delivery++
		rec := wire.EncodeBuild(it.build).WrittenUpTo(it.schema)
		rec.Time, rec.Logged = c.broker(), c.off != 0
		n.results <- wire.Pulled{Session: session, Record: &rec, Queues: f.queues, Ref: wire.WorkRef{
			Session: session, Queue: ref, Offset: c.offset(it), Delivery: it.delivery,
		}}
	}
}

func (c *cell) next(f *openFetch) (*item, wire.QueueRef) {
	for _, ref := range f.queues {
		for _, it := range c.queues[ref.Name].items {
			if !it.done && it.holder == nil {
				return it, ref
			}
		}
	}
	return nil, wire.QueueRef{}
}

func (c *cell) offset(it *item) int64 {
	return int64(slices.Index(c.queues[it.build.Queue].items, it))
}

// expire is the lock of 30 s.
func (c *cell) expire() {
	for _, l := range c.queues {
		for _, it := range l.items {
			if it.holder != nil && time.Since(it.since) > 30*time.Second {
				it.holder = nil
			}
		}
	}
	c.serve()
}

func (n *node) Ack(ref wire.WorkRef, how wire.Ack) {
	c := n.cell
	c.mu.Lock()
	defer c.mu.Unlock()
	it := c.queues[ref.Queue.Name].items[ref.Offset]
	if n.trip.dead() || it.holder != n {
		return
	}
	switch how {
	case wire.AckAccept, wire.AckReject:
		it.done, it.holder = true, nil
	case wire.AckRelease:
		it.holder = nil
		c.serve()
	case wire.AckRenew:
		it.since = time.Now()
	}
}
