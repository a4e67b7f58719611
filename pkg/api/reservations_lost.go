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

// rather says whether the reservation of a name is that of one placeholder rather than that of another: the one that
// has not ended, then one that was made, then the newest.
func rather(k, than *entry) bool {
	live := func(k *entry) bool { return k.instance == nil || k.instance.HoldsRoom() }
	switch {
	case live(k) != live(than):
		return live(k)
	case k.lostItsName() != than.lostItsName():
		return than.lostItsName()
	}
	return than.requestedAt().Before(k.requestedAt())
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
				From: of.From, Until: of.Until, Priority: rest.FromBoot("", "", i.Boot).Priority, Reason: s.instance(k, fields{"waiting"}).Reason,
			})
		}
		x := &out[len(out)-1]
		x.Placeholders = append(x.Placeholders, i.ID)
	}
	return out
}

// lost are the placeholders that were refused since another reservation had their name, by request, the newest first.
func (v *instances) lost(key compute.ReservationKey) (all []entry) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	t := v.byProject[key.Project]
	if t == nil {
		return nil
	}
	for k := range t.byReservation[key.Name] {
		if k.lostItsName() {
			all = append(all, *k)
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(b.instance.AcceptedAt.Compare(a.instance.AcceptedAt), cmp.Compare(a.instance.ID, b.instance.ID))
	})
	return all
}
