// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/publishkey"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/verify"
	"github.com/berth-project/berth/pkg/wire"
)

// Verify compares what the cell's topics say.
func (c Cell) Verify(ctx context.Context) (tally verify.Tally, found []verify.Difference, err error) {
	b := newTables(c.Topics(), c.logTime())
	readers := syncers{
		c.Committed(b.topics.Instances(), b.instances.take),
		c.Table(b.topics.Hosts(), b.hosts.take),
		c.Table(b.topics.Queues(), b.queues.take),
		c.Table(b.topics.Catalog(), b.catalog.take),
	}
	var parts []service.Part
	for _, r := range readers {
		parts = append(parts, r)
	}
	err = service.During(ctx, service.Together(parts...), func(ctx context.Context) error {
		b.time.learn(ctx, b.hosts)
		looked := b.facts(c.Partitions)
		tally, found = verify.Compare(looked)
		if !slices.ContainsFunc(found, restsOnHost) {
			return nil
		}
		// Both sides move: a host is asked for nothing here, so it is waited for.
		if err := b.awaitBeacons(ctx, found, looked.Beacons); err != nil {
			return err
		}
		if err := readers.Sync(ctx); err != nil {
			return err
		}
		first := found
		tally, found = verify.Compare(b.facts(c.Partitions))
		found = slices.DeleteFunc(
			found,
			func(d verify.Difference) bool { return restsOnHost(d) && !foundBefore(first, d) },
		)
		return nil
	})
	if err == nil && ctx.Err() != nil {
		err = compute.Unavailable("read the cell's topics", ctx.Err())
	}
	return tally, found, err
}

// Confirm has the hosts that differences rest on asked about what they have, in requests that key signs; nil: none
// does.
func (c Cell) Confirm(
	ctx context.Context, found []verify.Difference, key *publishkey.Key,
) (asked []compute.HostID, err error) {
	producer, err := write.NewProducer(c.Kafka)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	to := publishkey.Sender(producer)
	if key != nil {
		to = publishkey.Signed(to, c.Topics().Requests(), *key)
	}
	for _, d := range found {
		if d.Level != verify.Fail || !restsOnHost(d) || slices.Contains(asked, d.Host) {
			continue
		}
		rec := wire.EncodeRequest(compute.Request{Op: compute.OpConfirm, Host: d.Host, At: time.Now()})
		var everywhere []wire.Record
		for p := range c.Partitions {
			everywhere = append(everywhere, rec.To(c.Topics().Requests(), p))
		}
		if err := to.Send(ctx, everywhere...); err != nil {
			return asked, fmt.Errorf("have host %s asked: %w", d.Host, err)
		}
		asked = append(asked, d.Host)
	}
	return asked, nil
}

func restsOnHost(d verify.Difference) bool { return d.Host != "" }

// foundBefore says whether the same was found at the first look.
func foundBefore(first []verify.Difference, d verify.Difference) bool {
	return slices.ContainsFunc(first, func(e verify.Difference) bool { return e.About == d.About && e.Why == d.Why })
}

// tables are all that is compared.
type tables struct {
	topics                            wire.Topics
	time                              *logTime
	instances, hosts, queues, catalog *latest
}

func newTables(names wire.Topics, t *logTime) *tables {
	return &tables{
		topics: names, time: t,
		instances: newLatest(t), hosts: newLatest(t), queues: newLatest(t), catalog: newLatest(t),
	}
}

func (b *tables) facts(partitions int32) verify.Facts {
	f := verify.Facts{
		Now:     b.time.now(),
		Home:    func(p compute.Project) int32 { return wire.Partition(p, partitions) },
		Beacons: b.beacons(),
		Queues:  decoded(b.queues, wire.DecodeQueue),
	}
	for _, r := range b.instances.all() {
		inst, err := wire.DecodeInstance(r)
		f.Records = append(
			f.Records,
			verify.Record{Partition: r.Partition, Key: string(r.Key), Instance: inst, Err: err},
		)
	}
	for _, e := range decoded(b.catalog, wire.DecodeCatalog) {
		if e.Quota != nil {
			f.Quotas = append(f.Quotas, *e.Quota)
		}
	}
	return f
}

func (b *tables) beacons() []compute.Beacon { return decoded(b.hosts, wire.DecodeBeacon) }

// beaconPatience is how long a host's next word is waited for: it comes every
// 15 s from one that is well.
const beaconPatience = 40 * time.Second

// awaitBeacons waits until every host that a difference rests on has spoken
// again, after its beacon that was looked at: both have the time of the log, this
// machine's clock shows another. One that does not is silent soon, and shows as that.
func (b *tables) awaitBeacons(ctx context.Context, found []verify.Difference, looked []compute.Beacon) error {
	enough := time.NewTimer(beaconPatience)
	defer enough.Stop()
	last := map[compute.HostID]time.Time{}
	for _, beacon := range looked {
		last[beacon.Host] = beacon.At
	}
	for {
		spoken := map[compute.HostID]bool{}
		for _, beacon := range b.beacons() {
			spoken[beacon.Host] = beacon.At.After(last[beacon.Host])
		}
		if !slices.ContainsFunc(found, func(d verify.Difference) bool { return restsOnHost(d) && !spoken[d.Host] }) {
			return nil
		}
		select {
		case <-b.hosts.news:
		case <-enough.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
