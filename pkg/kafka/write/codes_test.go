// SPDX-License-Identifier: Apache-2.0

package write

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/wire"
)

// sending has a producer that has an id if it is to be refused something else.
func sending(t *testing.T, key kmsg.Key, do func(t *testing.T, c brokertest.Refusing, send func() error)) {
	brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
		brokertest.MakeTopic(t, c.Cfg, "r.x", 1, nil)
		p, err := NewProducer(c.Cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		send := func() error { return p.Send(t.Context(), wire.Record{Value: []byte("v")}.To("r.x", 0)) }
		if key != kmsg.InitProducerID {
			if err := send(); err != nil {
				t.Fatal(err)
			}
		}
		do(t, c, send)
	})
}

// What passes the client tries again by itself, and nobody hears of it.
func TestProducerTriesAgain(t *testing.T) {
	for _, r := range []brokertest.Refusals{
		{Key: kmsg.Produce, Codes: brokertest.ProducePasses()},
		{
			Key: kmsg.InitProducerID,
			Codes: []*kerr.Error{
				kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator,
				kerr.RequestTimedOut, kerr.ConcurrentTransactions, kerr.UnknownServerError, kerr.InvalidRequest,
			},
		},
		{Key: kmsg.Metadata, Codes: []*kerr.Error{kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable}},
	} {
		r.Each(t, func(t *testing.T, code *kerr.Error) {
			key := r.Key
			if key == kmsg.Metadata {
				key = kmsg.InitProducerID // with the first record it asks for the leaders
			}
			sending(t, key, func(t *testing.T, c brokertest.Refusing, send func() error) {
				h := c.Refuse(r.Key, code, 2)
				if err := send(); err != nil {
					t.Error(err)
				}
				brokertest.HitBy(t, h, 2)
			})
		})
	}
}

// What does not pass fails the record, and nothing but the record. A client that
// was refused a producer id would fail whatever comes after it, for ever.
func TestRefusedRecordsFailAlone(t *testing.T) {
	for _, of := range []struct {
		brokertest.Refusals
		kind compute.Kind
		n    int // refusals: what may be another's fault is sent once more, alone
	}{
		{
			brokertest.Refuse(kmsg.Produce, kerr.UnknownServerError, kerr.CorruptMessage, kerr.InvalidTimestamp),
			compute.KindUnavailable, 1,
		},
		{
			brokertest.Refuse(
				kmsg.Produce, kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.PolicyViolation,
			),
			compute.KindInvalid, 2,
		},
		{brokertest.Refuse(kmsg.Produce, kerr.InvalidRequest), compute.KindInternal, 1},
		{
			brokertest.Refuse(kmsg.Produce, kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed),
			compute.KindForbidden, 1,
		},
		{brokertest.Refuse(kmsg.InitProducerID, kerr.ClusterAuthorizationFailed), compute.KindForbidden, 1},
	} {
		of.Each(t, func(t *testing.T, code *kerr.Error) {
			sending(t, of.Key, func(t *testing.T, c brokertest.Refusing, send func() error) {
				h := c.Refuse(of.Key, code, of.n)
				brokertest.WantKind(t, send(), of.kind)
				if err := send(); err != nil {
					t.Errorf("the next: %v", err)
				}
				brokertest.HitBy(t, h, of.n)
			})
		})
	}
}

// As long as no id is to be had, Kafka is asked for one now and then. A process that is not allowed to have one is
// told so at once, the others in time.
func TestAProducerIDThatIsRefusedForLong(t *testing.T) {
	sending(t, kmsg.InitProducerID, func(t *testing.T, c brokertest.Refusing, send func() error) {
		h := c.Refuse(kmsg.InitProducerID, kerr.ClusterAuthorizationFailed, -1)
		for range 100 {
			began := time.Now()
			brokertest.WantKind(t, send(), compute.KindForbidden)
			if took := time.Since(began); took > replaceEvery {
				t.Errorf("it took %v", took)
			}
			brokertest.Passes(50 * time.Millisecond)
		}
		if n := h.Hits(); n < 3 || n > 5 {
			t.Errorf("asked %d times in 5 s", n)
		}
		h.Remove()
		brokertest.Passes(8 * replaceEvery)
		_ = send() // finds out that the client is of no use
		if err := send(); err != nil {
			t.Errorf("it is allowed now: %v", err)
		}
	})
	sending(t, kmsg.InitProducerID, func(t *testing.T, c brokertest.Refusing, send func() error) {
		h, began := c.Refuse(kmsg.InitProducerID, kerr.UnknownServerError, -1), time.Now()
		brokertest.WantKind(t, send(), compute.KindUnavailable)
		if took := time.Since(began); took < kafka.DefaultRequestTimeout ||
			took > 2*kafka.DefaultRequestTimeout+8*replaceEvery {
			t.Errorf("it took %v", took)
		}
		if n := h.Hits(); n < 5 || n > 12 {
			t.Errorf("asked %d times", n)
		}
	})
}

