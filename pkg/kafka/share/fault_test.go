// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/clienttest"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// cable is a network that can cut its connections.
type cable struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (c *cable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		c.mu.Lock()
		c.conns = append(c.conns, conn)
		c.mu.Unlock()
	}
	return conn, err
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

func TestCutConnection(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg, wires := brokertest.TestConfig(b), new(cable)
		q := initialised(t, cfg, b.Prefix+"g", "a")[0]
		brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "0")
		cutCfg := cfg
		cutCfg.Dial = wires.dial
		p := pull(t, cutCfg, Options{MaxWait: short, AckWait: time.Millisecond})
		other := pull(t, cfg, Options{MaxWait: short})
		zero := p.takes(t, "0", q)
		wires.cut()
		other.takes(t, "0", q) // at once: nobody waits for a lock
		brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "1")

		p.Ack(zero, wire.AckAccept) // meets the cut, or the session after it
		p.open(t, q)
		r := p.result(t)
		if r.Record == nil { // it failed, or the broker was busy for as long as it lasted
			r = p.record(t, q)
		}
		if string(r.Record.Value) != "1" || r.Ref.Incarnation == zero.Incarnation {
			t.Errorf("the session outlived its connection: %q, %+v", r.Record.Value, r.Ref)
		}
		p.Ack(zero, wire.AckAccept)
		c := p.Counts()
		if c.Sessions != 1 || c.AcksDone+c.AcksRefused != 0 || c.AcksUnknown+c.AcksDropped != 2 {
			t.Errorf("%+v", c)
		}
	})
}

// A broker that throttles answers nothing of any queue: that is no word of what lies there. The session goes on.
func TestThrottled(t *testing.T) {
	cluster, cfg := brokertest.FakeCluster(t)
	q := initialised(t, cfg, "g", "a")[0]
	brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "0", "1")
	p := pull(t, cfg, Options{MaxWait: short, Backoff: time.Millisecond, AckWait: never})
	p.Ack(p.takes(t, "0", q), wire.AckAccept)
	asked := 0
	cluster.ControlKey(fetchKey, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if asked++; asked > 1 {
			return nil, nil, false
		}
		resp := kreq.ResponseKind().(*kmsg.ShareFetchResponse)
		resp.ThrottleMillis = 1
		return resp, nil, true
	})
	p.open(t, q)
	if r := p.result(t); compute.KindOf(r.Err) != compute.KindUnavailable || !errors.Is(r.Err, errThrottled) {
		t.Errorf("got %+v", r)
	}
	p.open(t, q)
	_ = p.result(t) // this broker did not see that fetch, as one that throttles does
	p.record(t, q)
	p.end()
	if c := p.Counts(); c.AcksUnknown != 1 || c.AcksDone != 0 {
		t.Errorf("%+v", c)
	}
}

// Whatever a broker answers, the next Open begins a new session as the same
// member, and what the old one held is not acknowledged any more.
func TestErrorsOfSessions(t *testing.T) {
	for _, code := range []int16{
		kerr.NotLeaderForPartition.Code, kerr.ShareSessionNotFound.Code, kerr.InvalidShareSessionEpoch.Code,
		kerr.InvalidRecordState.Code,
		kerr.InvalidRequest.Code, kerr.NotCoordinator.Code, kerr.UnknownServerError.Code, kerr.UnknownTopicID.Code,
		kerr.ShareSessionLimitReached.Code,
	} {
		err := kerr.ErrorForCode(code)
		t.Run(err.(*kerr.Error).Message, func(t *testing.T) {
			cluster, cfg := brokertest.FakeCluster(t)
			q := initialised(t, cfg, "g", "a")[0]
			brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "0", "1")
			p := pull(t, cfg, Options{MaxWait: short, Backoff: time.Millisecond, AckWait: never})
			zero := p.takes(t, "0", q)
			var asked []*kmsg.ShareFetchRequest
			cluster.ControlKey(fetchKey, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				cluster.KeepControl()
				req := kreq.(*kmsg.ShareFetchRequest)
				asked = append(asked, req)
				if len(asked) > 1 {
					return nil, nil, false
				}
				resp := req.ResponseKind().(*kmsg.ShareFetchResponse)
				resp.ErrorCode = code
				return resp, nil, true
			})
			p.open(t, q)
			if r := p.result(t); compute.KindOf(r.Err) != compute.KindUnavailable || r.Record != nil {
				t.Errorf("got %+v", r)
			}
			p.Ack(zero, wire.AckAccept)
			p.record(t, q)
			p.end()
			if c := p.Counts(); c.AcksDropped != 1 || c.AcksDone != 0 || c.Sessions != 1 {
				t.Errorf("%+v", c)
			}
			if e := []int32{asked[0].ShareSessionEpoch, asked[1].ShareSessionEpoch}; e[0] != 1 || e[1] != 0 {
				t.Errorf("epochs %v, want the next and then a new session", e)
			}
			if *asked[0].MemberID != *asked[1].MemberID || len(*asked[0].MemberID) > 36 {
				t.Errorf("members %q and %q", *asked[0].MemberID, *asked[1].MemberID)
			}
		})
	}
}

