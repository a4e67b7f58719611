// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/internal/batch"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/wire"
)

// producerEpoch is the right to write to one partition of instances. Taking it makes
// every earlier one useless: Kafka raises the epoch of the partition's producer
// id, and the partition's leader refuses whatever has an older one, from the
// first record of the new one on. So that record, the takeover, is written
// before the partition is read: all that lies before it is there, and nothing
// of an earlier owner can follow.
type producerEpoch struct {
	batch.Writer
	taken time.Time
}

// noEpoch is the producer epoch of a partition that nobody is known to have.
var noEpoch = producerEpoch{Writer: batch.Unnumbered}

// after is the producer epoch once n records were written with it.
func (p producerEpoch) after(n int) producerEpoch {
	p.Writer = p.Writer.After(n)
	return p
}

// fencedWriter is the fenced writer of instances: it takes producer epochs, and writes under them.
type fencedWriter struct {
	cfg    kafka.Config
	group  string
	name   string
	most   int // bytes of a batch
	client *kgo.Client
	topic  *fetch.Source
}

// entry is what a turn writes to a partition: all of it or nothing.
type entry struct {
	epoch   producerEpoch
	records []wire.Record
	proof   bool // changes nothing: it says that the producer epoch is good, and readers pass over it
	batch   []byte
	offset  int64 // of the first record; once written
}

// errTurnTooLarge is a turn that changes more of a partition than one batch holds.
var errTurnTooLarge = errors.New("more changes than one batch holds")

// write writes entries, each to its partition, and waits for all of them.
func (s *fencedWriter) write(ctx context.Context, entries map[int32]*entry) error {
	var mu sync.Mutex
	var errs []error
	s.writeEach(ctx, entries, func(_ int32, err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	})
	return errors.Join(errs...)
}

// ending hears how writing an entry ended. It is called from any goroutine.
type ending func(p int32, err error)

// writeEach writes entries, each to its partition, in one request to each leader. It
// tries again until a partition has its entry or refuses it, or ctx ends; then it may
// be written, and only the log knows. Written twice is none: the sequence number tells
// Kafka. It says of each how that ended as soon as it has, from any goroutine, and
// returns when all have: what one broker leads waits for no other.
func (s *fencedWriter) writeEach(ctx context.Context, entries map[int32]*entry, ended ending) {
	left := map[int32]*entry{}
	now := time.Now()
	for p, e := range entries {
		e.batch = batch.Encode(e.epoch.Writer, e.records, now)
		if len(e.batch) > s.most {
			ended(p, fmt.Errorf("%w: %d records of partition %d are %d bytes, and %d go into one",
				errTurnTooLarge, len(e.records), p, len(e.batch), s.most))
			continue
		}
		left[p] = e
	}
	s.send(ctx, left, 1, ended)
}

// send sends what is left to the leaders.
func (s *fencedWriter) send(ctx context.Context, left map[int32]*entry, fails int, ended ending) {
	v := s.topic.Current()
	var each sync.WaitGroup
	for _, r := range s.requests(v, left) {
		each.Go(func() {
			again, err := s.try(ctx, v, r, left, ended)
			if len(again) > 0 {
				s.retry(ctx, again, fails, err, ended)
			}
		})
	}
	each.Wait()
}

// retry sends again, in a while, what was not written because of why.
func (s *fencedWriter) retry(ctx context.Context, left map[int32]*entry, fails int, why error, ended ending) {
	err := pace.Sleep(ctx, min(pace.Backoff(fails)/5, pace.MostWait))
	if err != nil {
		err = fmt.Errorf("%w: %w", err, why)
	} else if _, changed := s.topic.RefreshKnown(ctx); kafka.IsFatal(changed) {
		err = changed
	}
	if err == nil {
		s.send(ctx, left, fails+1, ended)
		return
	}
	for p := range left {
		ended(p, err)
	}
}

// try makes one request, and answers what may be tried again, and why.
func (s *fencedWriter) try(
	ctx context.Context, v fetch.View, r *produceRequest, of map[int32]*entry, ended ending,
) (map[int32]*entry, error) {
	left := map[int32]*entry{}
	for _, p := range r.partitions {
		left[p] = of[p]
	}
	resp, err := s.request(ctx, v, r, of)
	if kafka.IsFatal(err) {
		for p := range left {
			ended(p, err)
		}
		return nil, nil
	}
	if err != nil {
		return left, err
	}
	errs := []error{errNotAnswered}
	for _, rt := range resp.Topics {
		for _, rp := range rt.Partitions {
			e, err := left[rp.Partition], kerr.ErrorForCode(rp.ErrorCode)
			switch {
			case e == nil:
				continue
			case err == nil:
				e.offset = rp.BaseOffset
			case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
				err = fmt.Errorf("%w: partition %d: %w", errTurnTooLarge, rp.Partition, err)
			default:
				err = kafka.Lacking(err, access.To(access.Write, access.Topic, s.topic.Topic))
				err = fmt.Errorf("write to partition %d: %w", rp.Partition, err)
			}
			if err != nil && !kafka.IsFatal(err) && !errors.Is(err, errTurnTooLarge) {
				errs = append(errs, err)
				continue
			}
			delete(left, rp.Partition)
			ended(rp.Partition, err)
		}
	}
	return left, errors.Join(errs...)
}

