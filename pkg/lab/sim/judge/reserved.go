// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
)

// endsIn is how long after its end a reservation may still hold room where all is well.
const endsIn = 30 * time.Second

// checkReserved: what takes a placeholder is granted the host that holds it, in its time, and nobody else has it; what was
// not asked for is not there; and once all is settled, nothing holds room for a reservation that is over.
func checkReserved(r *Recording) (wrong []Violation) {
	if !r.Schedule.Reserves() {
		return nil
	}
	last, has := map[compute.InstanceID]compute.Instance{}, map[compute.InstanceID]compute.InstanceID{}
	for _, w := range r.Log {
		i, old := w.Instance, last[w.Instance.ID]
		if w.Removed || i.Project != schedule.Reserving {
			continue
		}
		last[i.ID] = i
		if i.Boot.Name != "" && r.reservationAsked(i) == nil {
			wrong = append(wrong, broken("reserved", i.ID, w.Seen, "nobody asked for %s", i.Boot.Name)...)
		}
		in := i.Boot.In().ID
		if before := old.Boot.In().ID; before != "" && (in != before || i.State.Ended()) {
			delete(has, before)
		}
		if in == "" || i.State.Ended() {
			continue
		}
		if has[in] != "" && has[in] != i.ID {
			wrong = append(wrong, broken("reserved", i.ID, w.Seen, "placeholder %s is taken by %s and by %s", in, has[in], i.ID)...)
		}
		has[in] = i.ID
		if p := last[in]; i.State == compute.StateStarting && old.State == compute.StateQueued &&
			(p.State != compute.StateActive || p.Host != i.Host) {
			wrong = append(wrong, broken("reserved", i.ID, w.Seen, "%s starts on %s, and its placeholder is %s on %q",
				i.Boot.Name, i.Host, p.State, p.Host)...)
		}
	}
	wrong = slices.Concat(wrong, r.inVain(), r.leftOver(), r.refusedInReservations(), r.heldInVain())
	return append(wrong, r.tooEarly(last)...)
}

// heldInVain finds, in what there was once all was settled, placeholders that are taken by what has ended, and those of
// reservations that are over.
func (r *Recording) heldInVain() (wrong []Violation) {
	last := map[compute.InstanceID]compute.Instance{}
	for _, w := range r.Log {
		if !w.Removed && !r.Settled.IsZero() && !w.Seen.After(r.Settled) {
			last[w.Instance.ID] = w.Instance
		}
	}
	for _, i := range last {
		if !i.HoldsRoom() {
			continue
		}
		if taker := i.Boot.Placeholder().Taker; taker != "" {
			if t, there := last[taker]; !there || t.Boot.In().ID != i.ID || t.State.Ended() && t.EndedAt.Before(r.Settled.Add(-endsIn)) {
				wrong = append(wrong, broken("reserved", i.ID, r.Settled, "%s is taken by %s, which has ended", i.Boot.Name, taker)...)
			}
		}
		a := r.reservationAsked(i)
		if a == nil || len(r.Schedule.World.Clocks) > 0 {
			continue
		}
		until := a.Began.Add((a.From + a.For).Duration())
		if latest(until, r.Calm, r.Up).Add(endsIn).Before(r.Settled) {
			wrong = append(wrong, broken("reserved", i.ID, r.Settled, "%s is %s, and its reservation was over at %s",
				i.Boot.Name, i.State, r.At(until))...)
		}
	}
	return wrong
}

// tooEarly finds what ran before its reservation began.
func (r *Recording) tooEarly(last map[compute.InstanceID]compute.Instance) (wrong []Violation) {
	if len(r.Schedule.World.Clocks) > 0 {
		return nil
	}
	for _, e := range r.Machines {
		i, ok := last[e.Instance]
		if !ok || e.Kind != fake.Launched || i.IsPlaceholder() {
			continue
		}
		for _, a := range r.Asks {
			if a.Op == schedule.LoadReserve && a.Name == string(i.Boot.Reservation()) && e.At.Before(a.Began.Add(a.From.Duration())) {
				wrong = append(wrong, broken("reserved", i.ID, e.At, "%s runs before %s begins", i.Boot.Name, a.Name)...)
			}
		}
	}
	return wrong
}

// reservationAsked is what an instance of a reservation was asked for by; nil: by nothing.
func (r *Recording) reservationAsked(i compute.Instance) *Ask {
	n := slices.IndexFunc(r.Asks, func(a Ask) bool {
		switch a.Op {
		case schedule.LoadTake:
			return a.ID == i.ID && a.Name == i.Boot.Name
		case schedule.LoadReserve:
			for part := range a.Count {
				if i.ID == wire.KeyedInstance(a.Project, a.PartName(part)) {
					return i.Boot.Placeholder().Of == compute.ReservationName(a.Name)
				}
			}
		}
		return false
	})
	if n < 0 {
		return nil
	}
	return &r.Asks[n]
}

// reservationOver says whether the time for which a placeholder was asked for may be over.
func (r *Recording) reservationOver(i compute.Instance, at time.Time) bool {
	a := r.reservationAsked(i)
	return a != nil && a.Op == schedule.LoadReserve && r.maybeOver(*a, at)
}

// ofReservations are the instances of the project that has some, as they were last.
func (r *Recording) ofReservations() map[compute.InstanceID]compute.Instance {
	of := map[compute.InstanceID]compute.Instance{}
	for id, i := range r.last() {
		if i.Project == schedule.Reserving {
			of[id] = i
		}
	}
	return of
}

// outlivesPower says of what is on a host whether a loss of power leaves it as it was: a placeholder is no machine, and its
// host holds it when it is back, whatever was decided meanwhile, until it hears of that.
func (r *Recording) outlivesPower() func(compute.InstanceID, compute.HostID) bool {
	reserving := r.ofReservations()
	return func(id compute.InstanceID, h compute.HostID) bool {
		i := reserving[id]
		return i.IsPlaceholder() && r.Schedule.LosesPower(h)
	}
}
