// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"maps"
	"slices"
	"time"
)

// lostGeneration drops everything: the group went on without this process, and will
// say how. There is nothing to gain before.
func (r *loopRun) lostGeneration() {
	r.fails++
	r.loop.metrics.undid()
	r.log.Warn("a turn was undone: the group went on without this process")
	r.lose(r.all()...)
	r.suspended, r.fence = true, fence{}
	r.group.client.ForceRebalance()
}

// handleGroupNews acts on what the group says, and lets it go on.
func (r *loopRun) handleGroupNews(n groupNews) error {
	defer close(n.done)
	switch n.kind {
	case newsRevoked:
		// No turn is under way. What comes back in the next generation goes on as it
		// was; what does not, its next owner fences.
		r.commitPositions()
		r.suspended = true
	case newsLost:
		r.suspended, r.fence = true, fence{}
		r.lose(r.all()...)
		r.forget(slices.Collect(maps.Keys(r.aside))...)
	case newsAssigned:
		return r.assigned(n)
	}
	return nil
}

// assigned begins a generation. A partition that was ours in the generation
// just before, and is again, nobody else can have had between; any other is lost
// first, and gained from nothing.
func (r *loopRun) assigned(n groupNews) error {
	if n.err != nil {
		return n.err
	}
	keep := n.fence.member == r.fence.member && n.fence.generation == r.fence.generation+1
	var gone, fresh []int32
	for p := range r.owned {
		if !keep || !slices.Contains(n.own, p) {
			gone = append(gone, p)
		}
	}
	r.lose(gone...)
	for p := range r.aside {
		if !keep || !slices.Contains(n.own, p) {
			r.forget(p)
		}
	}
	for _, p := range n.own {
		if r.owned[p] == nil && r.aside[p] == nil {
			fresh = append(fresh, p)
		}
	}
	r.fence, r.suspended = n.fence, false
	r.agree(n.write.OrFirst())
	r.gain(0, fresh...)
	return nil
}

func (r *loopRun) all() []int32 {
	var all []int32
	for p := range r.owned {
		all = append(all, p)
	}
	slices.Sort(all)
	return all
}

func (r *loopRun) gain(wait time.Duration, partitions ...int32) {
	if len(partitions) == 0 {
		return
	}
	g := &gain{run: r, wait: wait, wanted: len(partitions)}
	for _, p := range partitions {
		o := &ownedPartition{id: p, gain: g, logged: nowhere(p)}
		r.owned[p] = o
		g.of = append(g.of, o)
		r.loop.handler.Gain(p)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	g.cancel = cancel
	g.start(ctx)
}

func (r *loopRun) lose(partitions ...int32) {
	for _, p := range partitions {
		o := r.owned[p]
		delete(r.owned, p)
		o.lost.Store(true)
		if o.gain.wanted--; o.gain.wanted == 0 {
			o.gain.cancel()
		}
		r.loop.handler.Lose(p)
		r.inputs.remove(p)
		r.timers.lose(p)
		r.outbox.lose(p)
	}
}
