package kafka

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// sending has a producer that has an id if it is to be refused something else.
func sending(t *testing.T, key kmsg.Key, do func(t *testing.T, c refusing, send func() error)) {
	withRefusing(t, 1, func(t *testing.T, c refusing) {
		makeTopic(t, c.cfg, "r.x", 1, nil)
		p, err := NewProducer(c.cfg)
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

// producePasses are the errors of a write that pass.
func producePasses() []*kerr.Error {
	return []*kerr.Error{
		kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable, kerr.NotLeaderForPartition, kerr.RequestTimedOut, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend,
		kerr.KafkaStorageError, kerr.UnknownTopicID, kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidProducerEpoch,
	}
}

// What passes the client tries again by itself, and nobody hears of it.
func TestProducerTriesAgain(t *testing.T) {
	for _, r := range []refusals{
		{kmsg.Produce, producePasses()},
		{kmsg.InitProducerID, []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.RequestTimedOut, kerr.ConcurrentTransactions, kerr.UnknownServerError, kerr.InvalidRequest}},
		{kmsg.Metadata, []*kerr.Error{kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable}},
	} {
		r.each(t, func(t *testing.T, code *kerr.Error) {
			key := r.key
			if key == kmsg.Metadata {
				key = kmsg.InitProducerID // with the first record it asks who leads
			}
			sending(t, key, func(t *testing.T, c refusing, send func() error) {
				h := c.refuse(r.key, code, 2)
				if err := send(); err != nil {
					t.Error(err)
				}
				hitBy(t, h, 2)
			})
		})
	}
}

// What does not pass fails the record, and nothing but the record. A client that
// was refused a producer id would fail whatever comes after it, for ever.
func TestRefusedRecordsFailAlone(t *testing.T) {
	for _, of := range []struct {
		refusals
		kind compute.Kind
		n    int // refusals: what may be another's fault is sent once more, alone
	}{
		{refusals{kmsg.Produce, []*kerr.Error{kerr.UnknownServerError, kerr.CorruptMessage, kerr.InvalidTimestamp}}, compute.KindUnavailable, 1},
		{refusals{kmsg.Produce, []*kerr.Error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.PolicyViolation}}, compute.KindInvalid, 2},
		{refusals{kmsg.Produce, []*kerr.Error{kerr.InvalidRequest}}, compute.KindInternal, 1},
		{refusals{kmsg.Produce, []*kerr.Error{kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed}}, compute.KindForbidden, 1},
		{refusals{kmsg.InitProducerID, []*kerr.Error{kerr.ClusterAuthorizationFailed}}, compute.KindForbidden, 1},
	} {
		of.each(t, func(t *testing.T, code *kerr.Error) {
			sending(t, of.key, func(t *testing.T, c refusing, send func() error) {
				h := c.refuse(of.key, code, of.n)
				wantKind(t, send(), of.kind)
				if err := send(); err != nil {
					t.Errorf("the next: %v", err)
				}
				hitBy(t, h, of.n)
			})
		})
	}
}

// As long as no id is to be had, Kafka is asked for one now and then. Who is not
// allowed to have one hears so at once, the others in time.
func TestAProducerIDThatIsRefusedForLong(t *testing.T) {
	sending(t, kmsg.InitProducerID, func(t *testing.T, c refusing, send func() error) {
		h := c.refuse(kmsg.InitProducerID, kerr.ClusterAuthorizationFailed, -1)
		for range 100 {
			began := time.Now()
			wantKind(t, send(), compute.KindForbidden)
			if took := time.Since(began); took > replaceEvery {
				t.Errorf("it took %v", took)
			}
			passes(50 * time.Millisecond)
		}
		if n := h.Hits(); n < 3 || n > 5 {
			t.Errorf("asked %d times in 5 s", n)
		}
		h.Remove()
		passes(8 * replaceEvery)
		_ = send() // finds out that the client is of no use
		if err := send(); err != nil {
			t.Errorf("it is allowed now: %v", err)
		}
	})
	sending(t, kmsg.InitProducerID, func(t *testing.T, c refusing, send func() error) {
		h, began := c.refuse(kmsg.InitProducerID, kerr.UnknownServerError, -1), time.Now()
		wantKind(t, send(), compute.KindUnavailable)
		if took := time.Since(began); took < DefaultRequestTimeout || took > 2*DefaultRequestTimeout+8*replaceEvery {
			t.Errorf("it took %v", took)
		}
		if n := h.Hits(); n < 5 || n > 12 {
			t.Errorf("asked %d times", n)
		}
	})
}

// A producer that waits for its id ends at once.
func TestAProducerWithoutAnIDIsClosed(t *testing.T) {
	withRefusing(t, 1, func(t *testing.T, c refusing) {
		makeTopic(t, c.cfg, "r.x", 1, nil)
		p, err := NewProducer(c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		h, began := c.refuse(kmsg.InitProducerID, kerr.UnknownServerError, -1), time.Now()
		answers := make(chan error, 1)
		p.SendAsync(wire.Record{Value: []byte("v")}.To("r.x", 0), func(_ int64, err error) { answers <- err })
		for h.Hits() < 2 {
			passes(10 * time.Millisecond)
		}
		p.Close()
		select {
		case err := <-answers:
			wantKind(t, err, compute.KindUnavailable)
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

func (slowly) OnProduceRecordUnbuffered(*kgo.Record, error) { passes(time.Millisecond) }

// Whatever was handed over when a producer id was refused is written with the next,
// also what is heard of when the client has been replaced.
func TestARefusedProducerIDFailsNoRecord(t *testing.T) {
	const records, partitions = 5000, 4
	withRefusing(t, 1, func(t *testing.T, c refusing) {
		makeTopic(t, c.cfg, "r.x", partitions, nil)
		p, err := newProducer(c.cfg, kgo.WithHooks(slowly{}))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		h := c.refuse(kmsg.InitProducerID, kerr.UnknownServerError, 1)
		answers := make(chan error, records)
		for i := range records {
			p.SendAsync(wire.Record{Value: []byte("v")}.To("r.x", int32(i%partitions)), func(_ int64, err error) { answers <- err })
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
		hitBy(t, h, 1)
	})
}

// What lies in a client when it is replaced is given to the next.
func TestAReplacedClientFailsNoRecord(t *testing.T) {
	withRefusing(t, 1, func(t *testing.T, c refusing) {
		makeTopic(t, c.cfg, "r.x", 1, nil)
		makeTopic(t, c.cfg, "r.y", 1, nil)
		p := producer(t, c.cfg)
		defer p.Close()
		ids := c.refuse(kmsg.InitProducerID, kerr.UnknownServerError, 2)
		leaders := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "r.y", Err: kerr.LeaderNotAvailable, Count: -1})
		answers := make(chan error, 2)
		send := func(topic string) {
			p.SendAsync(wire.Record{Value: []byte("v")}.To(topic, 0), func(_ int64, err error) { answers <- err })
		}
		send("r.x")
		for ids.Hits() < 2 {
			passes(time.Millisecond)
		}
		send("r.y")
		for refused := p.client.Load(); p.client.Load() == refused; {
			passes(time.Millisecond)
		}
		leaders.Remove()
		for range 2 {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		hitBy(t, ids, 2)
	})
}

// What waits for a client counts as what lies in one.
func TestWhatWaitsForAProducerIDIsCounted(t *testing.T) {
	withRefusing(t, 1, func(t *testing.T, c refusing) {
		makeTopic(t, c.cfg, "r.x", 1, nil)
		p := producer(t, c.cfg)
		defer p.Close()
		p.most.records = 10
		h := c.refuse(kmsg.InitProducerID, kerr.UnknownServerError, -1)
		answers := make(chan error, 11)
		send := func() {
			p.SendAsync(wire.Record{Value: []byte("v")}.To("r.x", 0), func(_ int64, err error) { answers <- err })
		}
		for range 10 {
			send()
			passes(100 * time.Millisecond)
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
