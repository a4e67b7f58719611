// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/clienttest"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// Without faults each record is delivered once and accepted once.
func TestManyPullers(t *testing.T) {
	const pullers, queues, records = 100, 10, 2000
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		var names []compute.QueueName
		for i := range queues {
			names = append(names, compute.QueueName(fmt.Sprint("q", i)))
		}
		qs := initialised(t, cfg, b.Prefix+"g", names...)
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
		defer cancel()
		taken := make(chan string, records)
		var working sync.WaitGroup
		var all []*testPuller
		for i := range pullers {
			p := pull(t, cfg, Options{MaxWait: time.Second})
			all = append(all, p)
			mine := []wire.QueueRef{qs[i%queues], qs[(i/queues+i+1)%queues]}
			working.Go(func() { work(ctx, p, mine, taken) })
		}
		fill(t, cfg, names, records)
		seen := map[string]int{}
		for len(seen) < records && ctx.Err() == nil {
			select {
			case v := <-taken:
				seen[v]++
			case <-ctx.Done():
			}
		}
		cancel()
		working.Wait()
		var sum Counts
		for _, p := range all {
			p.settled(t, p.Counts().Records)
			p.end()
			c := p.Counts()
			sum.Records += c.Records
			sum.AcksDone += c.AcksDone
			sum.AcksRefused += c.AcksRefused
			sum.AcksUnknown += c.AcksUnknown
			sum.Sessions += c.Sessions
		}
		if len(seen) != records || sum.Records != records || sum.AcksRefused+sum.AcksUnknown+sum.Sessions != 0 {
			t.Errorf("%d of %d records came: %+v", len(seen), records, sum)
		}
		for _, q := range unfinished(t, cfg, qs) {
			t.Errorf("queue %s: finished up to %d of %d", q.Queue.Name, q.Start, q.LogEnd)
		}
	})
}

// unfinished are the queues that are not finished. What the brokers wrote down last may be behind where several
// hosts acknowledged at once (admin.QueueProgress.Start): where it seems to be, an acknowledgement that is alone tells.
func unfinished(t testing.TB, cfg kafka.Config, qs []wire.QueueRef) (left []admin.QueueProgress) {
	t.Helper()
	seem := func(refs []wire.QueueRef) (some []admin.QueueProgress) {
		for _, q := range progress(t, clienttest.Admin(t, cfg), refs) {
			if q.Err != nil || q.Start != q.LogEnd {
				some = append(some, q)
			}
		}
		return some
	}
	p := pull(t, cfg, Options{MaxWait: time.Second})
	defer p.end()
	for i, q := range seem(qs) {
		fill(t, cfg, []compute.QueueName{q.Queue.Name}, 1)
		r := p.record(t, q.Queue)
		if r.Ref.Offset != q.LogEnd {
			t.Errorf("queue %s: the record at %d came once more", q.Queue.Name, r.Ref.Offset)
		}
		p.Ack(r.Ref, wire.AckAccept)
		p.settled(t, uint64(i+1))
		left = append(left, seem([]wire.QueueRef{q.Queue})...)
	}
	return left
}

// work takes and accepts what comes until ctx ends.
func work(ctx context.Context, p *testPuller, queues []wire.QueueRef, taken chan<- string) {
	for ctx.Err() == nil {
		sessions, err := p.Place(ctx, queues)
		if err != nil {
			continue
		}
		for id, qs := range sessions {
			p.Open(id, qs, 0)
			if r := <-p.Results(); r.Record != nil {
				p.Ack(r.Ref, wire.AckAccept)
				taken <- string(r.Record.Value)
			}
		}
	}
}

func fill(t testing.TB, cfg kafka.Config, names []compute.QueueName, records int) {
	t.Helper()
	var recs []wire.Record
	for i := range records {
		v := fmt.Append(nil, i)
		recs = append(recs, wire.Record{Key: v, Value: v}.To(cfg.Topics.Build(names[i%len(names)]), 0))
	}
	p := clienttest.Producer(t, cfg)
	for some := range slices.Chunk(recs, 50) {
		if err := p.Send(brokertest.Patient(t), some...); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPullersLeaveNothingBehind(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		q := initialised(t, cfg, b.Prefix+"g", "a")[0]
		before := goleak.IgnoreCurrent()
		for i := range 5 {
			put := clienttest.Producer(t, cfg)
			if err := put.Send(
				brokertest.Patient(t), wire.Record{Value: fmt.Append(nil, i)}.To(cfg.Topics.Build("a"), 0),
			); err != nil {
				t.Fatal(err)
			}
			put.Close()
			p := pull(t, cfg, Options{MaxWait: 30 * time.Second})
			p.Ack(p.record(t, q).Ref, wire.AckAccept)
			p.settled(t, 1)
			if i%2 == 0 {
				p.open(t, q)
			}
			p.end()
		}
		brokertest.LeavesNothing(t, before)
	})
}
