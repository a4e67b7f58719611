// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

var (
	ackKey   = new(kmsg.ShareAcknowledgeRequest).Key()
	fetchKey = new(kmsg.ShareFetchRequest).Key()
)

// never is a wait that no test outlives.
const never = time.Hour

func TestAckRidesOnTheNextFetch(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		for _, next := range []string{"the same queue", "another queue"} {
			t.Run(next, func(t *testing.T) {
				cfg, tap := brokertest.TestConfig(b), &brokertest.WireTap{}
				cfg.Topics.Prefix += next[:3]
				qs := initialised(t, cfg, cfg.Topics.Prefix+"g", "a", "b")
				brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "0", "1", "2")
				tapped := cfg
				tapped.Dial = tap.Dial
				p := pull(t, tapped, Options{MaxWait: short, AckWait: never})
				zero, one := p.takes(t, "0", qs[0]), p.takes(t, "1", qs[0])
				p.Ack(one, wire.AckAccept)
				p.Ack(zero, wire.AckRelease)
				if next == "another queue" {
					p.fetch(t, qs[1]) // and a is forgotten
				} else if r := p.record(t, qs[0]); r.Ref.Offset == 1 {
					t.Errorf("an accepted record came back: %+v", r.Ref)
				}
				if c := p.Counts(); c.AcksDone != 2 || c.AcksRefused != 0 || c.Sessions != 0 {
					t.Errorf("%+v", c)
				}
				if n := tap.Count(ackKey); n != 0 {
					t.Errorf("%d acks went by themselves", n)
				}
				if next == "another queue" {
					brokertest.Put(t, cfg, cfg.Topics.Build("b"), 0, "3")
					p.takes(t, "3", qs[1]) // a is not listed again by the acks
					p.takes(t, "0", qs[0])
				}
				if r := p.record(t, qs[0]); r.Ref.Offset == 1 {
					t.Errorf("an accepted record came back: %+v", r.Ref)
				}
			})
		}
	})
}

func TestAckWaitsWhileAFetchIsOpen(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg, tap := brokertest.TestConfig(b), &brokertest.WireTap{}
		q := initialised(t, cfg, b.Prefix+"g", "a")[0]
		brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "0")
		cfg.Dial = tap.Dial
		p := pull(t, cfg, Options{MaxWait: short, AckWait: time.Millisecond})
		ref := p.takes(t, "0", q)
		tap.Expect(t, fetchKey, 2, func() { p.open(t, q) })
		p.Ack(ref, wire.AckRenew)
		p.Ack(ref, wire.AckAccept)
		if r := p.result(t); r.Record != nil || r.Err != nil {
			t.Fatalf("%+v", r)
		}
		if c := p.settled(t, 1); c.AcksDone != 1 || tap.Count(ackKey) != 1 {
			t.Errorf("%+v, %d acks went by themselves", c, tap.Count(ackKey))
		}
		p.Ack(ref, wire.AckAccept)
		if c := p.Counts(); c.AcksDropped != 1 {
			t.Errorf("a second accept was not dropped: %+v", c)
		}
	})
}

// The locks of these tests: one is no longer than it must be, and longer than a busy
// machine may stand still; the other is as long as Kafka allows.
const (
	briefLock = 4 * time.Second
	longLock  = time.Minute
)

