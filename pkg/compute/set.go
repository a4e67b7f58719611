// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"
	"slices"
	"time"
)

// MaxSet is how many instances one set may have: their boots are one record, and so are their grants one batch.
const MaxSet = 100

// Set is what a record says of the set that its instance is of: instances that start all or not at all. The zero value is
// none.
type Set struct {
	ID      InstanceID // the instance of its first boot; empty: it is of no set
	Size    uint32     // how many instances it has
	Granted bool       // every one of them has been granted a host: it starts
	Whole   QueueName  // while it waits: the queue in which it is offered whole, as one build; empty: in parts
}

// Leads says whether this instance's record is the one that stands for its set where that is offered whole.
func (i *Instance) Leads() bool { return i.Boot.Set().ID == i.ID }

// Whole is the queue in which the set that an instance waits for is offered whole; empty: its parts are offered, each
// by itself.
func (i *Instance) Whole() QueueName {
	if !i.Waits() {
		return ""
	}
	return i.Boot.Set().Whole
}

// Same says whether two are one set, whatever became of it.
func (s Set) Same(other Set) bool { return s.ID == other.ID && s.Size == other.Size }

// Says is what an instance of the set waits for, in words.
func (s Set) Says() string {
	says := fmt.Sprintf("none of the %d of its set starts before each has a host", s.Size)
	if s.Whole != "" {
		says += fmt.Sprintf("; they are offered whole in queue %s: one host takes all of them", s.Whole)
	}
	return says
}

// SetBoot is one boot of a set.
type SetBoot struct {
	Instance InstanceID
	Boot     Boot
}

// Set is the set that the boot is of.
func (b *Boot) Set() Set {
	if b.Rules == nil {
		return Set{}
	}
	return b.Rules.Set
}

// InSet makes the boot one of a set.
func (b *Boot) InSet(s Set) {
	r := PlacementRules{Set: s}
	if b.Rules != nil {
		r = *b.Rules
		r.Set = s
	}
	b.Rules = &r
}

// Waits says whether an instance waits for all of its set to have a host.
func (i *Instance) Waits() bool {
	s := i.Boot.Set()
	return s.ID != "" && !s.Granted && i.State == StateQueued
}

// Boots are the boots that a request asks for, each as a request of its own: one of OpBoot, each of OpBootSet, or the
// placeholders of OpReserve. There is
// none in a request for anything else.
func (r Request) Boots() []Request {
	switch r.Op {
	case OpBoot:
		return []Request{r}
	case OpBootSet:
		of := Set{ID: r.Instance, Size: uint32(len(r.Set))}
		each := make([]Request, 0, len(r.Set))
		for i := range r.Set {
			one, boot := r, r.Set[i].Boot
			boot.InSet(of)
			one.Op, one.Set, one.Instance, one.Boot = OpBoot, nil, r.Set[i].Instance, &boot
			each = append(each, one)
		}
		return each
	case OpReserve:
		return r.Reserve.boots(r)
	}
	return nil
}

// checkSet refuses a set that can never be right.
func (r Request) checkSet() error {
	if len(r.Set) < 2 || len(r.Set) > MaxSet {
		return Invalid("set", fmt.Sprintf("%d boots", len(r.Set)), fmt.Sprintf("give 2 to %d", MaxSet))
	}
	var ids []InstanceID
	for i, b := range r.Set {
		if err := b.Instance.Check(); err != nil {
			return err
		}
		if err := b.Boot.Check(); err != nil {
			return fmt.Errorf("boot %d of the set: %w", i+1, err)
		}
		if err := b.Boot.CheckInSet(); err != nil {
			return fmt.Errorf("boot %d of the set: %w", i+1, err)
		}
		ids = append(ids, b.Instance)
	}
	slices.Sort(ids)
	for i := range ids[1:] {
		if ids[i] == ids[i+1] {
			return Invalid("set", string(ids[i]), "give each boot an instance id of its own")
		}
	}
	return nil
}

// CheckInSet refuses what a boot of a set cannot ask for.
func (b *Boot) CheckInSet() error {
	if n := b.Reservation(); n != "" {
		return Invalid("reservation", string(n), "boot it by itself")
	}
	return b.Preemptible().CheckNoSet()
}

// SetTry is how long at most a try to have a host for each of a set goes on, and SetHold how long hosts wait for the answer
// to a claim in it: longer, so that they give nothing back that is granted at the same time.
const (
	SetTry  = 2 * time.Minute
	SetHold = SetTry + 30*time.Second
)
