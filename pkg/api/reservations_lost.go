// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// Two requests for one name may be accepted by two nodes at once, before either hears of the other. The conductor
// makes the one that it reads first, and the placeholders of the other end at once: that one has *lost* its name. It
// is told beside the one that has the name, and never in its place.

// lostItsName says whether a placeholder was refused since there was another reservation of its name.
func (k entry) lostItsName() bool {
	i := k.instance
	return i != nil && i.State.Ended() && i.Attempt == 0 && i.Reason != nil && i.Reason.Code == compute.RequestDiffers
}

// notEnded says whether a placeholder holds or waits for room, or may come to.
func (k entry) notEnded() bool { return k.instance == nil || k.instance.HoldsRoom() }

// hasNameBefore says whether of two placeholders the name means the reservation of the first: of one that was made and
// has not ended; else of the request that is first in the log, by which the conductor goes too and not by the clocks of
// nodes; else of the newest that was made; else of the newest that was refused.
func (v *instances) hasNameBefore(a, b *entry) bool {
	rank := func(k *entry) int {
		switch {
		case k.instance == nil:
			return 1
		case k.instance.HoldsRoom():
			return 0
		case !k.lostItsName():
			return 2
		}
		return 3
	}
	x, y := rank(a), rank(b)
	switch {
	case x != y:
		return x < y
	case a.instance == nil:
		return v.undecided[a].offset < v.undecided[b].offset
	}
	return a.requestedAt().After(b.requestedAt())
}

// sameRequest says whether a placeholder is of the reservation of another one of that name, whose name it is.
func (v *instances) sameRequest(k, named *entry) bool {
	if k.instance == nil && named.instance == nil {
		return v.undecided[k].offset == v.undecided[named].offset
	}
	return sameReservationOf(k, named)
}

// mostLost is how many requests that have lost a name are told, the newest.
const mostLost = 20

// lostTo are the requests that were refused since a reservation had their name, the newest first.
func (s *presenter) lostTo(key compute.ReservationKey, has entry) (out []rest.RefusedReservation) {
	if has.instance == nil || has.lostItsName() {
		return nil
	}
	var last entry
	for _, k := range s.views.instances.lost(key) {
		i := k.instance
		if i.EndedAt.Before(has.instance.QueuedAt) {
			continue // to another one, before
		}
		if len(out) == 0 || !sameReservationOf(&k, &last) {
			if last = k; len(out) == mostLost {
				break
			}
			of := i.Boot.Placeholder()
			out = append(out, rest.RefusedReservation{
				At: i.AcceptedAt.UTC(), Flavor: i.Boot.Flavor, With: i.Boot.With, Count: int(of.Size),
				From: of.From, Until: of.Until, Priority: rest.FromBoot("", "", i.Boot).Priority,
				Reason: s.instance(k, fields{"waiting"}).Reason,
			})
		}
		x := &out[len(out)-1]
		x.Placeholders = append(x.Placeholders, i.ID)
	}
	return out
}

// lost are the placeholders that were refused since another reservation had their name, by request, the newest first.
func (v *instances) lost(key compute.ReservationKey) (all []entry) {
	all = v.ofName(key, (*entry).lostItsName)
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(b.instance.AcceptedAt.Compare(a.instance.AcceptedAt), cmp.Compare(a.instance.ID, b.instance.ID))
	})
	return all
}