var errNotAnswered = errors.New("not all partitions were written to")

// produceRequest is what one broker is sent at once.
type produceRequest struct {
	broker     int32
	partitions []int32
	bytes      int
}

// requests shares entries out: one request to each leader, several where one
// would be larger than brokers take (socket.request.max.bytes).
func (s *fencedWriter) requests(v fetch.View, left map[int32]*entry) []*produceRequest {
	var all []*produceRequest
	open := map[int32]*produceRequest{}
	for _, p := range slices.Sorted(maps.Keys(left)) {
		b, n := v.Leaders[p].Broker, len(left[p].batch)
		r := open[b]
		if r == nil || r.bytes+n > s.most {
			r = &produceRequest{broker: b}
			open[b], all = r, append(all, r)
		}
		r.partitions, r.bytes = append(r.partitions, p), r.bytes+n
	}
	return all
}

func (s *fencedWriter) request(
	ctx context.Context, v fetch.View, r *produceRequest, of map[int32]*entry,
) (*kmsg.ProduceResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(ctx, cancel, v, r.partitions)
	}()
	defer func() {
		cancel()
		<-watched
	}()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, int32(write.ProduceTimeout(s.cfg).Milliseconds())
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = s.topic.Topic, v.Id
	for _, p := range r.partitions {
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = p, of[p].batch
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	resp, err := s.client.Broker(int(r.broker)).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	return resp.(*kmsg.ProduceResponse), nil
}

// watch gives a request up once another leads one of its partitions. While a
// leader does not answer others are asked, less and less often: one that is frozen
// never will, and one that has too much to do is not helped by questions.
func (s *fencedWriter) watch(ctx context.Context, giveUp context.CancelFunc, v fetch.View, partitions []int32) {
	for asked := 0; pace.Sleep(ctx, pace.Overdue(asked)) == nil; asked++ {
		now, err := s.topic.RefreshKnown(ctx)
		if err == nil && slices.ContainsFunc(partitions, func(p int32) bool { return now.Leaders[p] != v.Leaders[p] }) {
			giveUp()
			return
		}
	}
}

// takeOverTimeout is how long taking one producer epoch may take: others need not wait for a
// coordinator or a leader that does not answer, and it is tried again.
const takeOverTimeout = 5 * time.Second

// takeOver takes the producer epochs of partitions and writes down that it did. What it answers
// is taken, and the offset of the takeover; an error is about the others.
func (s *fencedWriter) takeOver(ctx context.Context, partitions []int32) (map[int32]*entry, error) {
	ctx, cancel := context.WithTimeout(ctx, takeOverTimeout)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	taken, errs := map[int32]*entry{}, []error(nil)
	for _, p := range partitions {
		wg.Go(func() {
			e, err := s.takeOverOne(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("take the producer epoch of partition %d: %w", p, err))
				return
			}
			taken[p] = e
		})
	}
	wg.Wait()
	return taken, errors.Join(errs...)
}

func (s *fencedWriter) takeOverOne(ctx context.Context, p int32) (*entry, error) {
	next, err := s.raise(ctx, p, noEpoch)
	if err != nil {
		return nil, err
	}
	return s.begin(ctx, p, next)
}

// begin writes down the takeover of a partition with a producer epoch that was raised.
func (s *fencedWriter) begin(ctx context.Context, p int32, with producerEpoch) (*entry, error) {
	e := &entry{epoch: with, records: []wire.Record{wire.Takeover(s.name)}}
	if err := s.write(ctx, map[int32]*entry{p: e}); err != nil {
		return nil, err
	}
	e.epoch = e.epoch.after(len(e.records))
	return e, nil
}

// raise gets the partition's producer id with a new epoch. With an old producer epoch it
// does so only if nobody else has since.
func (s *fencedWriter) raise(ctx context.Context, p int32, old producerEpoch) (producerEpoch, error) {
	req, id := kmsg.NewPtrInitProducerIDRequest(), fmt.Sprintf("%s.%d", s.group, p)
	req.TransactionalID = &id
	req.TransactionTimeoutMillis = 1000 // must be something: there are no transactions
	req.ProducerID, req.ProducerEpoch = old.Producer, old.Epoch
	resp, err := req.RequestWith(ctx, kafka.Prompt(s.client))
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		err = kafka.Lacking(err, access.To(access.Write, access.TransactionalID, id))
		return producerEpoch{}, fmt.Errorf("transactional id %q: %w", id, err)
	}
	return producerEpoch{batch.Writer{Producer: resp.ProducerID, Epoch: resp.ProducerEpoch}, time.Now()}, nil
}