// A producer that waits for its id ends at once.
func TestAProducerWithoutAnIDIsClosed(t *testing.T) {
	brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
		brokertest.MakeTopic(t, c.Cfg, "r.x", 1, nil)
		p, err := NewProducer(c.Cfg)
		if err != nil {
			t.Fatal(err)
		}
		h, began := c.Refuse(kmsg.InitProducerID, kerr.UnknownServerError, -1), time.Now()
		answers := make(chan error, 1)
		p.SendAsync(wire.Record{Value: []byte("v")}.To("r.x", 0), func(_ int64, err error) { answers <- err })
		for h.Hits() < 2 {
			brokertest.Passes(10 * time.Millisecond)
		}
		p.Close()
		select {
		case err := <-answers:
			brokertest.WantKind(t, err, compute.KindUnavailable)
		default:
			t.Error("nobody was told")
		}
		if took := time.Since(began); took > replaceEvery {
			t.Errorf("it took %v", took)
		}
	})
}

// slowly has a client take its time over telling of each record.
type slowly struct{}

func (slowly) OnProduceRecordUnbuffered(*kgo.Record, error) { brokertest.Passes(time.Millisecond) }

// Whatever was handed over when a producer id was refused is written with the next,
// also what is heard of when the client has been replaced.
func TestARefusedProducerIDFailsNoRecord(t *testing.T) {
	const records, partitions = 5000, 4
	brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
		brokertest.MakeTopic(t, c.Cfg, "r.x", partitions, nil)
		p, err := newProducer(c.Cfg, kgo.WithHooks(slowly{}))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		h := c.Refuse(kmsg.InitProducerID, kerr.UnknownServerError, 1)
		answers := make(chan error, records)
		for i := range records {
			p.SendAsync(
				wire.Record{Value: []byte("v")}.To("r.x", int32(i%partitions)),
				func(_ int64, err error) { answers <- err },
			)
		}
		failed := map[string]int{}
		for range records {
			if err := <-answers; err != nil {
				failed[err.Error()]++
			}
		}
		if len(failed) > 0 {
			t.Error(failed)
		}
		brokertest.HitBy(t, h, 1)
	})
}

// What lies in a client when it is replaced is given to the next.
func TestAReplacedClientFailsNoRecord(t *testing.T) {
	brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
		brokertest.MakeTopic(t, c.Cfg, "r.x", 1, nil)
		brokertest.MakeTopic(t, c.Cfg, "r.y", 1, nil)
		p := producer(t, c.Cfg)
		defer p.Close()
		ids := c.Refuse(kmsg.InitProducerID, kerr.UnknownServerError, 2)
		leaders := c.Fault(
			kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "r.y", Err: kerr.LeaderNotAvailable, Count: -1},
		)
		answers := make(chan error, 2)
		send := func(topic string) {
			p.SendAsync(wire.Record{Value: []byte("v")}.To(topic, 0), func(_ int64, err error) { answers <- err })
		}
		send("r.x")
		for ids.Hits() < 2 {
			brokertest.Passes(time.Millisecond)
		}
		send("r.y")
		for refused := p.client.Load(); p.client.Load() == refused; {
			brokertest.Passes(time.Millisecond)
		}
		leaders.Remove()
		for range 2 {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		brokertest.HitBy(t, ids, 2)
	})
}

// What waits for a client counts as what lies in one.
func TestWhatWaitsForAProducerIDIsCounted(t *testing.T) {
	brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
		brokertest.MakeTopic(t, c.Cfg, "r.x", 1, nil)
		p := producer(t, c.Cfg)
		defer p.Close()
		p.most.records = 10
		h := c.Refuse(kmsg.InitProducerID, kerr.UnknownServerError, -1)
		answers := make(chan error, 11)
		send := func() {
			p.SendAsync(wire.Record{Value: []byte("v")}.To("r.x", 0), func(_ int64, err error) { answers <- err })
		}
		for range 10 {
			send()
			brokertest.Passes(100 * time.Millisecond)
		}
		send()
		if err := <-answers; !errors.Is(err, wire.ErrFull) {
			t.Errorf("the eleventh: %v", err)
		}
		if n := p.buffered(); n != 10 {
			t.Errorf("%d are said to wait", n)
		}
		h.Remove()
		for range 10 {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
	})
}
