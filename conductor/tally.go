// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"sync"
	"time"

	"github.com/berth-project/berth/conductor/admit"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/telemetry"
)

// tally is what a turn decided of a partition, to be counted when it is committed.
type tally struct {
	moves     []move
	published int
	told      [compute.CommandFenced + 1]int // by command
	denied    []*compute.Reason
	rejected  []string // topics
}

// move is a record that changed; StateNone: that is new, or gone.
type move struct {
	partition int32
	was, is   compute.State
	inst      *compute.Instance
}

// add takes what a partition decided. A nil tally takes nothing.
func (t *tally) add(p int32, out admit.Output) {
	if t == nil {
		return
	}
	for i, inst := range out.Changed {
		t.moves = append(t.moves, move{p, out.Was[i], inst.State, inst})
	}
	for _, inst := range out.Removed {
		t.moves = append(t.moves, move{p, inst.State, compute.StateNone, inst})
	}
	for _, effect := range out.Effects {
		switch effect := effect.(type) {
		case admit.Publish:
			t.published++
		case admit.Tell:
			t.told[effect.Command.Op]++
			if effect.Command.Op == compute.CommandDeny {
				t.denied = append(t.denied, effect.Command.Reason)
			}
		}
	}
}

// reject takes a record that made no sense.
func (t *tally) reject(topic string) {
	if t != nil {
		t.rejected = append(t.rejected, topic)
	}
}

// of is the tally of a partition; nil if nobody counts.
func (t *turn) of(p int32) *tally {
	if t.tally == nil {
		return nil
	}
	if t.tally[p] == nil {
		t.tally[p] = &tally{}
	}
	return t.tally[p]
}

// committed counts: what was decided of a partition has happened.
func (t *turn) committed(p int32) {
	done := t.of(p)
	t.tell(done)
	m := t.cfg.Metrics
	if m == nil {
		return
	}
	for _, mv := range done.moves {
		if mv.is != compute.StateNone {
			m.decided(mv.was, mv.inst, t.cfg.Tracer != nil)
		}
	}
	t.counts.move(done.moves)
	if s := t.states[p]; s != nil {
		t.counts.hold(p, s.Held())
	}
	m.publishes.Add(float64(done.published))
	for op, n := range done.told {
		if n > 0 {
			m.effects.WithLabelValues(compute.CommandOp(op).String()).Add(float64(n))
		}
	}
	for _, reason := range done.denied {
		m.decisions.WithLabelValues("denied", codeOf(reason)).Inc()
	}
	for _, topic := range done.rejected {
		m.rejected.WithLabelValues(t.kindOf(topic)).Inc()
	}
}

// kindOf is an input's topic without the cell's prefix.
func (c *Conductor) kindOf(topic string) string {
	switch topic {
	case c.cfg.Topics.Requests():
		return "requests"
	case c.cfg.Topics.Reports():
		return "reports"
	}
	return "instances"
}

// stateCounts is how many instances there are in each state, and since when those that are starting are, as
// committed. It is kept up by every turn, so that a reader of metrics need not walk the instances.
// A nil one counts nothing.
type stateCounts struct {
	now func() time.Time // by the log
	mu  sync.Mutex
	of  map[int32]*perState
}

type perState struct {
	n       [compute.StateError + 1]int
	granted map[compute.InstanceID]time.Time // of those that are starting
	held    admit.Held
}

func newPerState() *perState { return &perState{granted: map[compute.InstanceID]time.Time{}} }

// move takes an instance from one state to another; StateNone stands for what is not counted.
func (s *perState) move(was, is compute.State, inst *compute.Instance) {
	s.n[was]--
	s.n[is]++
	switch compute.StateStarting {
	case is:
		s.granted[inst.ID] = inst.StartingAt
	case was:
		delete(s.granted, inst.ID)
	}
}

func newStateCounts(now func() time.Time) *stateCounts {
	return &stateCounts{now: now, of: map[int32]*perState{}}
}

// load begins a partition with the records it was restored from.
func (c *stateCounts) load(p int32, l *loading) {
	if c == nil {
		return
	}
	n := newPerState()
	for _, r := range l.records {
		if s := r.inst.State; int(s) < len(n.n) { // others are not of this version
			n.move(compute.StateNone, s, r.inst)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[p] = n
}

func (c *stateCounts) drop(p int32) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, p)
}

func (c *stateCounts) move(moves []move) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range moves {
		if n := c.of[m.partition]; n != nil {
			n.move(m.was, m.is, m.inst)
		}
	}
}

// hold takes note of how much of a partition's work is in no queue.
func (c *stateCounts) hold(p int32, held admit.Held) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.of[p]; n != nil {
		n.held = held
	}
}

func (c *stateCounts) sayHeld(say telemetry.Say) {
	var all admit.Held
	c.mu.Lock()
	for _, n := range c.of {
		all.ByGroup, all.ByShare = all.ByGroup+n.held.ByGroup, all.ByShare+n.held.ByShare
	}
	c.mu.Unlock()
	say(float64(all.ByGroup), "group")
	say(float64(all.ByShare), "share")
}

func (c *stateCounts) say(say telemetry.Say) {
	all := newPerState()
	c.mu.Lock()
	for _, n := range c.of {
		for s := range n.n {
			all.n[s] += n.n[s]
		}
	}
	c.mu.Unlock()
	for s := compute.StateQueued; s <= compute.StateError; s++ {
		say(float64(all.n[s]), s.String())
	}
}

// sayOldestGrant says how long ago the oldest grant was made that no host has answered.
func (c *stateCounts) sayOldestGrant(say telemetry.Say) {
	now, age := c.now(), 0.0
	c.mu.Lock()
	for _, n := range c.of {
		for _, at := range n.granted {
			age = max(age, seconds(at, now))
		}
	}
	c.mu.Unlock()
	say(age)
}
