// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// deliveries are the queues' records that are not answered yet, by the instances that they are of. That of a set
// which is offered whole is of several, and is answered once each of them has an answer.
type deliveries map[compute.InstanceID]*delivery

// delivery is one of them.
type delivery struct {
	ref      wire.WorkRef
	open     map[compute.InstanceID]bool // that have no answer yet
	released bool                        // one of it may be had by another host
	renewed  time.Time                   // when its lock was renewed last; zero: never
}

// add takes a record of these instances. An earlier one of theirs counts no more: its lock is over.
func (d deliveries) add(ref wire.WorkRef, ids ...compute.InstanceID) {
	x := &delivery{ref: ref, open: map[compute.InstanceID]bool{}}
	for _, id := range ids {
		x.open[id], d[id] = true, x
	}
}

// sameRenewal is within what time one renewal is enough for all instances of a record.
const sameRenewal = time.Second

// answer is what is said of the record of an instance; 0: nothing, for others of it have no answer yet, or there is
// none. Another host may have it if it may have one of it: its claims of the others are denied.
func (d deliveries) answer(id compute.InstanceID, how wire.Ack, now time.Time) (wire.WorkRef, wire.Ack) {
	x := d[id]
	switch {
	case x == nil:
		return wire.WorkRef{}, 0
	case how == wire.AckRenew && !x.renewed.IsZero() && now.Sub(x.renewed) < sameRenewal:
		return x.ref, 0
	case how == wire.AckRenew:
		x.renewed = now
		return x.ref, how
	}
	delete(d, id)
	delete(x.open, id)
	x.released = x.released || how == wire.AckRelease
	switch {
	case len(x.open) > 0:
		return x.ref, 0
	case x.released:
		return x.ref, wire.AckRelease
	}
	return x.ref, wire.AckAccept
}
