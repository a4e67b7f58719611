// SPDX-License-Identifier: Apache-2.0

package share

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/clienttest"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// testPuller is a puller at work.
type testPuller struct {
	*Puller
	stop  context.CancelFunc
	ended chan struct{}
}

func pull(t testing.TB, cfg kafka.Config, opts Options) *testPuller {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cfg.RequestTimeout = cmp.Or(cfg.RequestTimeout, 10*time.Minute) // a session is lost with a request that takes longer
	p := &testPuller{Puller: NewPuller(cfg, opts), stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(p.end)
	return p
}

func (p *testPuller) end() {
	p.stop()
	<-p.ended
}

// open begins a fetch of queues that are all in one session.
func (p *testPuller) open(t testing.TB, queues ...wire.QueueRef) {
	t.Helper()
	p.openFor(t, 0, queues...)
}

// openFor begins one that lasts for so long at most.
func (p *testPuller) openFor(t testing.TB, wait time.Duration, queues ...wire.QueueRef) {
	t.Helper()
	sessions, err := p.placed(t, queues...)
	if err != nil || len(sessions) != 1 {
		t.Fatalf("placed in %v: %v", sessions, err)
	}
	for id, qs := range sessions {
		p.Open(id, qs, wait)
	}
}

// placed places queues. A busy broker may not answer the first question in time: then it is asked again.
func (p *testPuller) placed(t testing.TB, queues ...wire.QueueRef) (map[wire.SessionID][]wire.QueueRef, error) {
	t.Helper()
	for ctx := brokertest.Patient(t); ; {
		sessions, err := p.Place(ctx, queues)
		if len(sessions) > 0 || pace.Sleep(ctx, askAgain) != nil {
			return sessions, err
		}
	}
}

func (p *testPuller) result(t testing.TB) wire.Pulled {
	t.Helper()
	select {
	case r := <-p.Results():
		return r
	case <-brokertest.Patient(t).Done():
		t.Fatal("a fetch was never answered")
	}
	panic("unreachable")
}

// fetch is one fetch that does not fail.
func (p *testPuller) fetch(t testing.TB, queues ...wire.QueueRef) wire.Pulled {
	t.Helper()
	p.open(t, queues...)
	r := p.result(t)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r
}

// record fetches until there is a record.
func (p *testPuller) record(t testing.TB, queues ...wire.QueueRef) wire.Pulled {
	t.Helper()
	for ctx := brokertest.Patient(t); ctx.Err() == nil; {
		if r := p.fetch(t, queues...); r.Record != nil {
			return r
		}
	}
	t.Fatal("no record came")
	panic("unreachable")
}

// takes fails the test unless the next record of these queues has that value.
func (p *testPuller) takes(t testing.TB, value string, queues ...wire.QueueRef) wire.WorkRef {
	t.Helper()
	r := p.record(t, queues...)
	if string(r.Record.Value) != value {
		t.Fatalf("pulled %q, want %q", r.Record.Value, value)
	}
	return r.Ref
}

// settled waits until so many acks were answered.
func (p *testPuller) settled(t testing.TB, acks uint64) Counts {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx := brokertest.Patient(t); ; {
		c := p.Counts()
		if c.AcksDone+c.AcksRefused+c.AcksUnknown >= acks {
			return c
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not all of %d acks were answered: %+v", acks, c)
		}
	}
}

// initialised makes queues that can be pulled from.
func initialised(t testing.TB, cfg kafka.Config, group string, names ...compute.QueueName) []wire.QueueRef {
	t.Helper()
	a := clienttest.Admin(t, cfg)
	refs := queueIn(t, a, group, names...)
	if err := a.InitShareState(brokertest.Patient(t), group, names); err != nil {
		t.Fatal(err)
	}
	return refs
}

// short is a wait in which a broker that has a record answers for sure, for
// fetches that must come back empty.
const short = 300 * time.Millisecond

func TestPulledOnceAndOneAtATime(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		q := initialised(t, cfg, b.Prefix+"g", "a")[0]
		brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "0", "1", "2")
		one, two := pull(t, cfg, Options{MaxWait: short}), pull(t, cfg, Options{MaxWait: short})
		zero := one.record(t, q)
		if string(zero.Record.Value) != "0" || string(
			zero.Record.Key,
		) != "k0" || zero.Record.Topic != cfg.Topics.Build("a") || zero.Ref.Delivery != 1 {
			t.Errorf("got %+v", zero)
		}
		two.takes(t, "1", q)
		one.takes(t, "2", q)
		for _, p := range []*testPuller{one, two} {
			if r := p.fetch(t, q); r.Record != nil {
				t.Errorf("pulled again: %+v", r)
			}
		}
	})
}

func TestARecordEndsTheWait(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		qs := initialised(t, cfg, b.Prefix+"g", "a", "b")
		p := pull(t, cfg, Options{MaxWait: time.Hour}) // what does not end it comes too late
		brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "0")
		p.takes(t, "0", qs...) // and the session is open
		p.open(t, qs...)
		brokertest.Put(t, cfg, cfg.Topics.Build("b"), 0, "1")
		if r := p.result(t); r.Record == nil || string(r.Record.Value) != "1" {
			t.Errorf("%+v", r)
		}
	})
}

func TestTopicListChangesBetweenFetches(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		qs := initialised(t, cfg, b.Prefix+"g", "a", "b", "c")
		a, bb, c := qs[0], qs[1], qs[2]
		for _, name := range []compute.QueueName{"a", "b", "c"} {
			brokertest.Put(t, cfg, cfg.Topics.Build(name), 0, string(name)+"0", string(name)+"1")
		}
		p := pull(t, cfg, Options{MaxWait: short})
		p.takes(t, "a0", a)     // opens
		p.takes(t, "b0", bb)    // a goes, b comes
		p.takes(t, "a1", a)     // and back
		p.takes(t, "b1", a, bb) // b comes, a is empty
		if r := p.fetch(t, a, bb); r.Record != nil {
			t.Errorf("from a queue that is not listed: %+v", r)
		}
		p.takes(t, "c0", bb, c) // a goes, c comes
		p.takes(t, "c1", c)
		if counts := p.Counts(); counts.Sessions != 0 {
			t.Errorf("sessions were lost on the way: %+v", counts)
		}
	})
}

func TestAcks(t *testing.T) {
	for how, again := range map[wire.Ack]bool{wire.AckAccept: false, wire.AckRelease: true, wire.AckReject: false} {
		t.Run(fmt.Sprint(how), func(t *testing.T) {
			kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
				cfg := brokertest.TestConfig(b)
				q := initialised(t, cfg, b.Prefix+"g", "a")[0]
				brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "0")
				one, two := pull(t, cfg, Options{MaxWait: short}), pull(t, cfg, Options{MaxWait: short})
				one.Ack(one.takes(t, "0", q), how)
				one.settled(t, 1)
				one.end() // what is held would be released
				if c := one.Counts(); c.AcksDone != 1 {
					t.Fatalf("%+v", c)
				}
				if !again {
					brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "1")
					two.takes(t, "1", q)
					return
				}
				if ref := two.takes(t, "0", q); ref.Delivery != 2 {
					t.Errorf("delivery %d, want the second", ref.Delivery)
				}
			})
		})
	}
}
