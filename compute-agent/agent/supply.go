// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"github.com/berth-project/berth/compute-agent/fetch"
	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
)

// room is what nothing on the host holds, running or not, taken or not. It is
// asked several times an iteration, and seldom changes: what adds or removes a task,
// or learns of another inventory, drops the answer.
func (l *loop) room() offer.Room {
	if l.free == nil {
		held := make([]offer.Held, 0, len(l.tasks))
		taken := l.tasks.taken()
		for id, t := range l.tasks {
			if t.Placeholder && taken[compute.InPlaceholder{ID: id, Attempt: t.Attempt}] {
				continue // its taker holds that room
			}
			held = append(held, offer.Held{Resources: t.Resources, Place: t.Place})
		}
		room := l.view.host.Room(held...)
		l.free = &room
	}
	return *l.free
}

// offers says whether the host takes work, and if not, why.
func (l *loop) offers(now time.Time) bool {
	state, _ := l.state(now)
	ok := l.stream.settled && l.fetches.KnowsQueues() && !l.stopping && state == compute.HostEnabled
	l.a.counts.offering.Store(ok)
	return ok
}

// supply is what the host has to offer now.
func (l *loop) supply(now time.Time) fetch.Supply {
	s := fetch.Supply{Offers: l.offers(now), Room: l.room(), Slots: l.tasks.free(l.o.Slots)}
	if l.starts.host.Quarantined(now) {
		s.Until = l.starts.host.Until
	}
	return s
}

// look finds what to wait on and has brokers asked where that is; then fetches are opened.
func (l *loop) look(now time.Time) {
	q := l.fetches.Look(l.supply(now), now)
	if q == nil {
		return
	}
	l.workers.Go(func() {
		within(l.work, l.o.Timing.Poll, q.Ask)
		l.a.inbox.put(func(l *loop) {
			now := time.Now()
			l.fetches.Placed(q, l.supply(now), now)
		})
		for more := true; more; {
			within(l.work, l.o.Timing.Poll, func(ctx context.Context) { more = q.Rest(ctx) })
		}
	})
}

// ring takes a ring. One that was said before the agent had caught up is old.
func (l *loop) ring(look compute.Look) {
	if !l.stream.live {
		return
	}
	now := time.Now()
	if l.fetches.Ring(look, now); look.Preempt {
		l.makeRoom(look.Queue, now)
	}
}

// within calls what takes so long at most.
func within(ctx context.Context, long time.Duration, call func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	call(ctx)
}

// tasks are what the agent does, one task for each instance that it has anything of.
type tasks map[compute.InstanceID]*task.Task

// free is how many of these slots no build has; open fetches are not counted.
func (ts tasks) free(slots int) int {
	for _, t := range ts {
		if hasSlot(*t) {
			slots--
		}
	}
	return slots
}

// hasSlot says whether a build is one of the few that are made at once.
func hasSlot(t task.Task) bool {
	return t.Busy == task.BusyPreparing || t.Stage == task.Preparing || t.Stage == task.Claiming && !t.Answered
}

// members is how many members of a project's group are here, or may be until they are destroyed; adopted says that
// there may be more, among machines that the journal knew nothing of and of which no conductor has said it since.
func (ts tasks) members(p compute.Project, g compute.GroupName) (n uint32, adopted bool) {
	for _, t := range ts {
		adopted = adopted || t.Queue == ""
		if t.Project == p && t.Group == g && !t.Destroyed {
			n++
		}
	}
	return n, adopted
}

// claiming says whether an answer to a claim may still come.
func (ts tasks) claiming() bool {
	for _, t := range ts {
		if t.Stage == task.Claiming {
			return true
		}
	}
	return false
}

// count is how many machines there are, and how many are being made.
func (ts tasks) count() (machines, building uint32) {
	for _, t := range ts {
		if t.Building() {
			building++
		} else {
			machines++
		}
	}
	return machines, building
}
