// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"
	"slices"
	"time"
)

// A reservation is room that hosts hold for boots to come: so many placeholders, each of which is an instance without a
// machine. A boot that names the reservation takes one of them, and runs where that is.

// Limits of one reservation.
const (
	MaxReserved      = 100 // placeholders
	LeastReserveTime = time.Minute
	MaxReserveTime   = 30 * 24 * time.Hour // from its beginning to its end, and from now to its beginning
)

// ReservationName names a reservation within its project, among those that have not ended.
type ReservationName string

// Check refuses a name that is none.
func (n ReservationName) Check() error { return match(nameShape, "reservation", string(n), nameRemedy) }

// ReservationKey says which reservation is meant.
type ReservationKey struct {
	Project Project
	Name    ReservationName
}

// Placeholder is what a record says of an instance that is one. The zero value: it is a machine.
type Placeholder struct {
	Of    ReservationName // empty: it is none
	Size  uint32          // how many placeholders the reservation was made with
	From  time.Time       // before, nothing starts in it
	Until time.Time       // then it ends
	Taker InstanceID      // the instance that has it; empty: it is free
	Kept  bool            // it is queued and in no queue: what has taken it is on a host that does not hold it any more
}

// InPlaceholder is which placeholder an instance has. The zero value is none.
type InPlaceholder struct {
	ID      InstanceID
	Attempt Attempt // of the placeholder, on the host where the instance was granted its room; 0: not yet
}

// Placeholder is what the instance of a boot is one of.
func (b *Boot) Placeholder() Placeholder {
	if b.Rules == nil {
		return Placeholder{}
	}
	return b.Rules.Placeholder
}

// IsPlaceholder says whether an instance has no machine, and holds room for one that may take it.
func (i *Instance) IsPlaceholder() bool { return i.Boot.IsPlaceholder() }

// IsPlaceholder says whether the boot is one of a placeholder.
func (b *Boot) IsPlaceholder() bool { return b.Placeholder().Of != "" }

// Reservation is the one that the boot is to take a placeholder of; empty: none.
func (b *Boot) Reservation() ReservationName {
	if b.Rules == nil {
		return ""
	}
	return b.Rules.Reservation
}

// ReservationKey is the reservation that an instance is a placeholder of, or is to take a placeholder of.
func (i *Instance) ReservationKey() ReservationKey {
	key := ReservationKey{Project: i.Project, Name: i.Boot.Reservation()}
	if i.IsPlaceholder() {
		key.Name = i.Boot.Placeholder().Of
	}
	return key
}

// In is the placeholder that the instance of the boot has.
func (b *Boot) In() InPlaceholder {
	if b.Rules == nil {
		return InPlaceholder{}
	}
	return b.Rules.In
}

// TakenBy makes a placeholder one that an instance has taken; empty: one that is free.
func (b *Boot) TakenBy(id InstanceID) { b.change(func(r *PlacementRules) { r.Placeholder.Taker = id }) }

// Keep says of a placeholder whether it is kept out of its queue.
func (b *Boot) Keep(kept bool) { b.change(func(r *PlacementRules) { r.Placeholder.Kept = kept }) }

// Takes makes the boot one that has a placeholder.
func (b *Boot) Takes(in InPlaceholder) { b.change(func(r *PlacementRules) { r.In = in }) }

// AsPlaceholder makes the boot one of a placeholder.
func (b *Boot) AsPlaceholder(p Placeholder) { b.change(func(r *PlacementRules) { r.Placeholder = p }) }

// Reserving makes the boot one that is to take a placeholder.
func (b *Boot) Reserving(n ReservationName) { b.change(func(r *PlacementRules) { r.Reservation = n }) }

// AskedRules are the rules that the conductor is given: the others it notes itself.
func (b *Boot) AskedRules() *PlacementRules {
	rules := Boot{Rules: RulesOf(b.Group(), b.Set(), b.Priority())}
	if p := b.Placeholder(); p.Of != "" {
		rules.AsPlaceholder(p)
	}
	if n := b.Reservation(); n != "" {
		rules.Reserving(n)
	}
	if p := b.Preemptible(); p != (Preemptible{}) {
		rules.Preempt(p)
	}
	return rules.Rules
}

// Counts says whether an instance uses its project's quota. A placeholder that is taken does not: its taker does.
func (i *Instance) Counts() bool { return i.State.Counts() && i.Boot.Placeholder().Taker == "" }

// HoldsRoom says whether an instance is a placeholder that has not ended and is not about to.
func (i *Instance) HoldsRoom() bool {
	return i.IsPlaceholder() && i.State != StateDeleting && !i.State.Ended()
}

