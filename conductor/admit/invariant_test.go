// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"reflect"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// checked wraps a State and looks, after every step, at all that must hold,
// without asking the code that keeps it so.
type checked struct {
	*State
	t interface {
		Helper()
		Fatalf(string, ...any)
	}
	last map[compute.InstanceID]*compute.Instance
	log  []*compute.Instance // every version written, in order
}

func (c *checked) step(in Input, view View, now time.Time) Output {
	c.t.Helper()
	out := c.Step(in, view, now)
	c.verify(out, view, now)
	return out
}

// allLoaded is Loaded, checked likewise.
func (c *checked) allLoaded(view View, now time.Time) Output {
	c.t.Helper()
	out := c.Loaded(view, now)
	c.verify(out, view, now)
	return out
}

// diagram is compute.State's, word for word.
var diagram = map[compute.State][]compute.State{
	compute.StateNone:   {compute.StateQueued, compute.StateError, compute.StateDeleted},
	compute.StateQueued: {compute.StateQueued, compute.StateStarting, compute.StateDeleted, compute.StateError},
	compute.StateStarting: {
		compute.StateStarting, compute.StateActive, compute.StateQueued, compute.StateDeleting,
		compute.StateError,
	},
	compute.StateActive:   {compute.StateActive, compute.StateDeleting, compute.StateQueued, compute.StateError},
	compute.StateDeleting: {compute.StateDeleted},
	compute.StateError:    {compute.StateDeleted},
}

func (c *checked) verify(out Output, view View, now time.Time) {
	c.t.Helper()
	if len(out.Was) != len(out.Changed) {
		c.t.Fatalf("%d records changed, and of %d it is known what they were", len(out.Changed), len(out.Was))
	}
	for i, inst := range out.Changed {
		was := compute.StateNone
		if before := c.last[inst.ID]; before != nil {
			was = before.State
		}
		if amended := c.amended(inst, out); amended {
			c.last[inst.ID] = inst
			c.log = append(c.log, inst)
			continue
		}
		if out.Was[i] != was || inst.State.Ended() != inst.EndedAt.Equal(now) {
			c.t.Fatalf("%s was %s, and %s by its own word; it is %s, and ended at %v", inst.ID, was, out.Was[i],
				inst.State, inst.EndedAt)
		}
		c.verifyVersion(inst)
		c.verifyRule(inst, view)
		c.verifyEffects(inst, out, view, now)
		c.verifyNothingLeft(inst, now)
		c.last[inst.ID] = inst
		c.log = append(c.log, inst)
	}
	for _, inst := range out.Removed {
		if !c.last[inst.ID].State.Ended() {
			c.t.Fatalf("%s is forgotten in state %s", inst.ID, inst.State)
		}
		delete(c.last, inst.ID)
	}
	c.verifyIndexes()
	c.verifyGroups(view, now)
	c.verifySets()
	c.verifyReservations()
	c.verifyWholes(out, view)
	if !out.Due.Equal(c.NextDue()) {
		c.t.Fatalf("due %v, but the next timer is due %v", out.Due, c.NextDue())
	}
}

// amended says whether the record differs from the one before by its name and its metadata alone. Then nothing follows
// from it, not for itself and not for others, and what it was booted as stays known.
func (c *checked) amended(inst *compute.Instance, out Output) bool {
	c.t.Helper()
	before := c.last[inst.ID]
	if before == nil {
		return false
	}
	same := *inst
	same.Version, same.BootedAs = before.Version, before.BootedAs
	same.Boot.Name, same.Boot.Metadata = before.Boot.Name, before.Boot.Metadata
	if !reflect.DeepEqual(&same, before) {
		return false
	}
	if inst.Version != before.Version+1 || len(out.Effects) > 0 {
		c.t.Fatalf("a change of the name or the metadata made version %d of %d, and led to %v",
			inst.Version, before.Version, out.Effects)
	}
	first := slices.IndexFunc(c.log, func(i *compute.Instance) bool { return i.ID == inst.ID })
	if want := c.log[first].Boot.Fingerprint(); inst.BootedAs != want {
		c.t.Fatalf("%s was booted as %x, and its record says %x", inst.ID, want, inst.BootedAs)
	}
	return true
}

func (c *checked) verifyVersion(inst *compute.Instance) {
	c.t.Helper()
	before := c.last[inst.ID]
	if before == nil {
		before = &compute.Instance{ID: inst.ID, Project: inst.Project}
	}
	if inst.Version != before.Version+1 {
		c.t.Fatalf("version %d follows %d", inst.Version, before.Version)
	}
	parted := inst.Boot.Placeholder().Taker != before.Boot.Placeholder().Taker || inst.Boot.In() != before.Boot.In()
	stays := inst.State == compute.StateDeleting && before.State == inst.State && parted // a placeholder and its taker
	if !slices.Contains(diagram[before.State], inst.State) && !stays {
		c.t.Fatalf("%s becomes %s, which is not on the diagram", before.State, inst.State)
	}
	if inst.Attempt < before.Attempt || inst.Project != before.Project {
		c.t.Fatalf("attempt or project went astray: %+v after %+v", inst, before)
	}
	if moved := before.State.OnHost() && inst.State.OnHost() &&
		(before.Host != inst.Host || before.Claim != inst.Claim); moved {
		c.t.Fatalf("moved from %s to %s without being queued between", before.Host, inst.Host)
	}
	then := inst.Boot.Preemptible().Then
	if n := inst.Notice(); n != nil &&
		(inst.State != compute.StateActive || then == compute.KeepsItsPlace || n.Class == compute.PriorityLow) {
		c.t.Fatalf("%s, which is %s and %s, has notice %+v", inst.ID, inst.State, then, *n)
	}
	hasHost := inst.Host != "" && inst.Claim != ""
	if inst.State.OnHost() != hasHost && (inst.State.OnHost() || inst.State == compute.StateQueued) {
		c.t.Fatalf("%s on host %q by claim %q", inst.State, inst.Host, inst.Claim)
	}
}

