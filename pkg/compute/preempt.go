// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"
	"time"
)

// Preemptible says that a machine may be taken away so that work of a class above the low one finds room. The zero value
// says that it may not: it keeps its place.
type Preemptible struct {
	Then  Afterwards
	Grace time.Duration // from the notice on; its guest has so long to stop. 0: none
}

// Afterwards is what becomes of a machine that was taken away.
type Afterwards uint8

// What becomes of it.
const (
	KeepsItsPlace Afterwards = iota // it is never taken away
	ThenDelete                      // it is deleted
	ThenRequeue                     // it waits in its queue again, and is built anew
)

var afterwardsNames = [...]string{"keep", "delete", "requeue"}

// String is the word's name in APIs and on the command line.
func (a Afterwards) String() string { return name(afterwardsNames[:], a, "preemptible") }

// ParseAfterwards reads what becomes of a machine that was taken away.
func ParseAfterwards(s string) (Afterwards, error) {
	switch s {
	case "delete":
		return ThenDelete, nil
	case "requeue":
		return ThenRequeue, nil
	}
	return KeepsItsPlace, Invalid("preemptible.then", s, `give "delete" or "requeue": what becomes of it when its place is taken`)
}

const (
	// DefaultGrace is how long a guest has to stop where the request does not say.
	DefaultGrace = 30 * time.Second
	// MaxGrace bounds it: what waits for the place has waited already.
	MaxGrace = 10 * time.Minute
)

// Preemptible says whether the boot's machine may be taken away.
func (b *Boot) Preemptible() Preemptible {
	if b.Rules == nil {
		return Preemptible{}
	}
	return b.Rules.Preemptible
}

// IsPreemptible says whether it says anything of that.
func (b *Boot) IsPreemptible() bool { return b.Preemptible() != (Preemptible{}) }

// Preempt makes the boot's machine one that may be taken away, and so one of the low class.
func (b *Boot) Preempt(p Preemptible) {
	b.change(func(r *PlacementRules) { r.Preemptible, r.Priority = p, PriorityLow })
}

// ClassOf is the class of a request that says what may be taken away, and names a class or (said) none.
func ClassOf(p Preemptible, class Priority, said bool) (Priority, error) {
	switch {
	case p == (Preemptible{}) || said && class == PriorityLow:
		return class, nil
	case said:
		return class, refuseClass(class)
	}
	return PriorityLow, nil
}

func refuseClass(class Priority) error {
	return Invalid("priority", class.String(),
		`give "low", or leave it out: what is preemptible makes room for the classes above, so it is of the low one`)
}

// check refuses what can never be right for a boot of a class.
func (p Preemptible) check(class Priority) error {
	switch {
	case int(p.Then) >= len(afterwardsNames):
		return Invalid("preemptible.then", p.Then.String(), `give "delete" or "requeue"`)
	case p.Grace < 0 || p.Grace > MaxGrace:
		return Invalid("preemptible.grace", p.Grace.String(), "give 0 to "+MaxGrace.String())
	case p.Then == KeepsItsPlace && p.Grace != 0:
		return Invalid("preemptible.then", "", `give "delete" or "requeue": what becomes of it when its place is taken`)
	case p.Then != KeepsItsPlace && class != PriorityLow:
		return refuseClass(class)
	}
	return nil
}

// checkPreemptible refuses what may be taken away and then would not wait again, though it was to.
func (b Boot) checkPreemptible() error {
	p := b.Preemptible()
	if err := p.check(b.Priority()); err != nil {
		return err
	}
	switch {
	case p.Then != ThenRequeue:
	case b.Host != "":
		return Invalid("preemptible.then", p.Then.String(),
			`give "delete", or leave out host: the work for which it went has its room on that host, and there is no other for it`)
	case b.OnNoCapacity == FailAtOnce:
		return Invalid("preemptible.then", p.Then.String(),
			`give "delete", or "wait" as on_no_capacity: where its place was taken there is no room, so that it would end in error`)
	}
	return nil
}

// CheckNoSet refuses a boot of a set that may be taken away: a set stands or falls as a whole.
func (p Preemptible) CheckNoSet() error {
	if p == (Preemptible{}) {
		return nil
	}
	return Invalid("preemptible", p.Then.String(),
		"leave it out, or boot each by itself: a set starts as a whole, and one of it that is taken away would leave the rest")
}

// Notice is written in the record of an active instance when its machine is to be taken away. It is not taken back.
type Notice struct {
	At    time.Time
	Until time.Time // its guest may run up to then; it is taken away before if it has stopped
	Host  HostID    // that asked for it
	Queue QueueName // of the work that is to have its place
	Class Priority  // of that work; not low
	Going bool      // ThenRequeue: the time is over, or the guest has stopped, and its host is told to destroy it
	Over  time.Time // when it was over, for this reason or another; zero: it is not
	Taken bool      // once it is over: it was queued again because of it
	Times uint32    // how often it was queued again because of a notice, of this one or of one before
}

// TimesTaken is how often the machine was taken away and queued again. Records of older versions know of the last
// time alone.
func (i *Instance) TimesTaken() uint32 {
	n := i.LastNotice()
	switch {
	case n == nil:
		return 0
	case n.Taken:
		return max(1, n.Times)
	}
	return n.Times
}

// Reason is why the instance does not run there any more.
func (n *Notice) Reason(a Attempt) *Reason {
	return &Reason{
		Code: Preempted, Host: n.Host, Attempt: a,
		Detail: fmt.Sprintf("its place was taken for work of priority %s in queue %s", n.Class, n.Queue),
	}
}

// Notice is that of an active instance whose place is taken; nil: it keeps it.
func (i *Instance) Notice() *Notice {
	if n := i.LastNotice(); n != nil && n.Over.IsZero() {
		return n
	}
	return nil
}

// LastNotice is the last one, be it over or not; nil: there was none.
func (i *Instance) LastNotice() *Notice {
	if i.Boot.Rules == nil {
		return nil
	}
	return i.Boot.Rules.Notice
}

// GiveNotice writes a notice into the record.
func (i *Instance) GiveNotice(n *Notice) {
	if n != i.LastNotice() {
		i.Boot.change(func(r *PlacementRules) { r.Notice = n })
	}
}

// EndNotice says when it was over. The record keeps it, to tell of it.
func (i *Instance) EndNotice(at time.Time) {
	if n := i.Notice(); n != nil {
		over := *n
		over.Over = at
		i.GiveNotice(&over)
	}
}

// MadeRoom is how many machines its host had taken away for it.
func (i *Instance) MadeRoom() uint32 {
	if i.Boot.Rules == nil {
		return 0
	}
	return i.Boot.Rules.MadeRoom
}

// SetMadeRoom writes down how many its host had taken away for it.
func (i *Instance) SetMadeRoom(n uint32) {
	if n != i.MadeRoom() {
		i.Boot.change(func(r *PlacementRules) { r.MadeRoom = n })
	}
}

// change gives the boot rules of its own: what it has it may share with others. Rules that say nothing are none.
func (b *Boot) change(edit func(*PlacementRules)) {
	var r PlacementRules
	if b.Rules != nil {
		r = *b.Rules
	}
	if edit(&r); r == (PlacementRules{}) {
		b.Rules = nil
		return
	}
	b.Rules = &r
}
