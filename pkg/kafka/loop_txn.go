package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/wire"
)

// transactor writes changes and positions in one transaction each. After any
// failure its client is thrown away: the next one gets a new producer epoch,
// which ends what the old one may have left open, and whose outcome is not
// guessed at but read from the log.
type transactor struct {
	cfg    Config
	opts   LoopOptions
	topics [inputTopics]inputTopic
	client *kgo.Client // nil: none yet, or thrown away
	// implicit: Kafka adds partitions and offsets to a transaction by itself
	// (transaction.version 2). Clusters upgraded from before 4.0 may not.
	implicit bool
	unasked  time.Time // since when some partition could not be asked for open transactions; zero: all could
}

type inputTopic struct {
	name string
	id   [16]byte
}

// position is how far a partition's inputs have been dealt with, and its
// effects published.
type position struct {
	partition int32
	at        [inputTopics]int64
	cursor    int64
}

var (
	errGenerationLost = errors.New("the group went on without this process")
	errNoMember       = errors.New("no commit without a generation: nothing would fence it")
)

const (
	// abortTimeout is how long an orderly end of a failed transaction may take.
	// It only spares the next owner waiting.
	abortTimeout = 2 * time.Second
	// markerWait is how soon a commit is tried again while the transaction before
	// is still being written down.
	markerWait = 5 * time.Millisecond
)

// open gets a producer epoch, which fences whoever had this transactional id.
func (t *transactor) open(ctx context.Context) error {
	if t.client != nil {
		return nil
	}
	client, err := t.dial(ctx)
	if err != nil {
		return err
	}
	err = t.endLast(ctx, client)
	if err == nil {
		_, _, err = client.ProducerID(ctx)
	}
	if err != nil {
		client.Close()
		return err
	}
	t.client = client
	return nil
}

// unaskedPatience is how long a new epoch waits for partitions that cannot say
// whether they have heard the end of the last transaction. After that all other
// partitions count for more.
const unaskedPatience = 30 * time.Second

// endLast ends this id's last transaction everywhere, before the coordinator
// forgets how it ended. It is as patient as the client is with a new epoch: a
// Kafka that nobody has used yet makes its coordinators only when asked for them.
func (t *transactor) endLast(ctx context.Context, client *kgo.Client) error {
	if !t.implicit {
		return nil // epochs do not tell transactions apart there
	}
	ctx, cancel := context.WithTimeout(ctx, 2*t.cfg.RequestTimeout)
	defer cancel()
	_, err := retry(ctx, t.cfg.Log, "asking how the last transaction ended", nil, func() (struct{}, error) {
		return struct{}{}, t.tryEndLast(ctx, client)
	})
	return err
}

func (t *transactor) tryEndLast(ctx context.Context, client *kgo.Client) error {
	m, err := newMender(ctx, client, t.cfg.Log, t.cfg.Topics.Instances(), t.opts.Group)
	if err != nil {
		return err
	}
	unasked, err := m.endOwn(ctx, client, t.opts.TransactionalID)
	switch {
	case err != nil || unasked == nil:
		t.unasked = time.Time{}
		return err
	case t.unasked.IsZero():
		t.unasked = time.Now()
	}
	if time.Since(t.unasked) < unaskedPatience {
		return unasked
	}
	t.cfg.Log.Warn("a new epoch begins although a partition may not have heard the end of the last transaction", zap.Error(unasked))
	return nil
}

func (t *transactor) dial(ctx context.Context) (*kgo.Client, error) {
	opts := append(producerOpts(t.cfg),
		kgo.TransactionalID(t.opts.TransactionalID),
		kgo.TransactionTimeout(t.opts.TransactionTimeout),
		kgo.ManualFlushing(),
	)
	client, err := newClient(t.cfg, opts...)
	if err != nil {
		return nil, err
	}
	if t.implicit, err = addsByItself(ctx, client); err != nil || t.implicit {
		return client, err
	}
	// The client chooses each request's newest version, and those of 4.0 on take
	// for granted what such a cluster does not do.
	client.Close()
	return newClient(t.cfg, append(opts, kgo.MaxVersions(kversion.V3_9_0()))...)
}

// addsByItself asks for the cluster's transaction.version.
func addsByItself(ctx context.Context, client *kgo.Client) (bool, error) {
	resp, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, client)
	if err != nil {
		client.Close()
		return false, err
	}
	for _, f := range resp.FinalizedFeatures {
		if f.Name == "transaction.version" {
			return f.MaxVersionLevel >= 2, nil
		}
	}
	return false, nil
}

// commit writes changes and positions, all or nothing, and answers the offsets
// of the changes. lost is asked last: a loss since the turn began aborts it.
func (t *transactor) commit(ctx context.Context, f fence, changes []wire.Record, at []position, lost func() bool) ([]int64, error) {
	if f.member == "" {
		return nil, errNoMember
	}
	ctx, cancel := context.WithTimeout(ctx, t.opts.TransactionTimeout+t.cfg.RequestTimeout)
	defer cancel()
	if err := t.open(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := t.client.BeginTransaction(); err != nil {
		return nil, err
	}
	offsets, err := t.produce(ctx, changes)
	if err != nil {
		return nil, err
	}
	if err := t.commitOffsets(ctx, f, at); err != nil {
		return nil, err
	}
	if lost() {
		return nil, errGenerationLost
	}
	if err := t.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return nil, err
	}
	t.cfg.Metrics.committed(began)
	return offsets, nil
}

