// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// takenOver has another conductor begin, whose clock is off by as much, and which has read the
// hosts topic, the last record of which is some seconds old.
func (k *cell) takenOver(off time.Duration) {
	k.off, k.logged = off, true
	k.c = k.conductor(nil)
	k.c.Catalog(offers(), true)
	k.c.Queues([]wire.Record{listed("m1.small")}, true)
	k.c.Hosts([]wire.Record{beaconAt(k.now.Add(-5 * time.Second))}, true)
	k.gainAll()
	k.c.Hosts([]wire.Record{beaconAt(k.now)}, true)
}

// asked is a request as an API node writes it whose clock is off by as much.
func (k *cell) asked(n int, off time.Duration, b compute.Boot) wire.Record {
	return k.requested(compute.Request{Op: compute.OpBoot, Project: "p", Instance: id(n), Boot: &b, At: k.now.Add(off)})
}

// TestClocksThatAreWrong: boots wait for as long as they should, whatever the clocks of API nodes and
// conductors show. The brokers' clocks count.
func TestClocksThatAreWrong(t *testing.T) {
	offs := []time.Duration{0, time.Hour, -time.Hour, 5 * 365 * 24 * time.Hour}
	for _, api := range offs {
		for _, first := range offs {
			for _, second := range offs {
				t.Run(fmt.Sprint(api, first, second), func(t *testing.T) {
					k := newCell(t)
					k.takenOver(first)
					k.read(
						k.asked(1, api, compute.Boot{Flavor: "m1.small"}),
						k.asked(2, api, compute.Boot{Flavor: "m1.small", OnNoCapacity: compute.FailAtOnce}),
						k.asked(3, api, compute.Boot{Flavor: "m1.small"}),
						k.report(compute.ReportClaim, 3, "p", "h1"),
					)
					res := k.read(k.report(compute.ReportFailed, 3, "p", "h1"))
					if !res.Wake.Equal(k.own().Add(time.Second)) {
						t.Errorf("wakes in %s", res.Wake.Sub(k.own()))
					}
					if inst := k.last("p", 1); !inst.Deadline.Equal(k.now.Add(time.Hour)) ||
						!inst.AcceptedAt.Equal(k.now) {
						t.Errorf("accepted at %s, deadline %s", inst.AcceptedAt, inst.Deadline)
					}
					k.takenOver(second)
					k.pass(900 * time.Millisecond)
					if !k.last("p", 3).PublishAt.Equal(epoch.Add(time.Second)) {
						t.Error("a back-off is over before its time")
					}
					k.pass(100 * time.Millisecond)
					if !k.last("p", 3).PublishAt.IsZero() {
						t.Error("a back-off is not over in time")
					}
					k.pass(8 * time.Second)
					k.want("p", 2, compute.StateQueued, "")
					k.pass(time.Second)
					k.want("p", 2, compute.StateError, compute.WaitingForCapacity)
					k.pass(time.Hour - 11*time.Second)
					k.want("p", 1, compute.StateQueued, "")
					k.pass(time.Second)
					k.want("p", 1, compute.StateError, compute.DeadlineExceeded)
				})
			}
		}
	}
}
