// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"errors"
	"slices"
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
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// Reporter writes what one host says: a few records now and then. It sends them to the
// leaders that the process knows already. So it asks for no metadata and no producer
// id, which a kgo client does once for each topic and once for itself; that was half
// of what a broker was asked when a thousand agents started.
//
//	topic known, no trouble yet ──▶ one request to each leader ──▶ acknowledged
//	                                        │ any error
//	topic not known, or had trouble ────────┴─▶ Producer, for ten minutes
//
// A topic that gave trouble is the producer's for a while: the producer follows leaders, and tries again. What is sent
// again may be there twice, as with a Producer.
type Reporter struct {
	cfg      kafka.Config
	producer *Producer
	to       *kafka.Direct

	mu     sync.Mutex
	topics map[string]*direct
}

// direct is how a topic is written to.
type direct struct {
	to    *fetch.Source // nil: the producer does
	since time.Time     // when it became the producer's
}

const (
	// reporterMinAge is how soon a reporter's producer asks for leaders again: while a partition has none, it does all the
	// time, and there are many hosts.
	reporterMinAge = 2 * time.Second
	// tryDirectly is how long after a topic gave trouble it is written to directly again.
	tryDirectly = 10 * time.Minute
)

// NewReporter makes a reporter. It connects when it first sends.
func NewReporter(cfg kafka.Config) (*Reporter, error) {
	cfg = cfg.WithDefaults()
	p, err := newProducer(cfg, kgo.MetadataMinAge(service.Jitter(reporterMinAge)))
	if err != nil {
		return nil, err
	}
	return &Reporter{
		cfg:      cfg,
		producer: p,
		to:       kafka.NewDirect(cfg, nil, kgo.ConnIdleTimeout(kafka.IdleTimeout)),
		topics:   map[string]*direct{},
	}, nil
}

// Send writes records and answers when each is acknowledged by all replicas in sync, or has failed, with an error as
// of Producer.Send.
func (r *Reporter) Send(ctx context.Context, recs ...wire.Record) error {
	var failed error
	r.SendEach(ctx, recs, func(_ int, err error) {
		if err != nil && failed == nil {
			failed = err
		}
	})
	return failed
}

// answer is how a record fared, by its index among those that are sent.
type answer struct {
	i   int
	err error
}

// SendEach calls told once for each record, by its index, as soon as it is acknowledged or has failed with an error of
// its own, as of Producer.Send: a partition without a leader holds up no other. told is not called by two goroutines
// at once. SendEach returns when all are told. When ctx ends, the outcome of what is left is unknown.
func (r *Reporter) SendEach(ctx context.Context, recs []wire.Record, told func(i int, err error)) {
	answers := make(chan answer, len(recs))
	answered := func(i int, err error) { answers <- answer{i, err} }
	parts, left := r.sort(recs)
	var direct sync.WaitGroup
	defer direct.Wait() // these end with ctx
	r.direct(ctx, &direct, parts, answered)
	r.produce(left, answered)
	open := make([]bool, len(recs))
	for i := range open {
		open[i] = true
	}
	for range recs {
		select {
		case a := <-answers:
			open[a.i] = false
			told(a.i, a.err)
		case <-ctx.Done():
			for i, rec := range recs {
				if open[i] {
					told(i, r.producer.sendError(rec.Topic, ctx.Err()))
				}
			}
			return
		}
	}
}

// produce has the producer write records.
func (r *Reporter) produce(recs []indexed, answered func(i int, err error)) {
	for _, x := range recs {
		r.producer.SendAsync(x.Record, func(_ int64, err error) { answered(x.i, err) })
	}
}

// Close ends the connections and fails what is under way. A second call does nothing.
func (r *Reporter) Close() {
	r.to.Close()
	r.producer.Close()
}

// indexed is a record, and its index among those that are sent.
type indexed struct {
	wire.Record
	i int
}

// portion is what goes to one partition at once.
type portion struct {
	topic     *fetch.Source
	view      fetch.View
	partition int32
	records   []indexed
	batch     []byte
}

func (p *portion) encode(now time.Time) {
	recs := make([]wire.Record, len(p.records))
	for i, x := range p.records {
		recs[i] = x.Record
	}
	p.batch = batch.Encode(batch.Unnumbered, recs, now)
}

// direct sends portions to their leaders, in one request to each, and has the producer write what one of them did not
// acknowledge.
func (r *Reporter) direct(
	ctx context.Context, running *sync.WaitGroup, parts []*portion, answered func(i int, err error),
) {
	began := time.Now()
	requests := map[int32][]*portion{} // by leader
	for _, p := range parts {
		if p.encode(began); len(p.batch) > kafka.MaxRecordBytes {
			r.produce(p.records, answered) // too large together, perhaps
			continue
		}
		broker := p.view.Leaders[p.partition].Broker
		requests[broker] = append(requests[broker], p)
	}
	for broker, parts := range requests {
		running.Go(func() {
			failed := r.write(ctx, broker, parts)
			for _, p := range parts {
				if slices.Contains(failed, p) {
					r.again(ctx, p, answered)
					continue
				}
				for _, x := range p.records {
					r.producer.metrics.produced(began, nil)
					answered(x.i, nil)
				}
			}
		})
	}
}

// again has the producer write what a leader did not acknowledge. What was given up by us was no trouble.
func (r *Reporter) again(ctx context.Context, p *portion, answered func(i int, err error)) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return // SendEach has told it
	}
	r.giveUp(p.topic)
	r.produce(p.records, answered)
}

// sort shares records out to partitions, each in the order given; left is for the
// producer.
func (r *Reporter) sort(recs []wire.Record) (parts []*portion, left []indexed) {
	type place struct {
		topic     string
		partition int32
	}
	at, topics := map[place]*portion{}, map[string]*fetch.Source{} // each is asked for once, so that order is kept
	for i, rec := range recs {
		topic, asked := topics[rec.Topic]
		if !asked {
			topic = r.topic(rec.Topic)
			topics[rec.Topic] = topic
		}
		if topic == nil {
			left = append(left, indexed{rec, i})
			continue
		}
		v, partition := topic.Current(), rec.Partition
		if partition == wire.AnyPartition && len(rec.Key) > 0 {
			partition = wire.Partition(compute.Project(rec.Key), int32(len(v.Leaders)))
		}
		if _, ok := v.Leaders[partition]; !ok {
			left = append(left, indexed{rec, i})
			continue
		}
		p := at[place{rec.Topic, partition}]
		if p == nil {
			p = &portion{topic: topic, view: v, partition: partition}
			at[place{rec.Topic, partition}], parts = p, append(parts, p)
		}
		p.records = append(p.records, indexed{rec, i})
	}
	return parts, left
}

// topic is where a topic is led, nil if the producer must find out. Any answer will do,
// however old: a broker that does not lead any more says so, also where the topic is
// another one since.
func (r *Reporter) topic(name string) *fetch.Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.topics[name]
	if d != nil && (d.to != nil || time.Since(d.since) < tryDirectly) {
		return d.to
	}
	var s *fetch.Source
	if m, asked := r.cfg.Known.About(name, time.Time{}); m != nil {
		s = &fetch.Source{Topic: name, Log: r.cfg.Log, Known: r.cfg.Known}
		if _, err := s.Learn(m, asked); err != nil {
			s = nil
		}
	}
	r.topics[name] = &direct{s, time.Now()}
	return s
}

func (r *Reporter) giveUp(s *fetch.Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.topics[s.Topic] = &direct{since: time.Now()}
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
	return now.Leaders != nil && now.Leaders[p.partition] != p.view.Leaders[p.partition], err
}
