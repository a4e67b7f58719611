// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/wire"
)

// Producer writes records that must not be lost: idempotent, acknowledged by all replicas in sync, sent at once. It is
// safe for concurrent use. It is a kgo client, and what that client does not do:
//
//	SendAsync ─▶ client ─▶ acknowledged ────────────────────────────▶ done(offset, nil)
//	                │
//	                ├─ no producer id, or a fenced one: another client (replace) ─▶ sent again
//	                ├─ a batch was refused for a record in it: each alone (suspect) ─▶ done: this one's own error
//	                ├─ the topic is gone: the client forgets its id (forget) ─▶ done(-1, wire.ErrNoTopic)
//	                │  (and when nobody writes to it any more: lookForGone)
//	                └─ any other error, or tried for too long ─▶ done(-1, error)
//
// Records for one partition arrive in the order in which they were given, as long as brokers refuse nothing: what is
// tried again after a refused producer id, or alone after a refused batch, may come behind later ones, as what its
// sender tries again does. The client's callbacks must not block and must not close the client: what has to be done
// about an error runs in a goroutine of its own (running), and its callers wait in forgetting, replacing or suspects.
type Producer struct {
	cfg     kafka.Config
	connect func() (*kgo.Client, error)
	client  atomic.Pointer[kgo.Client]
	proven  atomic.Pointer[kgo.Client] // the last that has written something

	mu         sync.Mutex
	under      load                   // handed over and not answered: in a client, or waiting for one
	most       load                   // more are refused
	answered   *sync.Cond             // of mu: nothing is under way
	forgetting map[string][]func()    // by topic that is gone: called once it is forgotten
	uses       map[string]*use        // of topics that may go; nil: none was written to
	own        map[string]*kgo.Client // of topics that were forgotten once; nil: none, until it is written to
	wrote      map[string]bool        // topics to which something was written, or may have been
	giving     map[string]int         // how many records for a topic are being given to the client that has all others
	gave       *sync.Cond             // of mu: one was given
	replacing  []func(again bool)     // called once it is known whether the client is of any more use
	notBefore  time.Time              // when it may be replaced once more; of the goroutine that replaces it
	vain       int                    // clients in a row that were replaced and had written nothing
	suspects   []pendingRecord        // refused in company, each to be sent alone; the first is being sent
	running    sync.WaitGroup

	ctx   context.Context // ends with Close
	end   context.CancelFunc
	tries time.Duration // how long a record may be tried

	outage  *kafka.OutageReporter
	metrics *produceMetrics
	unshown func() // ends what the metrics ask
}

// pendingRecord is a record on its way.
type pendingRecord struct {
	rec   wire.Record
	began time.Time
	done  func(offset int64, err error)
}

// load is how much is under way.
type load struct{ records, bytes int64 }

const (
	// maxBuffered records wait for brokers at most; more are refused, so that no sender ever waits for a broker.
	maxBuffered      = 1 << 17
	maxBufferedBytes = 512 << 20
	// unknownTopicRetries bounds how long a missing topic is looked for: about
	// a second, so that a topic made a moment ago is found.
	unknownTopicRetries = 6
)

// NewProducer makes a producer. It connects when it first sends.
func NewProducer(cfg kafka.Config) (*Producer, error) { return newProducer(cfg) }

func newProducer(cfg kafka.Config, opts ...kgo.Opt) (*Producer, error) {
	// A sender must hear how its record fared, also when a broker took it and
	// never answers. What is sent again then may be there twice: every receiver
	// of Berth's records takes that.
	all := append(producerOpts(cfg.WithDefaults()), kgo.AllowIdempotentProduceCancellation())
	all = slices.Clip(append(all, opts...))
	p := &Producer{
		cfg:        cfg,
		connect:    func() (*kgo.Client, error) { return kafka.NewClient(cfg, all...) },
		forgetting: map[string][]func(){}, own: map[string]*kgo.Client{}, wrote: map[string]bool{},
		giving: map[string]int{}, most: load{maxBuffered, maxBufferedBytes},
		outage: cfg.WithDefaults().OutageReporter("write"), metrics: newMetrics(cfg.Metrics.Registerer()),
		tries: deliveryTimeout(cfg.WithDefaults()),
	}
	p.ctx, p.end = context.WithCancel(context.Background())
	client, err := p.connect()
	if err != nil {
		p.end()
		return nil, err
	}
	p.answered, p.gave = sync.NewCond(&p.mu), sync.NewCond(&p.mu)
	p.client.Store(client)
	p.nudge(client)
	p.unshown = p.metrics.producing(p.buffered)
	return p, nil
}