// locked is a broker where a record that is taken from the queues of group g is locked
// for so long.
func locked(t *testing.T, lock time.Duration, suite func(t *testing.T, b kafkatest.Broker)) {
	ms := strconv.FormatInt(lock.Milliseconds(), 10)
	t.Run("embedded", func(t *testing.T) {
		b, err := embedded.Start(embedded.Options{Configs: map[string]string{
			"group.share.record.lock.duration.ms": ms, "share.record.lock.sweep.interval.ms": "100",
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		suite(t, kafkatest.Broker{Addrs: b.Addrs(), Prefix: "t."})
	})
	t.Run("kafka", func(t *testing.T) {
		b := kafkatest.Kafka(t)
		settings := map[string]string{"share.record.lock.duration.ms": ms}
		setGroup(t, brokertest.TestConfig(b), b.Prefix+"g", settings)
		suite(t, b)
	})
}

// A record stays its holder's for longer than its lock while it is renewed,
// whether fetches are open or not, and is somebody else's after that.
func TestRenewal(t *testing.T) {
	locked(t, briefLock, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		qs := initialised(t, cfg, b.Prefix+"g", "a", "b")
		brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "0")
		holder := pull(t, cfg, Options{MaxWait: 100 * time.Millisecond})
		ref := holder.takes(t, "0", qs[0])
		stop := renew(t, holder, ref, qs[1])
		other := pull(t, cfg, Options{MaxWait: time.Second})
		for begun := time.Now(); time.Since(begun) < 9*time.Second; {
			if r := other.fetch(t, qs[0]); r.Record != nil {
				t.Errorf("a renewed record was delivered again: %+v", r.Ref)
			}
		}
		stop()
		done := holder.Counts()
		if done.AcksDone < 3 || done.AcksRefused+done.AcksUnknown > 0 {
			t.Errorf("renewals: %+v", done)
		}
		if again := other.takes(t, "0", qs[0]); again.Delivery != 2 {
			t.Errorf("delivery %d", again.Delivery)
		}
		holder.Ack(ref, wire.AckAccept)
		if c := holder.settled(t, done.AcksDone+1); c.AcksRefused != 1 || c.Sessions != 0 {
			t.Errorf("a late ack: %+v", c)
		}
	})
}

// renew keeps a record until the answer is called, and fetches another queue
// all the while.
func renew(t *testing.T, p *testPuller, ref wire.WorkRef, other wire.QueueRef) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			p.Ack(ref, wire.AckRenew)
			p.Open(ref.Session, []wire.QueueRef{other}, 0)
			if r := <-p.Results(); r.Err != nil || r.Record != nil {
				t.Errorf("%+v", r)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// What an idle puller holds is somebody else's as soon as it stops, whether the
// queue is still listed or not.
func TestStopReleases(t *testing.T) {
	locked(t, longLock, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		qs := initialised(t, cfg, b.Prefix+"g", "a", "b")
		brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "0", "1")
		brokertest.Put(t, cfg, cfg.Topics.Build("b"), 0, "2")
		p, other := pull(t, cfg, Options{MaxWait: short, AckWait: never}), pull(t, cfg, Options{MaxWait: short})
		accepted, taken := p.takes(t, "0", qs[0]), time.Now()
		p.takes(t, "1", qs[0])
		p.takes(t, "2", qs[1])
		other.fetch(t, qs[0]) // a is forgotten by one and listed by the other
		p.Ack(accepted, wire.AckAccept)
		p.end()
		other.takes(t, "1", qs[0])
		other.takes(t, "2", qs[1])
		if d := time.Since(taken); d > longLock-5*time.Second {
			t.Errorf("it took %v: they came back because their locks ended", d)
		}
		if r := other.fetch(t, qs...); r.Record != nil {
			t.Errorf("an accepted record came back: %q", r.Record.Value)
		}
	})
}

func TestStopAnswersTheOpenFetch(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg, tap := brokertest.TestConfig(b), &brokertest.WireTap{}
		cfg.Dial = tap.Dial
		q := initialised(t, cfg, b.Prefix+"g", "a")[0]
		brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "0")
		p, other := pull(t, cfg, Options{MaxWait: 2 * time.Second}), pull(t, cfg, Options{MaxWait: short})
		session := p.takes(t, "0", q).Session
		tap.Expect(t, fetchKey, tap.Count(fetchKey)+1, func() { p.open(t, q) })
		p.end()
		p.Open(session, []wire.QueueRef{q}, 0)
		for range 2 {
			if r := p.result(t); compute.KindOf(r.Err) != compute.KindUnavailable || r.Record != nil {
				t.Errorf("%+v", r)
			}
		}
		if _, err := p.Place(t.Context(), []wire.QueueRef{q}); compute.KindOf(err) != compute.KindUnavailable {
			t.Errorf("placed after the end: %v", err)
		}
		other.takes(t, "0", q)
	})
}

// setGroup sets what a share group is told to do.
func setGroup(t *testing.T, cfg kafka.Config, group string, settings map[string]string) {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	for name, value := range settings {
		rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		rc.Name, rc.Op, rc.Value = name, kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr(value)
		rr.Configs = append(rr.Configs, rc)
	}
	req.Resources = append(req.Resources, rr)
	resp, err := req.RequestWith(brokertest.Patient(t), brokertest.AnyClient(t, cfg))
	if err == nil {
		err = kerr.ErrorForCode(resp.Resources[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}