// produce writes the changes, in one request to each broker: sent as they are
// handed over, the first would go alone, and Kafka adds the partitions of one
// request after those of another to the transaction. It does not wait for
// brokers longer than ctx does: the client cannot take back what it has sent,
// but it can be thrown away.
func (t *transactor) produce(ctx context.Context, changes []wire.Record) ([]int64, error) {
	recs, errs := make([]*kgo.Record, len(changes)), make(chan error, len(changes))
	for i, c := range changes {
		recs[i] = toKgo(c)
		t.client.Produce(ctx, recs[i], func(_ *kgo.Record, err error) { errs <- err })
	}
	if err := t.client.Flush(ctx); err != nil {
		return nil, err
	}
	for range recs {
		select {
		case err := <-errs:
			if err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	offsets := make([]int64, len(recs))
	for i, r := range recs {
		offsets[i] = r.Offset
	}
	return offsets, nil
}

// commitOffsets makes positions a part of the transaction. The client's own
// way leaves out positions that did not move, and then nothing would fence the
// transaction; and it takes the generation of now, not that of the turn.
func (t *transactor) commitOffsets(ctx context.Context, f fence, at []position) error {
	id, epoch, err := t.client.ProducerID(ctx)
	if err != nil {
		return err
	}
	if !t.implicit {
		if err := t.addOffsets(ctx, id, epoch); err != nil {
			return err
		}
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group = t.opts.TransactionalID, t.opts.Group
	req.ProducerID, req.ProducerEpoch = id, epoch
	req.MemberID, req.Generation = f.member, f.generation
	for i, topic := range t.topics {
		rt := kmsg.NewTxnOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = topic.name, topic.id
		for _, p := range at {
			rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset, rp.Metadata = p.partition, p.at[i], p.metadata(i)
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	return untilMarked(ctx, func() error {
		resp, err := req.RequestWith(ctx, t.client)
		if err != nil {
			return err
		}
		for _, rt := range resp.Topics {
			for _, rp := range rt.Partitions {
				if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
					return fmt.Errorf("commit the position of partition %d: %w", rp.Partition, err)
				}
			}
		}
		return nil
	})
}

// addOffsets makes the group a part of the transaction.
func (t *transactor) addOffsets(ctx context.Context, id int64, epoch int16) error {
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.TransactionalID, req.Group = t.opts.TransactionalID, t.opts.Group
	req.ProducerID, req.ProducerEpoch = id, epoch
	return untilMarked(ctx, func() error {
		resp, err := req.RequestWith(ctx, t.client)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
}

// untilMarked tries again while Kafka still writes the transaction before down.
func untilMarked(ctx context.Context, try func() error) error {
	for {
		err := try()
		if !errors.Is(err, kerr.ConcurrentTransactions) {
			return err
		}
		if sleep(ctx, markerWait) != nil {
			return err
		}
	}
}

// discard ends what is open if that is quickly done, and throws the client away.
func (t *transactor) discard(ctx context.Context) {
	if t.client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, abortTimeout)
	defer cancel()
	// Errors change nothing: the next epoch, or the time-out, ends it too.
	if t.client.AbortBufferedRecords(ctx) == nil {
		_ = t.client.EndTransaction(ctx, kgo.TryAbort)
	}
	t.client.Close()
	t.client = nil
}

// commitPlainly commits positions outside of a transaction. client must not
// retry: a request that was given up may still arrive, and would then undo a
// newer one. unknown says that it may: then only a new generation keeps it out.
// A refusal that came as an answer is in order, whatever it says.
func commitPlainly(ctx context.Context, client *kgo.Client, group string, f fence, topics [inputTopics]inputTopic, at []position) (unknown bool, err error) {
	if f.member == "" {
		return false, errNoMember
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = group, f.member, f.generation
	for i, topic := range topics {
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = topic.name, topic.id
		for _, p := range at {
			rp := kmsg.NewOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset, rp.Metadata = p.partition, p.at[i], p.metadata(i)
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		var refused *kerr.Error
		return !errors.As(err, &refused), err
	}
	for _, rt := range resp.Topics {
		for _, rp := range rt.Partitions {
			if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// cursorPrefix marks the outbox cursor in the metadata of a committed position
// of requests.
const cursorPrefix = "outbox="

func (p position) metadata(topic int) *string {
	m := ""
	if topic == requests && p.cursor >= 0 {
		m = fmt.Sprintf("%s%d", cursorPrefix, p.cursor)
	}
	return &m
}

// parseCursor reads the outbox cursor; -1 if there is none.
func parseCursor(metadata *string) int64 {
	if metadata == nil {
		return -1
	}
	digits, ok := strings.CutPrefix(*metadata, cursorPrefix)
	if !ok {
		return -1
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}