func producerOpts(cfg kafka.Config) []kgo.Opt {
	return []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		// a connection that ends before its first answer may be a broker that ends; kgo takes it for a wrong password
		kgo.AlwaysRetryEOF(),
		kgo.ProducerLinger(0),
		kgo.RecordPartitioner(partitioner()),
		kgo.MaxBufferedRecords(maxBuffered),
		kgo.MaxBufferedBytes(maxBufferedBytes),
		kgo.ProducerBatchMaxBytes(kafka.MaxRecordBytes),
		kgo.UnknownTopicRetries(unknownTopicRetries),
		kgo.ProduceRequestTimeout(ProduceTimeout(cfg)),
		kgo.RecordDeliveryTimeout(deliveryTimeout(cfg)),
	}
}

// deliveryTimeout is how long a record is tried: a frozen leader, and then the new one.
func deliveryTimeout(cfg kafka.Config) time.Duration { return 2 * cfg.RequestTimeout }

// ProduceTimeout is how long a broker may wait for its replicas.
func ProduceTimeout(cfg kafka.Config) time.Duration {
	return max(cfg.RequestTimeout/2, 100*time.Millisecond)
}

// Send writes records and answers when all are acknowledged, or with the first
// error: wire.ErrNoTopic, or a *compute.Error of KindUnavailable (not written,
// or perhaps: trying again is safe for receivers that tolerate doubles),
// KindTimeout (ctx ended: the outcome is unknown), KindInvalid (no broker takes
// it as it is: too large, mostly) or KindForbidden. Other records may have been written.
func (p *Producer) Send(ctx context.Context, recs ...wire.Record) error {
	done := make(chan error, len(recs))
	for _, r := range recs {
		p.SendAsync(r, func(_ int64, err error) { done <- err })
	}
	for range recs {
		select {
		case err := <-done:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return p.sendError(recs[0].Topic, ctx.Err())
		}
	}
	return nil
}

// Append writes one record and answers its offset, or an error as Send does.
func (p *Producer) Append(ctx context.Context, rec wire.Record) (offset int64, err error) {
	type landed struct {
		offset int64
		err    error
	}
	done := make(chan landed, 1)
	p.SendAsync(rec, func(offset int64, err error) { done <- landed{offset, err} })
	select {
	case l := <-done:
		return l.offset, l.err
	case <-ctx.Done():
		return -1, p.sendError(rec.Topic, ctx.Err())
	}
}

// SendAsync hands a record over and returns at once, whatever the brokers do.
// done is called exactly once, with the offset or an error as of Send, maybe
// before SendAsync returns; it must not block. A full buffer is an error of
// KindUnavailable that wraps wire.ErrFull: nothing was written.
func (p *Producer) SendAsync(rec wire.Record, done func(offset int64, err error)) {
	l, bytes := pendingRecord{rec: rec, began: time.Now(), done: done}, sizeOf(rec)
	if err := p.enter(rec.Topic, bytes); err != nil {
		p.sent(l, -1, err)
		return
	}
	l.done = func(offset int64, err error) {
		p.fared(rec.Topic, err)
		done(offset, err)
		p.leave(rec.Topic, bytes)
	}
	p.send(l)
}

func (p *Producer) send(l pendingRecord) {
	// Not under anybody's context: its end would fail all that waits for the same partition.
	client, own := p.clientFor(l.rec.Topic)
	defer p.given(l.rec.Topic, own)
	client.TryProduce(context.Background(), toKgo(l.rec), func(k *kgo.Record, err error) {
		switch {
		case err == nil:
			if !own && p.proven.Load() != client {
				p.proven.Store(client)
			}
			p.sent(l, k.Offset, nil)
		case isUnfit(err):
			p.suspect(l, k.Partition, err)
		case isRefusal(err) && own: // another client writes what comes next
			p.running.Go(func() { p.drop(l.rec.Topic, client) })
			if !kafka.IsForbidden(err) {
				err = compute.Unavailable("write record", err)
			}
			p.sent(l, -1, err)
		case isRefusal(err):
			p.replace(client, func(again bool) { p.again(l, again, err) })
		case errors.Is(err, kgo.ErrClientClosed):
			p.again(l, p.client.Load() != client, err)
		default:
			p.sent(l, -1, err)
		}
	})
}

// again tries a record again that failed with its client, or says why it failed.
func (p *Producer) again(l pendingRecord, again bool, err error) {
	if again && p.ctx.Err() == nil && time.Since(l.began) < p.tries {
		p.send(l)
		return
	}
	p.sent(l, -1, err)
}