// Reserve asks for a reservation.
type Reserve struct {
	Name      ReservationName
	From      time.Time // zero: at once
	Until     time.Time
	Boot      Boot         // what each placeholder is like: flavor, choices and priority alone; each is called by the reservation and its number
	Instances []InstanceID // the placeholders
}

// Boots are the placeholders, each as a boot of its own.
func (v *Reserve) boots(r Request) []Request {
	each := make([]Request, 0, len(v.Instances))
	for i, id := range v.Instances {
		one, boot := r, v.Boot
		boot.Name = fmt.Sprintf("%s-%d", v.Name, i+1)
		boot.AsPlaceholder(Placeholder{Of: v.Name, Size: uint32(len(v.Instances)), From: v.From, Until: v.Until})
		one.Op, one.Reserve, one.Instance, one.Boot = OpBoot, nil, id, &boot
		each = append(each, one)
	}
	return each
}

// Check refuses a reservation that can never be right. How far its times are from now is not its matter.
func (v *Reserve) Check() error {
	if err := v.Name.Check(); err != nil {
		return err
	}
	if n := len(v.Instances); n < 1 || n > MaxReserved {
		return Invalid("count", fmt.Sprint(n), fmt.Sprintf("give 1 to %d", MaxReserved))
	}
	ids := slices.Sorted(slices.Values(v.Instances))
	for i, id := range ids {
		if err := id.Check(); err != nil {
			return err
		}
		if i > 0 && ids[i-1] == id {
			return Invalid("instances", string(id), "give each placeholder an instance id of its own")
		}
	}
	if v.Until.IsZero() {
		return Invalid("until", "", "say when the reservation ends")
	}
	if long := v.Until.Sub(v.From); !v.From.IsZero() && (long < LeastReserveTime || long > MaxReserveTime) {
		return Invalid("for", long.String(), fmt.Sprintf("give %s to %s", LeastReserveTime, MaxReserveTime))
	}
	b := v.Boot
	switch {
	case b.Host != "" || len(b.Avoid) > 0 || b.Group() != "" || b.Reservation() != "" || b.Set().ID != "":
		return Invalid("boot", string(v.Name), "a reservation has a flavor, choices and a priority, and no other rule of where")
	case b.OnNoCapacity != WaitForCapacity:
		return Invalid("on_no_capacity", b.OnNoCapacity.String(), "leave it out: placeholders wait until the reservation ends")
	case b.Image != "" || len(b.UserData)+len(b.Sealed)+len(b.SSHKeys) > 0:
		return Invalid("boot", string(v.Name), "leave out image, user data and keys: what takes a placeholder brings them")
	case b.IsPreemptible():
		return Invalid("preemptible", b.Preemptible().Then.String(), "leave it out: no room of a reservation is taken away for other work")
	case b.Name != "" || len(b.Metadata) > 0:
		return Invalid("boot", string(v.Name), "leave out name and metadata: placeholders are called by the reservation and a number")
	case b.Attempts != 0 || b.Deadline != 0:
		return Invalid("boot", string(v.Name), "leave out attempts and deadline: placeholders wait until the reservation ends")
	}
	return b.Check()
}

// checkTaker refuses a boot that names a reservation beside another rule of where it may be: it is where its
// placeholder is.
func (b Boot) checkTaker() error {
	n := b.Reservation()
	if n == "" {
		return nil
	}
	other := ""
	switch {
	case b.Host != "":
		other = "host"
	case b.Group() != "":
		other = "group"
	case b.IsPreemptible():
		other = "preemptible"
	case b.Priority() != PriorityNormal:
		other = "priority"
	case len(b.Avoid) > 0:
		other = "avoid"
	}
	if other != "" {
		return Invalid("reservation", string(n), "leave out "+other+": the reservation says where it may be")
	}
	return n.Check()
}

// WaitsIn is what an instance that has taken a placeholder waits for, in words.
func WaitsIn(p *Instance, now time.Time) string {
	of := p.Boot.Placeholder()
	switch {
	case p.State != StateActive:
		return fmt.Sprintf("reservation %s: its placeholder %s is %s, and holds no room yet", of.Of, p.ID, p.State)
	case of.From.After(now):
		return fmt.Sprintf("reservation %s begins at %s", of.Of, of.From.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("reservation %s: the host of placeholder %s is to make it in that room", of.Of, p.ID)
}

// KeptFor is why a placeholder is in no queue, in words.
func KeptFor(p *Instance) string {
	of := p.Boot.Placeholder()
	return fmt.Sprintf("reservation %s: instance %s has taken it, and is on a host that does not hold it any more: "+
		"hosts are asked for its room once that has ended", of.Of, of.Taker)
}
