// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// beacons is what was last said of the host.
type beacons struct {
	last    compute.Beacon
	sentAt  time.Time // zero: never
	sending bool
	now     bool // it is due however short ago the last one was
	freed   bool // room came back since the last one: what waits for it is not rung for before it is told
	due     time.Time
}

// begin is the record of a beacon that is about to be sent.
func (x *beacons) begin(b compute.Beacon, topics wire.Topics, now time.Time) wire.Record {
	x.sending, x.sentAt, x.due, x.last, x.now, x.freed = true, now, time.Time{}, b, false, false
	return wire.EncodeBeacon(b).To(topics.Hosts(), wire.AnyPartition)
}

// state is what the host is, and why.
func (l *loop) state(now time.Time) (compute.HostState, string) {
	switch desired := l.host.Desired; {
	case desired.State == compute.HostDisabled || desired.State == compute.HostDraining:
		return desired.State, desired.Reason
	case l.twins.why != "":
		return compute.HostQuarantined, l.twins.why
	case l.view.trouble != "":
		return compute.HostQuarantined, l.view.trouble
	case l.view.full != "":
		return compute.HostQuarantined, l.view.full
	case l.hearing.deaf:
		return compute.HostQuarantined, deafWhy
	case l.calls.stuck() != nil:
		x := l.calls.stuck()
		return compute.HostQuarantined, fmt.Sprintf(
			"%s instance %s has not ended in %v: something on the host hangs", x.stage, x.id, x.within+stuckAfter)
	case l.starts.host.Quarantined(now):
		return compute.HostQuarantined, "starts failed in a row, the last: " + l.starts.host.Reason
	}
	return compute.HostEnabled, ""
}

// publishBeacon says what the host is, every now and then, and soon when it changed.
func (l *loop) publishBeacon(now time.Time) {
	late := now.Sub(l.beacon.sentAt) >= l.o.Timing.Beacon
	if l.beacon.sending && !late || !l.view.known && l.view.trouble == "" {
		if l.beacon.due = (time.Time{}); l.beacon.sending {
			l.beacon.due = l.beacon.sentAt.Add(l.o.Timing.Beacon)
		}
		return
	}
	soon := l.o.Timing.BeaconApart
	if l.beacon.freed {
		soon = beaconsApart
	}
	l.beacon.due = l.beacon.sentAt.Add(soon)
	if !l.beacon.now && !l.beacon.sentAt.IsZero() && now.Before(l.beacon.due) {
		return // whatever changed
	}
	b := l.beaconNow(now)
	l.a.see(b)
	apart := l.o.Timing.Beacon
	switch {
	case l.beacon.now:
		apart = 0
	case l.beacon.freed && !same(b, l.beacon.last):
		apart = soon
	case b.Asks, !l.fetches.Placing() && !same(b, l.beacon.last): // while placing, what it waits on is about to be known
		apart = l.o.Timing.BeaconApart
	}
	if l.beacon.due = l.beacon.sentAt.Add(apart); !l.beacon.sentAt.IsZero() && now.Before(l.beacon.due) {
		return
	}
	rec := l.beacon.begin(b, l.o.Topics, now)
	l.workers.Go(func() {
		ctx, cancel := context.WithTimeout(l.work, l.o.Timing.Beacon)
		defer cancel()
		err := l.o.Reporter.Send(ctx, rec)
		l.a.inbox.put(func(l *loop) {
			l.beacon.sending = false
			if err != nil {
				l.log.Debug("a beacon was not acknowledged", zap.Error(err))
				l.beacon.last = compute.Beacon{} // said again soon
			}
		})
	})
}

func (l *loop) beaconNow(now time.Time) compute.Beacon {
	b := compute.Beacon{
		Host: l.o.Host, Journal: l.twins.me.Journal, Started: l.twins.me.Started, Age: max(1, now.Sub(l.began)),
		DesiredSeen: l.host.Desired.Version,
		Inventory:   l.view.host.Inventory, Free: compute.Resources{}, Largest: l.room().Largest(), At: l.o.Now().UTC(),
		Weigher: l.o.Weigher, Labels: l.o.Labels, Rings: true, Twins: true,
		Warnings: slices.Concat(l.o.Driver.Capabilities().Warnings, l.lacking.list(now)), Opens: l.o.Keys.IDs(),
		Saves: true, Saving: l.saving(now), Preempts: true, Preemptible: l.tasks.preemptible(now), Taking: l.tasks.taking(),
		Reads: l.o.Reads, Asks: l.twins.asks, Beside: l.twins.beside, Mistrusts: l.starts.mistrusted(now),
	}
	if b.State, b.Reason = l.state(now); b.State == compute.HostDraining {
		b.Deadline = l.host.Desired.Deadline.UTC()
	}
	for class, n := range l.room().Free() {
		b.Free[class] = max(0, n)
	}
	if b.Machines, b.Building = l.tasks.count(); !l.view.known {
		// A host is not empty because nobody knows what is on it: until the hypervisor has answered, the journal
		// counts.
		for _, e := range l.a.begin.Entries {
			if t := recall(e); t.Building() {
				b.Building++
			} else {
				b.Machines++
			}
		}
	}
	b.Waiting = l.fetches.Waiting()
	return b
}

// same says whether nothing changed that anybody waits to be told. Which queues a host
// waits on changes all the time, and is no news.
func same(a, b compute.Beacon) bool {
	return a.State == b.State && a.Reason == b.Reason && a.Asks == b.Asks && a.DesiredSeen == b.DesiredSeen &&
		a.Deadline.Equal(b.Deadline) && a.Machines == b.Machines && a.Building == b.Building && a.Free.Equal(b.Free) &&
		maps.Equal(a.Largest, b.Largest) &&
		a.Inventory.Totals.Equal(b.Inventory.Totals) && a.Inventory.Reserved.Equal(b.Inventory.Reserved) &&
		a.Inventory.Unmanaged.Equal(b.Inventory.Unmanaged) && maps.Equal(a.Inventory.Largest, b.Inventory.Largest) &&
		slices.Equal(a.Inventory.Traits, b.Inventory.Traits) && slices.Equal(a.Warnings, b.Warnings) &&
		slices.Equal(a.Mistrusts, b.Mistrusts) && a.Saving.For() == b.Saving.For() &&
		(a.Saving == nil || a.Saving.Preempt == b.Saving.Preempt) &&
		a.Preemptible.Equal(b.Preemptible)
}
