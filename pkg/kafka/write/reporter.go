// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/batch"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/wire"
)

// Reporter writes what one host says: a few records now and then. It sends them to the
// leaders that the process knows already. So it asks for no metadata and no producer
// id, which a kgo client does once for each topic and once for itself; that was half
// of what a broker was asked when a thousand agents started.
//
//	topic known, no trouble yet ──▶ one request to each leader ──▶ acknowledged
//	                                        │ any error
//	topic not known, or had trouble ────────┴─▶ Producer, from then on
//
// A topic that gave trouble once is the producer's for good: the producer follows
// leaders, and tries again. What is sent again may be there twice, as with a Producer.
type Reporter struct {
	cfg      kafka.Config
	producer *Producer
	to       *kafka.Direct

	mu     sync.Mutex
	topics map[string]*fetch.Source // nil: the producer's
}

// NewReporter makes a reporter. It connects when it first sends.
func NewReporter(cfg kafka.Config) (*Reporter, error) {
	cfg = cfg.WithDefaults()
	p, err := NewProducer(cfg)
	if err != nil {
		return nil, err
	}
	return &Reporter{
		cfg:      cfg,
		producer: p,
		to:       kafka.NewDirect(cfg, nil, kgo.ConnIdleTimeout(kafka.IdleTimeout)),
		topics:   map[string]*fetch.Source{},
	}, nil
}

// Send writes records and answers when all are acknowledged by all replicas in sync,
// or with the first error, as Producer.Send does.
func (r *Reporter) Send(ctx context.Context, recs ...wire.Record) error {
	began := time.Now()
	left := r.direct(ctx, recs)
	for range len(recs) - len(left) {
		r.producer.metrics.produced(began, nil)
	}
	if len(left) == 0 {
		return nil
	}
	return r.producer.Send(ctx, left...)
}

// Close ends the connections and fails what is under way. A second call does nothing.
func (r *Reporter) Close() {
	r.to.Close()
	r.producer.Close()
}

// portion is what goes to one partition at once.
type portion struct {
	topic     *fetch.Source
	view      fetch.View
	partition int32
	records   []wire.Record
	batch     []byte
}

// direct sends what it can to leaders, and answers what was not acknowledged.
func (r *Reporter) direct(ctx context.Context, recs []wire.Record) (left []wire.Record) {
	parts, left := r.sort(recs)
	requests := map[int32][]*portion{} // by leader
	for _, p := range parts {
		if p.batch = batch.Encode(batch.Unnumbered, p.records, time.Now()); len(p.batch) > kafka.MaxRecordBytes {
			left = append(left, p.records...) // too large together, perhaps
			continue
		}
		broker := p.view.Leaders[p.partition].Broker
		requests[broker] = append(requests[broker], p)
	}
	failed := make(chan []*portion, len(requests))
	for broker, parts := range requests {
		go func() { failed <- r.write(ctx, broker, parts) }()
	}
	for range requests {
		for _, p := range <-failed {
			left = append(left, p.records...)
			if !errors.Is(ctx.Err(), context.Canceled) { // by us: no trouble
				r.giveUp(p.topic)
			}
		}
	}
	return left
}

// sort shares records out to partitions, each in the order given; left is for the
// producer.
func (r *Reporter) sort(recs []wire.Record) (parts []*portion, left []wire.Record) {
	type place struct {
		topic     string
		partition int32
	}
	at := map[place]*portion{}
	for _, rec := range recs {
		topic := r.topic(rec.Topic)
		if topic == nil {
			left = append(left, rec)
			continue
		}
		v, partition := topic.Current(), rec.Partition
		if partition == wire.AnyPartition && len(rec.Key) > 0 {
			partition = wire.Partition(compute.Project(rec.Key), int32(len(v.Leaders)))
		}
		if _, ok := v.Leaders[partition]; !ok {
			left = append(left, rec)
			continue
		}
		p := at[place{rec.Topic, partition}]
		if p == nil {
			p = &portion{topic: topic, view: v, partition: partition}
			at[place{rec.Topic, partition}], parts = p, append(parts, p)
		}
		p.records = append(p.records, rec)
	}
	return parts, left
}

// topic is where a topic is led, nil if the producer must find out. Any answer will do,
// however old: a broker that does not lead any more says so, also where the topic is
// another one since.
func (r *Reporter) topic(name string) *fetch.Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, tried := r.topics[name]
	if tried {
		return s
	}
	if m, asked := r.cfg.Known.About(name, time.Time{}); m != nil {
		s = &fetch.Source{Topic: name, Log: r.cfg.Log}
		if _, err := s.Learn(m, asked); err != nil {
			s = nil
		}
	}
	r.topics[name] = s
	return s
}

func (r *Reporter) giveUp(s *fetch.Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.topics[s.Topic] = nil
}

// write sends a request to a broker, and answers what that did not acknowledge.
func (r *Reporter) write(ctx context.Context, broker int32, parts []*portion) (failed []*portion) {
	to := r.to.Broker(broker)
	if to == nil {
		return parts
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.RequestTimeout)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		r.watch(ctx, cancel, parts)
	}()
	kresp, err := to.Request(ctx, r.request(parts))
	cancel()
	<-watched
	if err != nil {
		return parts
	}
	type place struct {
		topic     string
		id        [16]byte
		partition int32
	}
	fine := map[place]bool{}
	for _, t := range kresp.(*kmsg.ProduceResponse).Topics {
		for _, p := range t.Partitions {
			fine[place{t.Topic, t.TopicID, p.Partition}] = kerr.ErrorForCode(p.ErrorCode) == nil
		}
	}
	for _, p := range parts {
		if !fine[place{p.topic.Topic, [16]byte{}, p.partition}] && !fine[place{"", p.view.Id, p.partition}] &&
			!fine[place{p.topic.Topic, p.view.Id, p.partition}] {
			failed = append(failed, p)
		}
	}
	return failed
}

func (r *Reporter) request(parts []*portion) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, int32(ProduceTimeout(r.cfg).Milliseconds())
	at := map[*fetch.Source]int{}
	for _, p := range parts {
		i, ok := at[p.topic]
		if !ok {
			i = len(req.Topics)
			at[p.topic] = i
			rt := kmsg.NewProduceRequestTopic()
			rt.Topic, rt.TopicID = p.topic.Topic, p.view.Id
			req.Topics = append(req.Topics, rt)
		}
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = p.partition, p.batch
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, rp)
	}
	return req
}

// errNoOther is a leader that others need not be asked about: there are none.
var errNoOther = errors.New("there is no other broker")

// watch gives a request up once another leads one of its partitions. A frozen broker's
// connections stay open. While none answers others are asked, less and less often.
func (r *Reporter) watch(ctx context.Context, giveUp context.CancelFunc, parts []*portion) {
	for asked := 0; pace.Sleep(ctx, pace.Overdue(asked)) == nil; asked++ {
		for _, p := range parts {
			if moved, err := r.moved(ctx, p); errors.Is(err, errNoOther) {
				return
			} else if moved {
				giveUp()
				return
			}
		}
	}
}

// moved asks whether another leads a partition now. It asks through the producer's
// client, which would be the next to ask.
func (r *Reporter) moved(ctx context.Context, p *portion) (bool, error) {
	if len(p.view.Brokers) < 2 {
		return false, errNoOther
	}
	now, err := p.topic.Ask(ctx, r.producer.client.Load())
	return err == nil && now.Leaders[p.partition] != p.view.Leaders[p.partition], err
}