// verifyEffects finds what follows from the record, by Effects alone, in one
// run among the effects of the step.
func (c *checked) verifyEffects(inst *compute.Instance, out Output, view View, now time.Time) {
	c.t.Helper()
	if inst.State == compute.StateQueued && inst.Boot.Group() != "" {
		return // its group says where it is offered, if it is
	}
	e, before := c.instances[inst.ID], c.last[inst.ID]
	if e.pub != nil && (e.pub.state == heldByShare || e.pub.state == heldForReservation) || taking(inst) {
		return
	}
	if before != nil && before.State == inst.State && before.Boot.Placeholder() != inst.Boot.Placeholder() {
		return // who has it says nothing to any host
	}
	if before != nil && taking(before) {
		return // nor does that it has none any more
	}
	var want []Effect
	for _, effect := range Effects(inst, now.Round(0).UTC()) {
		if p, ok := effect.(Publish); !ok || view.listed(p.Queue) {
			want = append(want, effect)
		}
	}
	for i := 0; i+len(want) <= len(out.Effects); i++ {
		if reflect.DeepEqual(append([]Effect{}, out.Effects[i:i+len(want)]...), append([]Effect{}, want...)) {
			return
		}
	}
	c.t.Fatalf("the effects of %s v%d do not follow from its record: %s",
		inst.ID, inst.Version, cmp.Diff(want, out.Effects))
}

func (c *checked) verifyIndexes() {
	c.t.Helper()
	used := map[compute.Project]compute.Resources{}
	there := map[compute.HostID]int{}
	for id, inst := range c.last {
		e := c.instances[id]
		if e == nil || e.inst != inst {
			c.t.Fatalf("%s is not what was written", id)
		}
		if inst.Counts() {
			used[inst.Project] = used[inst.Project].Plus(inst.Resources).Plus(compute.Resources{compute.Instances: 1})
		}
		if h := hostOf(inst); h != "" {
			there[h]++
			if c.hosts[h] == nil || !c.hosts[h].instances[e] {
				c.t.Fatalf("%s is not found under host %s", id, h)
			}
		}
		c.verifyTimer(e)
	}
	c.verifyShares()
	if c.Len() != len(c.last) {
		c.t.Fatalf("%d records, %d written", c.Len(), len(c.last))
	}
	for p := range map[compute.Project]bool{"p": true, "q": true} {
		if !c.Used(p).Equal(used[p]) {
			c.t.Fatalf("usage of %s is %v, the sum is %v", p, c.Used(p), used[p])
		}
	}
	ended := map[compute.Project]int{}
	for _, inst := range c.last {
		if inst.State.Ended() {
			ended[inst.Project]++
		}
	}
	for p, x := range c.endings {
		if len(x.items) != ended[p] {
			c.t.Fatalf("of %s %d have ended, and %d are known", p, ended[p], len(x.items))
		}
		if len(x.items) == 0 || c.overLimit[p] != (len(x.items) > c.opts.MaxEnded) {
			c.t.Fatalf("of %s %d have ended, crowded: %t", p, len(x.items), c.overLimit[p])
		}
	}
	for id, h := range c.hosts {
		if len(h.instances) != there[id] || there[id] == 0 {
			c.t.Fatalf("%d instances under host %s, %d are there", len(h.instances), id, there[id])
		}
	}
}

func (c *checked) verifyTimer(e *entry) {
	c.t.Helper()
	due := c.next(e)
	if e.timer.index == 0 {
		if !due.IsZero() && !c.silenced(e) {
			c.t.Fatalf("%s %s has no timer, but something is due at %v", e.inst.State, e.inst.ID, due)
		}
		return
	}
	// A host that has fallen silent leaves timers behind that find nothing to do.
	if early := c.silenced(e) && e.timer.due.Before(due); !e.timer.due.Equal(due) && !due.IsZero() && !early {
		c.t.Fatalf("the timer of %s is set for %v, something is due at %v", e.inst.ID, e.timer.due, due)
	}
}

// silenced: the host was heard again by a path that tells it everything, or is
// silent; either way nothing is due before it is told.
func (c *checked) silenced(e *entry) bool {
	h := c.hosts[e.inst.Host]
	return e.inst.State.OnHost() && h != nil && h.silent
}