// A broker may answer a record of one queue and an error of another, and more
// records than it was asked for.
func TestNothingAcquiredIsLost(t *testing.T) {
	cluster, cfg := brokertest.FakeCluster(t)
	qs := initialised(t, cfg, "g", "a", "b")
	brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "0", "1")
	refs, err := byTopic(qs)
	if err != nil {
		t.Fatal(err)
	}
	bTopic, _ := parseTopicID(qs[1].TopicID)
	cluster.ControlKey(fetchKey, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		kreq.(*kmsg.ShareFetchRequest).MaxRecords = 2 // a broker that is not strict
		return nil, nil, false
	})
	p := pull(t, cfg, Options{MaxWait: short, AckWait: time.Millisecond})
	ref := p.takes(t, "0", qs...)
	if c := p.settled(t, 1); c.AcksDone != 1 {
		t.Errorf("the second record was not released: %+v", c)
	}
	p.takes(t, "1", qs[0])

	l := p.session(ref.Session)
	resp := kmsg.NewPtrShareFetchResponse()
	rt := kmsg.NewShareFetchResponseTopic()
	rp := kmsg.NewShareFetchResponseTopicPartition()
	rt.TopicID, rp.ErrorCode = bTopic, kerr.NotLeaderForPartition.Code
	rt.Partitions = append(rt.Partitions, rp)
	resp.Topics = append(resp.Topics, rt)
	var r wire.Pulled
	l.handleResponse(&r, resp, refs)
	if r.Err != nil || r.Record != nil || l.fails != 1 || !p.places.known["b"].suspect || p.places.known["a"].suspect {
		t.Errorf("after an error of one queue: %+v, %d fails", r, l.fails)
	}
}

// A queue nobody initialised is refused, and what else is in the session is pulled.
func TestUninitialisedQueue(t *testing.T) {
	b := kafkatest.Kafka(t) // the embedded broker initialises by itself
	cfg, group := brokertest.TestConfig(b), b.Prefix+"g"
	a := initialised(t, cfg, group, "a")[0]
	bare := queueIn(t, clienttest.Admin(t, cfg), group, "bare")[0]
	logs, logged := brokertest.LogTo(&cfg)
	brokertest.Put(t, cfg, cfg.Topics.Build("bare"), 0, "lost")
	p := pull(t, cfg, Options{MaxWait: short})
	for range 3 {
		if r := p.fetch(t, bare); r.Record != nil {
			t.Fatalf("%+v", r)
		}
	}
	brokertest.Await(t, logged, "an operator is told")
	brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "0")
	p.takes(t, "0", bare, a)
	if c := p.Counts(); c.Sessions != 0 || logs.FilterMessage("a broker refuses a queue").Len() != 1 {
		t.Errorf("%+v, logged %v", c, logs.All())
	}
}

func TestBrokersAreNotHammered(t *testing.T) {
	const tries = 4
	pulling(t, func(t *testing.T, c brokertest.Refusing, p *testPuller, q wire.QueueRef) {
		c.Refuse(kmsg.ShareFetch, kerr.ShareSessionLimitReached, -1)
		begun := time.Now()
		for range tries {
			p.open(t, q)
			if r := p.result(t); r.Err == nil {
				t.Errorf("%+v", r)
			}
		}
		if d := time.Since(begun); d < (tries-1)*DefaultPullBackoff/2 {
			t.Errorf("asked %d times in %v", tries, d)
		}
	})
}

// Groups at one broker do not wait for each other: a long poll in one session
// holds up neither fetches nor acks in another.
func TestSessionsAreIndependent(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg, tap := brokertest.TestConfig(b), &brokertest.WireTap{}
		a, other := initialised(t, cfg, b.Prefix+"g", "a")[0], initialised(t, cfg, b.Prefix+"h", "b")[0]
		brokertest.Put(t, cfg, cfg.Topics.Build("b"), 0, "0", "1")
		cfg.Dial = tap.Dial
		p := pull(t, cfg, Options{MaxWait: time.Hour}) // a caller that waits for that waits in vain
		tap.Expect(t, fetchKey, 1, func() { p.open(t, a) })
		p.Ack(p.takes(t, "0", other), wire.AckAccept)
		if c := p.settled(t, 1); c.AcksDone != 1 {
			t.Errorf("%+v", c)
		}
		p.takes(t, "1", other)
	})
}

func TestMisuseIsAnswered(t *testing.T) {
	b := kafkatest.Embedded(t)
	cfg := brokertest.TestConfig(b)
	q := initialised(t, cfg, b.Prefix+"g", "a")[0]
	p := pull(t, cfg, Options{MaxWait: never})
	p.open(t, q)
	session := wire.SessionID{Broker: 0, Group: q.Group}
	p.Open(session, []wire.QueueRef{q}, 0)
	if r := p.result(t); compute.KindOf(r.Err) != compute.KindConflict {
		t.Errorf("a second open: %v", r.Err)
	}
	brokertest.Put(t, cfg, cfg.Topics.Build("a"), 0, "0") // ends the first
	if r := p.result(t); r.Err != nil {
		t.Errorf("the first: %v", r.Err)
	}
	p.Open(session, nil, 0)
	if r := p.result(t); compute.KindOf(r.Err) != compute.KindInvalid {
		t.Errorf("nothing to fetch: %v", r.Err)
	}
	p.Open(wire.SessionID{Broker: 77, Group: q.Group}, []wire.QueueRef{q}, 0)
	if r := p.result(t); compute.KindOf(r.Err) != compute.KindUnavailable {
		t.Errorf("an unknown broker: %v", r.Err)
	}
}
