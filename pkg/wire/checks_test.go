// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// What no Berth ever writes is refused, however well it is encoded: a quota must
// not be turned round by a negative amount, nor a report be too long to send.
func TestNonsenseIsRefused(t *testing.T) {
	thousands := compute.Resources{}
	for i := range 5000 {
		thousands[compute.ResourceClass(fmt.Sprintf("CUSTOM_C%d", i))] = 1
	}
	long := strings.Repeat("x", 10_000)
	flavor := func(r compute.Resources) Record { f := sampleFlavor(); f.Resources = r; return EncodeFlavor(f) }
	queue := func(change func(*compute.Queue)) Record { q := sampleQueue(); change(&q); return EncodeQueue(q) }
	instance := func(change func(*compute.Instance)) Record {
		i := sampleInstanceRecord()
		change(&i)
		return EncodeInstance(i)
	}
	command := func(change func(*compute.Command)) Record {
		c := sampleCommand(compute.CommandBuild)
		change(&c)
		return EncodeCommand(c)
	}
	beacon := func(change func(*compute.Beacon)) Record { b := sampleBeacon(); change(&b); return EncodeBeacon(b) }
	for _, n := range []int64{-1, compute.MaxAmount + 1, math.MaxInt64, math.MinInt64} {
		r := compute.Resources{compute.VCPU: n}
		refuses(t, DecodeCatalog, flavor(r))
		refuses(t, DecodeCatalog, EncodeCapability(compute.Capability{
			Axis: "gpu", Values: []compute.CapabilityValue{{Value: "v", Consumes: r}},
		}))
		refuses(t, DecodeCatalog, EncodeQuota(compute.Quota{Project: "p", Limits: r}))
		refuses(t, DecodeQueue, queue(func(q *compute.Queue) { q.Resources = r }))
		refuses(t, DecodeInstance, instance(func(i *compute.Instance) { i.Resources = r }))
		refuses(t, DecodeBeacon, beacon(func(b *compute.Beacon) { b.Inventory.Totals = r }))
		refuses(t, DecodeBeacon, beacon(func(b *compute.Beacon) { b.Inventory.Unmanaged = r }))
		refuses(t, DecodeBeacon, beacon(func(b *compute.Beacon) { b.Inventory.Largest = r }))
		refuses(t, DecodeBeacon, beacon(func(b *compute.Beacon) { b.Largest = r }))
	}
	refuses(t, DecodeCatalog, flavor(nil))
	refuses(t, DecodeCatalog, flavor(thousands))
	refuses(t, DecodeQueue, queue(func(q *compute.Queue) { q.Name = "../x" }))
	refuses(t, DecodeQueue, queue(func(q *compute.Queue) { q.Group = long }))
	refuses(t, DecodeInstance, instance(func(i *compute.Instance) { i.Project = "a/b" }))
	refuses(t, DecodeInstance, instance(func(i *compute.Instance) { i.ID = "" }))
	refuses(t, DecodeInstance, instance(func(i *compute.Instance) { i.Host = "" }))
	refuses(t, DecodeInstance, instance(func(i *compute.Instance) { i.State = compute.StateNone }))
	refuses(t, DecodeInstance, instance(func(i *compute.Instance) { i.Claim = compute.ClaimID(long) }))
	refuses(t, DecodeCommand, command(func(c *compute.Command) { c.Project = compute.Project(long) }))
	refuses(t, DecodeCommand, command(func(c *compute.Command) { c.Claim = compute.ClaimID(long) }))
	refuses(t, DecodeCommand, command(func(c *compute.Command) { c.Power.Command = compute.CommandID(long) }))
	refuses(t, DecodeCommand, command(func(c *compute.Command) { c.Build.Project = "somebody-else" }))
	refuses(t, DecodeBeacon, beacon(func(b *compute.Beacon) { b.Journal = compute.JournalID(long) }))
	refuses(t, DecodeBeacon, beacon(func(b *compute.Beacon) {
		b.Mistrusts = []string{strings.Repeat("x",
			compute.MaxNameLength+1)}
	}))
	refuses(t, DecodeBeacon, beacon(func(b *compute.Beacon) { b.Mistrusts = make([]string, compute.MaxMistrusts+1) }))
	refuses(t, DecodeBeacon, beacon(func(b *compute.Beacon) {
		b.Taking = map[compute.QueueName]uint32{}
		for i := range compute.MaxTaking + 1 {
			b.Taking[compute.QueueName(fmt.Sprint(i))] = 1
		}
	}))
	refuses(t, DecodeBeacon, beacon(func(b *compute.Beacon) {
		b.Free = compute.Resources{compute.VCPU: math.MinInt64}
	}))
}

func refuses[W any](t *testing.T, decode func(Record) (W, error), rec Record) {
	t.Helper()
	if got, err := decode(rec); err == nil || compute.KindOf(err) != compute.KindInvalid || len(err.Error()) > 1000 {
		t.Errorf("%.200v, %.200v", got, err)
	}
}

// Kafka says -1 where a record has no time: that is no reason to be late.
func TestRecordsWithoutATime(t *testing.T) {
	q := sampleRequest(compute.OpDelete)
	q.At = time.Time{}
	rec := EncodeRequest(q)
	rec.Time = time.UnixMilli(-1).UTC()
	if got, err := DecodeRequest(rec); err != nil || !got.At.IsZero() {
		t.Errorf("%v, %v", got.At, err)
	}
}
