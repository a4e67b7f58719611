// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
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
		p := pull(t, cfg, Options{MaxWait: never, AckWait: time.Millisecond})
		ref := p.takes(t, "0", q)
		tap.Expect(t, fetchKey, tap.Count(fetchKey)+1, func() { p.open(t, q) })
		p.Ack(ref, wire.AckRenew)
		p.Ack(ref, wire.AckAccept)
		brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "1") // ends the fetch
		if r := p.result(t); r.Err != nil || r.Record == nil || string(r.Record.Value) != "1" {
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

// briefLock is the shortest lock of these tests.
const briefLock = 4 * time.Second

// inTime tries something on the embedded broker in virtual time, where it is in time, and on Kafka until it was in
// time: on a slow machine that takes longer, and fails as little as on a fast one. The embedded broker has one lock for
// all groups. Kafka is told by initialisedFor, and with each try the lock is longer, up to most.
func inTime(
	t *testing.T, first, most time.Duration,
	try func(t *testing.T, cfg kafka.Config, group string, lock time.Duration) (tested bool),
) {
	t.Run("embedded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var network kfake.VirtualNetwork
			b, err := embedded.Start(embedded.Options{Listen: network.Listen, Configs: map[string]string{
				"group.share.record.lock.duration.ms": strconv.FormatInt(first.Milliseconds(), 10),
				"share.record.lock.sweep.interval.ms": "100",
			}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(b.Close)
			cfg := kafka.Config{Brokers: b.Addrs(), Topics: wire.Topics{Prefix: "t."}, Dial: network.DialContext}
			if !try(t, cfg, "g", first) {
				t.Error("not in time, though no time passes but what is waited for")
			}
		})
	})
	t.Run("kafka", func(t *testing.T) {
		b := kafkatest.Kafka(t)
		cfg, lock := brokertest.TestConfig(b), first
		for n := 0; !try(t, cfg, b.Prefix+"g", lock); n++ {
			cfg.Topics.Prefix, lock = b.Prefix+strconv.Itoa(n), min(2*lock, most)
		}
	})
}

// initialisedFor is initialised, and has the group lock records for so long.
func initialisedFor(
	t *testing.T, cfg kafka.Config, group string, lock time.Duration, names ...compute.QueueName,
) []wire.QueueRef {
	t.Helper()
	qs := initialised(t, cfg, group, names...)
	setGroup(t, cfg, group, map[string]string{
		"share.record.lock.duration.ms": strconv.FormatInt(lock.Milliseconds(), 10),
	})
	return qs
}

// A record stays its holder's for longer than its lock while it is renewed,
// whether fetches are open or not, and is somebody else's after that.
func TestRenewal(t *testing.T) {
	inTime(t, briefLock, time.Minute, renewed) // Kafka's longest by default
}

// renewed says whether the record was renewed in time. If it was not, it may have been delivered again: nothing was
// tested.
func renewed(t *testing.T, cfg kafka.Config, group string, lock time.Duration) bool {
	t.Helper()
	qs := initialisedFor(t, cfg, group, lock, "a", "b")
	holder, other := pull(t, cfg, Options{MaxWait: 100 * time.Millisecond}), pull(t, cfg, Options{MaxWait: time.Second})
	defer holder.end()
	defer other.end()
	holder.fetch(t, qs[0]) // what follows needs no new session
	brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "0")
	taken := time.Now()
	ref := holder.takes(t, "0", qs[0])
	stop := renew(t, holder, ref, qs[1], taken)
	var again *wire.WorkRef
	for begun := time.Now(); again == nil && time.Since(begun) <= 2*lock; {
		if r := other.fetch(t, qs[0]); r.Record != nil {
			again = &r.Ref
		}
	}
	gap, lost := stop()
	done := holder.Counts()
	if good := again == nil && done.AcksDone >= 3 && done.AcksRefused+done.AcksUnknown+done.Sessions == 0; !good {
		if lost || gap >= lock/2 {
			t.Logf("not renewed for %v of a lock of %v, or the session was lost: %v", gap, lock, lost)
			return false
		}
		t.Errorf("renewals at most %v apart: %+v; delivered again: %+v", gap, done, again)
		return true
	}
	if again := other.takes(t, "0", qs[0]); again.Delivery != 2 {
		t.Errorf("delivery %d", again.Delivery)
	}
	holder.Ack(ref, wire.AckAccept)
	if c := holder.settled(t, done.AcksDone+1); c.AcksRefused != 1 || c.Sessions != 0 {
		t.Errorf("a late ack: %+v", c)
	}
	return true
}

// renew keeps a record that is locked since then until the answer is called, and fetches another queue all the while.
// The answer says the longest that the record may have gone without a renewal, and whether the session was lost.
func renew(
	t *testing.T, p *testPuller, ref wire.WorkRef, other wire.QueueRef, since time.Time,
) (stop func() (gap time.Duration, lost bool)) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	var gap time.Duration
	var lost bool
	go func() {
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			begun := time.Now()
			p.Ack(ref, wire.AckRenew)
			p.Open(ref.Session, []wire.QueueRef{other}, 0)
			switch r := <-p.Results(); {
			case r.Err != nil:
				lost = true
			case r.Record != nil:
				t.Errorf("%+v", r)
			}
			gap, since = max(gap, time.Since(since)), begun
			select {
			case <-tick.C:
			case <-ctx.Done():
				gap = max(gap, time.Since(since))
				return
			}
		}
	}()
	return func() (time.Duration, bool) { cancel(); <-done; return gap, lost }
}

// What an idle puller holds is somebody else's as soon as it stops, whether the
// queue is still listed or not.
func TestStopReleases(t *testing.T) {
	inTime(t, never, never, stopReleased) // no lock ends: what comes again was released
}

// stopReleased says whether the broker answered in time at the stop. If it did not, it may not have heard of the
// accepted record: nothing was tested.
func stopReleased(t *testing.T, cfg kafka.Config, group string, lock time.Duration) bool {
	t.Helper()
	qs := initialisedFor(t, cfg, group, lock, "a", "b")
	brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "0", "1")
	brokertest.Put(t, cfg, cfg.Topics.Build("b"), 0, "2")
	p, other := pull(t, cfg, Options{MaxWait: short, AckWait: never}), pull(t, cfg, Options{MaxWait: short})
	defer other.end()
	accepted := p.takes(t, "0", qs[0])
	p.takes(t, "1", qs[0])
	p.takes(t, "2", qs[1])
	other.fetch(t, qs[0])           // a is forgotten by one and listed by the other
	p.Ack(accepted, wire.AckAccept) // goes with the last request
	begun := time.Now()
	p.end()
	if took := time.Since(begun); took >= goodbye {
		t.Logf("the stop took %v", took)
		return false
	}
	other.takes(t, "1", qs[0])
	other.takes(t, "2", qs[1])
	if r := other.fetch(t, qs...); r.Record != nil {
		t.Errorf("an accepted record came back: %q", r.Record.Value)
	}
	return true
}

func TestStopAnswersTheOpenFetch(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg, tap := brokertest.TestConfig(b), &brokertest.WireTap{}
		cfg.Dial = tap.Dial
		q := initialised(t, cfg, b.Prefix+"g", "a")[0]
		brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "0")
		wait := never
		if b.Real { // it hears of the end of a connection only once it has answered what was asked there
			wait = 10 * time.Second
		}
		p, other := pull(t, cfg, Options{MaxWait: wait}), pull(t, cfg, Options{MaxWait: short})
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
