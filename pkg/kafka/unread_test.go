package kafka

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/unpack/unpacktest"
	"github.com/berth-project/berth/pkg/wire"
)

// putRaw writes a batch as it is.
func putRaw(t *testing.T, cfg Config, topic string, partition int32, batch []byte) {
	t.Helper()
	cl, err := newClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	m, err := describe(patient(t), cl, topic)
	if err != nil {
		t.Fatal(err)
	}
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, batch
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID, rt.Partitions = topic, m.TopicID, append(rt.Partitions, rp)
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis, req.Topics = -1, 10_000, append(req.Topics, rt)
	leader := m.Partitions[slices.IndexFunc(m.Partitions, func(p kmsg.MetadataResponseTopicPartition) bool { return p.Partition == partition })].Leader
	resp, err := req.RequestWith(patient(t), cl.Broker(int(leader)))
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// tooLarge checks that a record stands for a batch that unpacks to too much.
func tooLarge(t *testing.T, rec wire.Record, offset int64) {
	t.Helper()
	if rec.Unread == nil || rec.Offset != offset || !strings.Contains(rec.Unread.Error(), "unpacks to more than") {
		t.Errorf("%+v", rec)
	}
	if _, err := wire.DecodeRequest(rec); compute.KindOf(err) != compute.KindInvalid {
		t.Errorf("decoded as %v", err)
	}
}

// Readers of each kind tell of a batch that would unpack to too much, and go on.
func TestReadersPassBombs(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := testConfig(b)
		for name, codec := range unpacktest.Codecs() {
			topic := b.Prefix + name
			makeTopic(t, cfg, topic, 1, map[string]*string{"max.message.bytes": kmsg.StringPtr("8388608")})
			put(t, cfg, topic, 0, "before")
			putRaw(t, cfg, topic, 0, unpacktest.Bomb(t, codec, 48))
			put(t, cfg, topic, 0, "behind")
			for kind, of := range map[string]func(ReaderOptions) *Reader{
				"alone": func(o ReaderOptions) *Reader { return NewReader(cfg, o) },
				"committed": func(o ReaderOptions) *Reader {
					o.Committed = true
					return NewReader(cfg, o)
				},
				"joint": NewJoint(cfg).Reader,
			} {
				t.Run(name+"/"+kind, func(t *testing.T) {
					r := reads(t, ReaderOptions{Topic: topic}, of)
					await(t, r.Ready(), "the reader is ready")
					var recs []wire.Record
					for len(r.batches) > 0 {
						recs = append(recs, (<-r.batches).Records...)
					}
					if len(recs) != 3 || string(recs[0].Value) != "before" || string(recs[2].Value) != "behind" {
						t.Fatalf("%+v", recs)
					}
					tooLarge(t, recs[1], 1)
				})
			}
		}
	})
}

// What is pulled comes with the reason, so that the agent can reject it.
func TestPullersPassBombs(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := testConfig(b)
		q := initialised(t, cfg, b.Prefix+"g", "a")[0]
		p := pull(t, cfg, PullerOptions{MaxWait: short})
		offset := int64(0)
		for name, codec := range unpacktest.Codecs() {
			bomb := unpacktest.Bomb(t, codec, 48)
			if len(bomb) > maxRecordBytes {
				t.Logf("%s: %d bytes are more than a queue takes", name, len(bomb))
				continue
			}
			putRaw(t, cfg, cfg.Topics.Build("a"), 0, bomb)
			r := p.record(t, q)
			tooLarge(t, *r.Record, offset)
			p.Ack(r.Ref, wire.AckReject)
			offset++
		}
		put(t, cfg, cfg.Topics.Build("a"), 0, "behind")
		if r := p.record(t, q); string(r.Record.Value) != "behind" || r.Ref.Offset != offset {
			t.Errorf("%+v", r)
		}
	})
}

// A loop hands the reason to its handler, and what is behind.
func TestLoopsPassBombs(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg Config) {
		for _, topic := range []string{cfg.Topics.Requests(), cfg.Topics.Reports(), cfg.Topics.Instances()} {
			putRaw(t, cfg, topic, 0, unpacktest.Bomb(t, kgo.CodecZstd, 48))
		}
		f := feeding(t, cfg, "k", "report")
		f.more(1, 1)
		l := newLedger(t, "a")
		var mu sync.Mutex
		seen := map[string][]wire.Record{}
		l.onTurn = func(in wire.Turn, _ *wire.Result) {
			mu.Lock()
			defer mu.Unlock()
			for _, rec := range in.Records {
				seen[rec.Topic] = append(seen[rec.Topic], rec)
			}
		}
		loop(t, cfg, LoopOptions{}, l)
		instances := openLog(t, cfg, cfg.Topics.Instances())
		instances.until("has what was decided", func() bool { return len(instances.recs) >= 3 })
		tooLarge(t, instances.recs[0], 0)
		mu.Lock()
		defer mu.Unlock()
		for _, topic := range []string{cfg.Topics.Requests(), cfg.Topics.Reports()} {
			if len(seen[topic]) != 2 || string(seen[topic][1].Value) != "1" {
				t.Fatalf("%+v", seen[topic])
			}
			tooLarge(t, seen[topic][0], 0)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		tooLarge(t, l.tail[0][0], 0) // what was restored
	})
}