// enter counts a record in. What waits for a client counts as what lies in one.
func (p *Producer) enter(topic string, bytes int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ctx.Err() != nil:
		return kgo.ErrClientClosed
	case p.under.records >= p.most.records, p.under.bytes+bytes > p.most.bytes:
		return kgo.ErrMaxBuffered
	}
	p.begins(topic)
	p.under.records++
	p.under.bytes += bytes
	return nil
}

// fared notes that something may have been written to a topic. The sender hears of it later: by then the topic may be
// forgotten, and what is written next must not be mistaken for this.
func (p *Producer) fared(topic string, err error) {
	if errors.Is(err, wire.ErrNoTopic) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrote[topic] = true
}

// leave counts out a record after its sender has been told.
func (p *Producer) leave(topic string, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends(topic)
	p.under.records--
	p.under.bytes -= bytes
	if p.under.records == 0 {
		p.answered.Broadcast()
	}
}

func (p *Producer) buffered() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.under.records
}

func sizeOf(r wire.Record) int64 {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return int64(n)
}

// sent says how a record fared.
func (p *Producer) sent(l pendingRecord, offset int64, err error) {
	if err != nil {
		err = p.sendError(l.rec.Topic, err)
	}
	p.metrics.produced(l.began, err)
	p.noticed(err)
	switch {
	case err == nil:
		l.done(offset, nil)
	case errors.Is(err, wire.ErrNoTopic):
		p.forget(l.rec.Topic, func() { l.done(-1, err) })
	default:
		l.done(-1, err)
	}
}

// noticed tells whether brokers take what is written. A record that failed was
// tried for long.
func (p *Producer) noticed(err error) {
	if err == nil {
		p.outage.Fine()
	} else if p.ctx.Err() != nil {
		return // what Close fails says nothing about brokers
	} else if kind := compute.KindOf(err); kind == compute.KindUnavailable || kind == compute.KindTimeout {
		p.outage.Failed(err)
	}
}

// forget makes the client forget a topic that is gone, then calls told. The
// client would never take to a topic of that name again: it stands by the id it
// knew. It cannot be made to forget from within its own callback.
func (p *Producer) forget(topic string, told func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting, running := p.forgetting[topic]
	p.forgetting[topic] = append(waiting, told)
	if running {
		return
	}
	p.running.Go(func() {
		p.disown(topic)
		p.client.Load().PurgeTopicsFromClient(topic) // its id, too, of which kgo keeps as many as there ever were
		p.mu.Lock()
		waiting := p.forgetting[topic]
		delete(p.forgetting, topic)
		p.mu.Unlock()
		for _, told := range waiting {
			told()
		}
	})
}

// Close fails what is not yet acknowledged and ends the connections; when it
// returns, every done has been called. A second call does nothing.
func (p *Producer) Close() {
	p.mu.Lock() // a swap of the client is over by now, or does not begin
	p.end()
	p.mu.Unlock()
	p.client.Load().Close()
	for _, own := range p.owned() {
		own.Close()
	}
	p.mu.Lock() // the client tells in its own time what it failed
	for p.under.records > 0 {
		p.answered.Wait()
	}
	p.mu.Unlock()
	p.running.Wait()
	p.unshown()
	p.outage.Fine()
}

// sendError says in our words why a record was not written.
func (p *Producer) sendError(topic string, err error) error {
	const op = "write record"
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition),
		errors.Is(err, kerr.UnknownTopicID),
		errors.Is(err, kerr.InvalidTopicException):
		return wire.ErrNoTopic
	case errors.Is(err, kgo.ErrMaxBuffered):
		return &compute.Error{
			Op:      op,
			Kind:    compute.KindUnavailable,
			Message: "too many records wait for the brokers already",
			Remedy:  "try again later",
			Cause:   fmt.Errorf("%w: %w", wire.ErrFull, err),
		}
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return &compute.Error{
			Op:      op,
			Kind:    compute.KindInvalid,
			Message: "the record is too large",
			Remedy:  "send less in one record",
			Cause:   err,
		}
	case isUnfit(err):
		return &compute.Error{
			Op:      op,
			Kind:    compute.KindInvalid,
			Message: "Kafka does not take the record",
			Remedy:  "look into the broker's log",
			Cause:   err,
		}
	case errors.Is(err, kerr.InvalidTimestamp): // of a topic made by an earlier Berth, or by somebody else
		return &compute.Error{
			Op:      op,
			Kind:    compute.KindUnavailable,
			Message: "this machine's clock is far from the broker's",
			Remedy:  "set the clock, and the topic's message.timestamp.type to LogAppendTime",
			Cause:   err,
		}
	}
	return p.cfg.Classify(op, err, access.To(access.Write, access.Topic, topic))
}
