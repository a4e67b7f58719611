package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/wire"
)

// pen is the right to write to one partition of instances. Taking it makes
// every earlier one useless: Kafka raises the epoch of the partition's producer
// id, and the partition's leader refuses whatever has an older one, from the
// first record of the new one on. So that record, the takeover, is written
// before the partition is read: all that lies before it is there, and nothing
// of an earlier owner can follow.
type pen struct {
	producer int64
	epoch    int16
	next     int32 // the sequence number of the next record
	taken    time.Time
}

// scribe writes to instances, and takes pens.
type scribe struct {
	cfg    Config
	group  string
	name   string
	most   int // bytes of a batch
	client *kgo.Client
	topic  *source
}

// entry is what a turn writes to a partition: all of it or nothing.
type entry struct {
	pen     pen
	records []wire.Record
	batch   []byte
	offset  int64 // of the first record; once written
}

// errTurnTooLarge is a turn that changes more of a partition than one batch holds.
var errTurnTooLarge = errors.New("more changes than one batch holds")

// write writes entries, each to its partition, in one request to each leader. It
// tries again until all are written, a partition refuses, or ctx ends; then any
// may be written, and only the log knows. Written twice is none: the sequence
// number tells Kafka.
func (s *scribe) write(ctx context.Context, entries map[int32]*entry) error {
	left := map[int32]*entry{}
	now := time.Now()
	for p, e := range entries {
		e.batch = encodeBatch(e.pen, e.records, now)
		if len(e.batch) > s.most {
			return fmt.Errorf("%w: %d records of partition %d are %d bytes, and %d go into one", errTurnTooLarge, len(e.records), p, len(e.batch), s.most)
		}
		left[p] = e
	}
	for fails := 1; ; fails++ {
		err := s.tryWrite(ctx, left)
		if len(left) == 0 || isFatal(err) {
			return err
		}
		if waited := sleep(ctx, min(retryBackoff(fails)/5, mostWait)); waited != nil {
			return fmt.Errorf("%w: %w", waited, err)
		}
		if _, err := s.topic.refresh(ctx); isFatal(err) {
			return err
		}
	}
}

// tryWrite sends what is left to who leads it, and takes away what was written.
func (s *scribe) tryWrite(ctx context.Context, left map[int32]*entry) error {
	v := s.topic.current()
	byBroker := map[int32][]int32{}
	for p := range left {
		b := v.leaders[p].broker
		byBroker[b] = append(byBroker[b], p)
	}
	type answer struct {
		resp *kmsg.ProduceResponse
		err  error
	}
	answers := make(chan answer, len(byBroker))
	for broker, partitions := range byBroker {
		go func() {
			resp, err := s.send(ctx, v, broker, partitions, left)
			answers <- answer{resp, err}
		}()
	}
	var all []answer
	for range byBroker {
		all = append(all, <-answers)
	}
	var errs []error
	for _, a := range all {
		if a.err != nil {
			errs = append(errs, a.err)
			continue
		}
		for _, rt := range a.resp.Topics {
			for _, rp := range rt.Partitions {
				e := left[rp.Partition]
				err := kerr.ErrorForCode(rp.ErrorCode)
				switch {
				case isFatal(err):
					return fmt.Errorf("write to partition %d: %w", rp.Partition, err)
				case err != nil:
					errs = append(errs, fmt.Errorf("write to partition %d: %w", rp.Partition, err))
				case e != nil:
					e.offset = rp.BaseOffset
					delete(left, rp.Partition)
				}
			}
		}
	}
	return errors.Join(errs...)
}

func (s *scribe) send(ctx context.Context, v view, broker int32, partitions []int32, of map[int32]*entry) (*kmsg.ProduceResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	go s.watch(ctx, cancel, v, partitions)
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, int32(produceTimeout(s.cfg).Milliseconds())
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = s.topic.topic, v.id
	for _, p := range slices.Sorted(slices.Values(partitions)) {
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = p, of[p].batch
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	resp, err := s.client.Broker(int(broker)).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	return resp.(*kmsg.ProduceResponse), nil
}

// watchEvery is how soon, and how often, somebody else is asked who leads while
// a leader does not answer: one that is frozen never will.
const watchEvery = time.Second

// watch gives a request up once another leads one of its partitions.
func (s *scribe) watch(ctx context.Context, giveUp context.CancelFunc, v view, partitions []int32) {
	for sleep(ctx, watchEvery) == nil {
		now, err := s.topic.refresh(ctx)
		if err == nil && slices.ContainsFunc(partitions, func(p int32) bool { return now.leaders[p] != v.leaders[p] }) {
			giveUp()
			return
		}
	}
}

// take takes the pens of partitions and writes down that it did: had is the pens
// this process has already, and only raises. What it answers is taken, and the
// offset of the takeover; an error is about the others.
func (s *scribe) take(ctx context.Context, partitions []int32, had map[int32]pen) (map[int32]*entry, error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	taken, errs := map[int32]*entry{}, []error(nil)
	for _, p := range partitions {
		wg.Go(func() {
			old, has := had[p]
			if !has {
				old = pen{producer: -1, epoch: -1}
			}
			next, err := s.raise(ctx, p, old)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("take the pen of partition %d: %w", p, err))
				return
			}
			taken[p] = &entry{pen: next, records: []wire.Record{wire.Takeover(s.name)}}
		})
	}
	wg.Wait()
	if len(taken) == 0 {
		return nil, errors.Join(errs...)
	}
	if err := s.write(ctx, taken); err != nil {
		return nil, errors.Join(append(errs, fmt.Errorf("write down a takeover: %w", err))...)
	}
	for _, e := range taken {
		e.pen = e.pen.after(len(e.records))
	}
	return taken, errors.Join(errs...)
}

// raise gets the partition's producer id with a new epoch.
func (s *scribe) raise(ctx context.Context, p int32, old pen) (pen, error) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID = kmsg.StringPtr(fmt.Sprintf("%s.%d", s.group, p))
	req.TransactionTimeoutMillis = int32(DefaultTurnTimeout.Milliseconds()) // of no use: there are no transactions
	req.ProducerID, req.ProducerEpoch = old.producer, old.epoch
	resp, err := req.RequestWith(ctx, s.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return pen{}, err
	}
	return pen{producer: resp.ProducerID, epoch: resp.ProducerEpoch, taken: time.Now()}, nil
}

// renew raises the pens of partitions that were taken long ago, lest Kafka
// forgets the producer id (transactional.id.expiration.ms) or who wrote last
// (producer.id.expiration.ms): it would not know then whom to refuse.
func (r *loopRun) renew() error {
	had := map[int32]pen{}
	for p, o := range r.owned {
		if o.ready && time.Since(o.pen.taken) >= r.loop.opts.RenewEvery {
			had[p] = o.pen
			break // the others will come too; nobody should notice
		}
	}
	for p := range had {
		ctx, cancel := context.WithTimeout(r.hard, r.loop.opts.TurnTimeout)
		defer cancel()
		taken, err := r.scribe.take(ctx, []int32{p}, had)
		if err != nil {
			return r.undo(err)
		}
		r.owned[p].pen = taken[p].pen
		r.log.Debug("pen renewed", zap.Int32("partition", p))
	}
	return nil
}
