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
	of := r.reservationThen(w.Seen, func(a Ask) bool {
		return a.Name == string(n) || a.Name == x.Ask.Name || isPlaceholderOf(a, w.Instance.ID)
	})
	if of == nil {
		return w.Instance.Reason.Code == compute.NoSuchReservation
	}
	taking, gone := 0, r.goneOf(*of, w.Seen)
	for _, a := range r.Asks {
		if a.Op == schedule.LoadTake && a.Load.Boot.Reservation() == n && !a.Began.After(w.Seen) {
			taking++
		}
	}
	switch w.Instance.Reason.Code {
	case compute.ReservationEnded:
		return r.maybeOver(*of, w.Seen) || gone > 0 && !isPlaceholderOf(*of, w.Instance.ID)
	case compute.ReservationFull:
		return taking > of.Count-gone
	case compute.NoSuchReservation:
		return r.mayLackReservation(*of, x.Began, w.Seen) ||
			!r.admittedBefore(*of, x.Began) && (!r.Schedule.Decides() || x.Began.Before(r.admittedBy(*of)))
	}
	return false
}

// admittedIn is how long after a reservation was answered it is admitted, where nothing goes wrong with conductors.
const admittedIn = 3 * time.Second

// admittedBy is when a reservation that was answered is admitted at the latest then.
func (r *Recording) admittedBy(a Ask) time.Time {
	return a.Answered.Add(admittedIn + r.Schedule.Slack() + r.Schedule.Flood())
}

// mayKnowNoReservation says whether a node may not have known the reservation that was to be taken of.
func (r *Recording) mayKnowNoReservation(a Ask) bool {
	of := r.reservationThen(a.Answered, func(b Ask) bool { return b.Name == string(a.Load.Boot.Reservation()) })
	if of == nil || len(r.Schedule.Faults) > 0 || r.mayLackReservation(*of, a.Began, a.Answered) {
		return true
	}
	return a.Began.Before(latest(r.admittedBy(*of), r.Start.Add(nodesOpen)))
}

// reservationThen is what was asked for by a time.
func (r *Recording) reservationThen(at time.Time, is func(Ask) bool) (of *Ask) {
	for _, a := range r.Asks {
		if a.Op == schedule.LoadReserve && !a.Began.After(at) && is(a) {
			of = &a
		}
	}
	return of
}

// goneOf is how many placeholders of a reservation may have been deleted, or have failed, by a time. A failure is
// judged by itself.
func (r *Recording) goneOf(of Ask, at time.Time) int {
	gone := map[compute.InstanceID]bool{}
	for _, a := range r.Asks {
		if a.Op == schedule.LoadDelete && !a.Began.After(at) && isPlaceholderOf(of, a.ID) {
			gone[a.ID] = true
		}
	}
	for _, w := range r.Log {
		if i := w.Instance; i.State == compute.StateError && !w.Seen.After(at) && isPlaceholderOf(of, i.ID) {
			gone[i.ID] = true
		}
	}
	return len(gone)
}

// maybeOver says whether the time of a reservation may have been over.
func (r *Recording) maybeOver(of Ask, at time.Time) bool {
	ends := of.Began.Add(of.From.Duration() + of.For.Duration()).Truncate(time.Millisecond) // requests count in these
	return !at.Add(r.Schedule.World.Drifts()).Before(ends)
}

// mayLackReservation says whether a reservation may have ended by a time, was refused, or was not there when something
// began.
func (r *Recording) mayLackReservation(of Ask, began, at time.Time) bool {
	return r.maybeOver(of, at) || r.goneOf(of, at) >= of.Count || of.Answered.IsZero() || of.Answered.After(began) ||
		r.refusedWhole(of)
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
