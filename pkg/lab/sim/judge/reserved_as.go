// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
)

// withReserved adds all placeholders, and all boots into reservations, to the others that are wanted. All of one reservation
// are of its class, and of the size that its flavor had when it was admitted, however long after that a boot comes.
func (r *Recording) withReserved(all map[string]Wanted) map[string]Wanted {
	of := map[compute.ReservationName]Wanted{}
	for _, a := range r.Asks {
		if a.Op != schedule.LoadReserve {
			continue
		}
		x := r.reservedAs(a)
		of[compute.ReservationName(a.Name)] = x
		for part := range a.Count {
			y := x
			y.Name = a.PartName(part)
			y.Boot.Name, y.Until = y.Name, x.Begins.Add(a.For.Duration())
			all[y.Name] = y
		}
	}
	for _, a := range r.Asks {
		if a.Op != schedule.LoadTake {
			continue
		}
		x := want(r.Schedule, a)
		if y, ok := of[x.Boot.Reservation()]; ok {
			rules := *x.Boot.Rules
			rules.Priority = y.Boot.Priority()
			x.Boot.Rules = &rules
			x.Begins, x.Queue, x.Resources, x.Required = y.Begins, y.Queue, y.Resources, y.Required
		}
		all[a.Name] = x
	}
	return all
}

// reservedAs is what each placeholder of a reservation is to be. Where its flavor became another, that is what the first record
// of one has, if the flavor may have been that then.
func (r *Recording) reservedAs(a Ask) Wanted {
	x := want(r.Schedule, a)
	for _, w := range r.Log {
		i := w.Instance
		if w.Removed || len(i.Resources) == 0 || !isPlaceholderOf(a, i.ID) || !r.Schedule.Resizes(x.Boot.Flavor) {
			continue
		}
		for _, f := range r.flavorsAt(x.Boot.Flavor, latest(a.Began, i.AcceptedAt), w.Seen) {
			if x = wantOf(r.Schedule, a, f, true); x.Resources.Equal(i.Resources) {
				break
			}
		}
		break
	}
	x.Begins = a.Began.Add(a.From.Duration())
	return x
}

func isPlaceholderOf(a Ask, id compute.InstanceID) bool {
	for part := range a.Count {
		if id == wire.KeyedInstance(a.Project, a.PartName(part)) {
			return true
		}
	}
	return false
}

// refusedInReservations: what is refused, or fails, in a reservation has a cause in what was asked for or in what went wrong.
func (r *Recording) refusedInReservations() (wrong []Violation) {
	asked, last := r.withReserved(map[string]Wanted{}), map[compute.InstanceID]compute.Instance{}
	for _, w := range r.Log {
		i, old := w.Instance, last[w.Instance.ID]
		last[i.ID] = i
		x, ok := asked[i.Boot.Name]
		if w.Removed || !ok || i.State != compute.StateError || old.State == compute.StateError {
			continue
		}
		if i.Reason == nil || !r.mayEnd(old, w, x) && !r.mayEndReserved(w, x) {
			wrong = append(wrong, broken("refused", i.ID, w.Seen, "%s ended without a cause: %s", i.Boot.Name, i.Reason)...)
		}
	}
	return wrong
}

// mayEndReserved says whether there is a cause for an error that only a placeholder, or what takes one, can end with.
func (r *Recording) mayEndReserved(w Written, x Wanted) bool {
	n := x.Boot.Reservation()
	var of *Ask
	taking, gone := 0, 0
	for _, a := range r.Asks {
		switch {
		case a.Began.After(w.Seen):
		case a.Op == schedule.LoadReserve && (a.Name == string(n) || a.Name == x.Ask.Name || isPlaceholderOf(a, w.Instance.ID)):
			of = &a
		case a.Op == schedule.LoadTake && a.Load.Boot.Reservation() == n:
			taking++
		}
	}
	if of == nil {
		return w.Instance.Reason.Code == compute.NoSuchReservation
	}
	for _, a := range r.Asks {
		if a.Op == schedule.LoadDelete && !a.Began.After(w.Seen) && isPlaceholderOf(*of, a.ID) {
			gone++
		}
	}
	over := !w.Seen.Add(r.Schedule.World.Drifts()).Before(of.Began.Truncate(time.Millisecond).Add((of.From + of.For).Duration()))
	switch w.Instance.Reason.Code {
	case compute.ReservationEnded:
		return over || gone > 0
	case compute.ReservationFull:
		return taking > of.Count-gone
	case compute.NoSuchReservation: // it has ended, was refused, or was not admitted yet
		return over || gone >= of.Count || of.Answered.IsZero() || of.Answered.After(x.Began) || r.refusedWhole(*of) ||
			!r.admittedBefore(*of, x.Began)
	}
	return false
}

// refusedWhole says whether the placeholders of a reservation have ended in error, as they were admitted.
func (r *Recording) refusedWhole(a Ask) bool {
	for _, w := range r.Log {
		if isPlaceholderOf(a, w.Instance.ID) && w.Instance.State == compute.StateError {
			return true
		}
	}
	return false
}

// admittedBefore says whether what a reservation became was in the log at a time.
func (r *Recording) admittedBefore(a Ask, at time.Time) bool {
	for _, w := range r.Log {
		if isPlaceholderOf(a, w.Instance.ID) {
			return w.Seen.Before(at)
		}
	}
	return false
}
