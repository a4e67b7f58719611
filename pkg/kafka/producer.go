package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Producer writes records that must not be lost: idempotent, acknowledged by
// all replicas in sync, sent at once. Records for one partition arrive in the
// order in which they were given, as long as none fails. It is safe for
// concurrent use.
type Producer struct {
	client *kgo.Client

	mu         sync.Mutex
	forgetting map[string][]func() // by topic that is gone: who is told once it is forgotten
	forgetters sync.WaitGroup

	look    *lookout
	metrics *Metrics
	unshown func() // ends what the metrics ask
}

const (
	// maxBuffered records wait for brokers at most; more are refused, so that
	// nobody who sends ever waits for a broker.
	maxBuffered      = 1 << 17
	maxBufferedBytes = 512 << 20
	// unknownTopicRetries bounds how long a missing topic is looked for: about
	// a second, so that a topic made a moment ago is found.
	unknownTopicRetries = 6
	// maxRecordBytes is the largest batch: the largest request with room to spare.
	maxRecordBytes = 1 << 20
)

// NewProducer makes a producer. It connects when it first sends.
func NewProducer(cfg Config) (*Producer, error) { return newProducer(cfg) }

func newProducer(cfg Config, opts ...kgo.Opt) (*Producer, error) {
	// A sender must hear how its record fared, also when a broker took it and
	// never answers. What is sent again then may be there twice: every receiver
	// of Berth's records takes that.
	all := append(producerOpts(cfg.withDefaults()), kgo.AllowIdempotentProduceCancellation())
	client, err := newClient(cfg, append(all, opts...)...)
	if err != nil {
		return nil, err
	}
	return &Producer{
		client: client, forgetting: map[string][]func(){},
		look: cfg.withDefaults().look("write"), metrics: cfg.Metrics, unshown: cfg.Metrics.producing(client.BufferedProduceRecords),
	}, nil
}

func producerOpts(cfg Config) []kgo.Opt {
	return []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.AlwaysRetryEOF(), // a connection that ends before its first answer may be a broker that ends; kgo takes it for a wrong password
		kgo.ProducerLinger(0),
		kgo.RecordPartitioner(partitioner()),
		kgo.MaxBufferedRecords(maxBuffered),
		kgo.MaxBufferedBytes(maxBufferedBytes),
		kgo.ProducerBatchMaxBytes(maxRecordBytes),
		kgo.UnknownTopicRetries(unknownTopicRetries),
		kgo.ProduceRequestTimeout(produceTimeout(cfg)),
		kgo.RecordDeliveryTimeout(2 * cfg.RequestTimeout), // a frozen leader, and then the new one
	}
}

// produceTimeout is how long a broker may wait for its replicas.
func produceTimeout(cfg Config) time.Duration {
	return max(cfg.RequestTimeout/2, 100*time.Millisecond)
}

// Send writes records and answers when all are acknowledged, or with the first
// error: wire.ErrNoTopic, or a *compute.Error of KindUnavailable (not written,
// or perhaps: trying again is safe for receivers that tolerate doubles),
// KindTimeout (ctx ended: the outcome is unknown), KindInvalid (too large) or
// KindForbidden. Other records may have been written.
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
			return sendError(ctx.Err())
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
		return -1, sendError(ctx.Err())
	}
}

// SendAsync hands a record over and returns at once, whatever the brokers do.
// done is called exactly once, with the offset or an error as of Send, maybe
// before SendAsync returns; it must not block. A full buffer is an error of
// KindUnavailable that wraps wire.ErrFull: nothing was written.
func (p *Producer) SendAsync(rec wire.Record, done func(offset int64, err error)) {
	began := time.Now()
	// Not under anybody's context: its end would fail all that waits for the
	// same partition, whoever sent it.
	p.client.TryProduce(context.Background(), toKgo(rec), func(k *kgo.Record, err error) {
		if err != nil {
			err = sendError(err)
		}
		p.metrics.produced(began, err)
		p.noticed(err)
		if err == nil {
			done(k.Offset, nil)
			return
		}
		if errors.Is(err, wire.ErrNoTopic) {
			p.forget(rec.Topic, func() { done(-1, err) })
			return
		}
		done(-1, err)
	})
}

// noticed tells whether brokers take what is written. A record that failed was
// tried for long.
func (p *Producer) noticed(err error) {
	if err == nil {
		p.look.fine()
	} else if kind := compute.KindOf(err); kind == compute.KindUnavailable || kind == compute.KindTimeout {
		p.look.failed(err)
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
	p.forgetters.Go(func() {
		p.client.PurgeTopicsFromProducing(topic)
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
	p.client.Close()
	p.forgetters.Wait()
	p.unshown()
	p.look.fine()
}

// sendError says in our words why a record was not written.
func sendError(err error) error {
	const op = "write record"
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InvalidTopicException):
		return wire.ErrNoTopic
	case errors.Is(err, kgo.ErrMaxBuffered):
		return &compute.Error{Op: op, Kind: compute.KindUnavailable, Message: "too many records wait for the brokers already", Remedy: "try again later", Cause: fmt.Errorf("%w: %w", wire.ErrFull, err)}
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return &compute.Error{Op: op, Kind: compute.KindInvalid, Message: "the record is too large", Remedy: "send less in one record", Cause: err}
	}
	return classify(op, err)
}
