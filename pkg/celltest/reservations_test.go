// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// held waits until hosts hold so many of a reservation, of which so many are taken.
func (r *rig) held(c *client.Client, name compute.ReservationName, held, taken int) {
	r.t.Helper()
	r.poll("room is held", func() bool {
		v, err := c.Reservation(r.t.Context(), name)
		return err == nil && v.Held == held && v.Taken == taken
	})
}

// stillQueued says that what waited is not running.
func (r *rig) stillQueued(ids []compute.InstanceID) {
	r.t.Helper()
	for _, id := range ids {
		if s := r.seen.get(id).State; s != compute.StateQueued {
			r.t.Errorf("%s, for which there is no room, is %s", id, s)
		}
	}
}

// On a host that holds room for a reservation, others fill all but that, and more of them wait. What is booted into the
// reservation runs all the same; its room is held again once it is deleted, also by an agent that was started anew. When
// the reservation ends, what waited gets its room, and what was booted into it goes on.
func TestReservation(t *testing.T) {
	t.Parallel()
	b := kafkatest.Embedded(t)
	r := newRig(t, b, smallHosts(1)...)
	r.up()
	c := r.as("p")
	r.offer(c, nil, []compute.Flavor{small("m1.small")})
	_, err := c.Reserve(t.Context(), client.ReservationWish{
		Name: "nightly", Flavor: "m1.small", Count: 3, For: rest.Duration(time.Hour),
	})
	r.must(err)
	r.held(c, "nightly", 3, 0)
	others := r.boot(c, 13, compute.Boot{Flavor: "m1.small"})
	r.await(others, compute.StateActive)
	waiting := r.boot(c, 2, compute.Boot{Flavor: "m1.small"})

	into := compute.Boot{Flavor: "m1.small"}
	into.Reserving("nightly")
	taken := r.boot(c, 2, into)
	r.await(taken, compute.StateActive)
	r.held(c, "nightly", 3, 2)
	r.stillQueued(waiting)
	q, err := c.Quota(t.Context(), "p")
	r.must(err)
	for _, one := range q.Resources { // two of the placeholders do not count, what took them does
		if one.Class == compute.Instances && one.Used != 18 {
			t.Errorf("the project uses %d instances", one.Used)
		}
	}
	list, err := c.Instances(t.Context(), client.Filter{})
	if err != nil || len(list) != 17 {
		t.Errorf("%d instances are listed: %v", len(list), err)
	}

	r.delete(c, taken[:1])
	r.held(c, "nightly", 3, 1)
	r.stop(string(r.hosts[0].ID))
	r.startAgents(r.hosts...)
	more := r.boot(c, 1, into)
	r.await(more, compute.StateActive)
	r.held(c, "nightly", 3, 2)
	r.stillQueued(waiting)
	r.sane()

	_, err = c.DeleteReservation(t.Context(), "nightly")
	r.must(err)
	r.poll("the first of those that wait runs", func() bool {
		return r.seen.get(waiting[0]).State == compute.StateActive || r.seen.get(waiting[1]).State == compute.StateActive
	})
	for _, id := range append(more, taken[1]) {
		if s := r.seen.get(id).State; s != compute.StateActive {
			t.Errorf("%s, which was booted into the reservation, is %s when that ends", id, s)
		}
	}
	r.sane()
}
