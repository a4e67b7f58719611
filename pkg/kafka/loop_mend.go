package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// Kafka forgets to tell a partition how a transaction ended if the partition has
// no leader at that moment: it takes it for deleted. From then on the
// transaction is open there for ever, and so nobody can read what was committed
// behind it. The coordinator still knows how its last transaction ended; what
// follows tells the partition, in its place. It never guesses: a wrong word here
// would lose what was acknowledged, or show what was not.

const (
	// mendAfter is how long a gain waits before it looks for what Kafka forgot:
	// longer than Kafka needs for what it has not forgotten.
	mendAfter = 15 * time.Second
	// mendEvery is how soon it looks again.
	mendEvery = 10 * time.Second
)

// openTxn is a transaction that a partition has heard no end of.
type openTxn struct {
	topic       string
	partition   int32
	producer    int64
	epoch       int16
	coordinator int32 // its epoch, as the partition knows it
}

// ending is how a transaction ended, as its coordinator says.
type ending uint8

const (
	unknown ending = iota // the coordinator does not know it any more
	pending               // Kafka is still about to end it, or to say so
	commits
	aborts
)

// endingOf is what a coordinator says about a transaction that is open in a
// partition. Each transaction that ends raises the producer's epoch by one
// (transaction.version 2): one further, and it speaks of another transaction.
func endingOf(o openTxn, t kadm.DescribedTransaction) ending {
	lag := t.ProducerEpoch - o.epoch
	switch {
	case t.ProducerID != o.producer || lag < 0 || lag > 1:
		return unknown
	case t.State == "CompleteCommit" && lag == 1:
		return commits
	case t.State == "CompleteAbort" && lag == 1:
		return aborts
	case t.State == "Ongoing" && lag == 0, t.State == "PrepareCommit", t.State == "PrepareAbort", t.State == "PrepareEpochFence":
		return pending
	}
	return unknown
}

// mender looks for transactions whose end was forgotten.
type mender struct {
	admin *kadm.Client
	in    kadm.TopicsSet
	log   *zap.Logger
}

// newMender looks in instances, and where Kafka keeps the positions of a group.
func newMender(ctx context.Context, client *kgo.Client, log *zap.Logger, instances, group string) (*mender, error) {
	m := &mender{admin: kadm.NewClient(client), in: kadm.TopicsSet{}, log: log}
	for topic, choose := range map[string]func(n int32) []int32{
		instances: upTo,
		offsets:   func(n int32) []int32 { return []int32{javaHash(group) % n} },
	} {
		t, err := describeTopic(ctx, client, topic)
		if errors.Is(err, kerr.UnknownTopicOrPartition) || isForbidden(err) {
			continue // nobody has committed anything yet, or it is not for us to know
		}
		if err != nil {
			return nil, err
		}
		m.in.Add(topic, choose(int32(len(t.Partitions)))...)
	}
	return m, nil
}

// offsets is where Kafka keeps the positions of groups.
const offsets = "__consumer_offsets"

func upTo(n int32) []int32 {
	var all []int32
	for p := range n {
		all = append(all, p)
	}
	return all
}

// javaHash is String.hashCode of Java without its sign: what Kafka partitions
// the positions of groups by. Group ids of ours are ASCII.
func javaHash(s string) int32 {
	var h int32
	for _, c := range []byte(s) {
		h = 31*h + int32(c)
	}
	return h & 0x7fffffff
}

// open lists the transactions that partitions have heard no end of. unasked is
// why some partitions could not be asked; err, why none could.
func (m *mender) open(ctx context.Context) (all []openTxn, unasked, err error) {
	topics, err := partly(m.admin.DescribeProducers(ctx, m.in))
	if err != nil {
		return nil, nil, err
	}
	topics.EachPartition(func(p kadm.DescribedProducersPartition) {
		if p.Err != nil && !isForbidden(p.Err) {
			unasked = fmt.Errorf("ask %s partition %d for open transactions: %w", p.Topic, p.Partition, p.Err)
		}
	})
	topics.EachProducer(func(p kadm.DescribedProducer) {
		if p.CurrentTxnStartOffset >= 0 {
			all = append(all, openTxn{p.Topic, p.Partition, p.ProducerID, p.ProducerEpoch, p.CoordinatorEpoch})
		}
	})
	return all, unasked, nil
}

// partly takes what some brokers answered, if others did not.
func partly[T any](answer T, err error) (T, error) {
	if some, ok := errors.AsType[*kadm.ShardErrors](err); ok && !some.AllFailed {
		return answer, nil
	}
	return answer, err
}

// mend tells partitions the end of transactions of which the coordinators say
// that they are over.
func (m *mender) mend(ctx context.Context) error {
	first, _, err := m.open(ctx)
	if err != nil || len(first) == 0 {
		return err
	}
	var producers []int64
	for _, o := range first {
		producers = append(producers, o.producer)
	}
	listed, err := partly(m.admin.ListTransactions(ctx, producers, nil))
	if err != nil || len(listed) == 0 {
		return err
	}
	described, err := partly(m.admin.DescribeTransactions(ctx, listed.TransactionalIDs()...))
	if err != nil {
		return err
	}
	// What was over before, and is open still, was forgotten: a mark that was
	// only under way has arrived.
	still, _, err := m.open(ctx)
	for _, o := range still {
		if !slices.Contains(first, o) {
			continue
		}
		end := pending // nobody has spoken
		for _, t := range described {
			if t.Err == nil && t.ProducerID == o.producer {
				end = endingOf(o, t)
			}
		}
		err = errors.Join(err, m.tell(ctx, o, end))
	}
	return err
}

// tell writes the mark of a transaction's end.
func (m *mender) tell(ctx context.Context, o openTxn, end ending) error {
	about := []zap.Field{zap.String("topic", o.topic), zap.Int32("partition", o.partition), zap.Int64("producer", o.producer), zap.Int16("epoch", o.epoch)}
	switch end {
	case pending:
		return nil
	case unknown:
		m.log.Error("a transaction is open and nobody knows how it ended: placement of these projects stands still; "+
			"kafka-transactions.sh find-hanging shows it, and abort ends it if its changes are not wanted", about...)
		return nil
	}
	in := kadm.TopicsSet{}
	in.Add(o.topic, o.partition)
	resp, err := m.admin.WriteTxnMarkers(ctx, kadm.TxnMarkers{
		ProducerID: o.producer, ProducerEpoch: o.epoch, Commit: end == commits, CoordinatorEpoch: o.coordinator, Topics: in,
	})
	resp.EachPartition(func(p kadm.TxnMarkersPartitionResponse) { err = errors.Join(err, p.Err) })
	switch {
	case isForbidden(err):
		m.log.Error("Kafka has forgotten to write the end of a transaction, and does not let this process write it: allow CLUSTER_ACTION; "+
			"until somebody writes it, placement of these projects stands still", append(about, zap.Bool("committed", end == commits), zap.Error(err))...)
		return nil
	case err != nil:
		return fmt.Errorf("write the end of a transaction that Kafka forgot: %w", err)
	}
	m.log.Warn("Kafka had forgotten to write the end of a transaction: it is written", append(about, zap.Bool("committed", end == commits))...)
	return nil
}

// endOwn ends what a transactional id may have left open, so that it is known
// how, and tells it to whoever Kafka forgot to tell. Afterwards the id may get a
// new epoch; its coordinator then knows no more of the one before. unasked is
// why some partitions could not be asked.
func (m *mender) endOwn(ctx context.Context, client *kgo.Client, id string) (unasked, err error) {
	for {
		all, err := m.admin.DescribeTransactions(ctx, id)
		if err != nil {
			return nil, err
		}
		t := all[id]
		switch {
		case errors.Is(t.Err, kerr.TransactionalIDNotFound), t.State == "Empty", t.State == "Dead":
			return nil, nil
		case t.Err != nil:
			return nil, t.Err
		case t.State == "Ongoing":
			req := kmsg.NewPtrEndTxnRequest()
			req.TransactionalID, req.ProducerID, req.ProducerEpoch = id, t.ProducerID, t.ProducerEpoch
			if _, err := req.RequestWith(ctx, client); err != nil { // if somebody was faster, the next look shows it
				return nil, err
			}
		case t.State == "CompleteCommit" || t.State == "CompleteAbort":
			return m.tellAll(ctx, t)
		}
		if err := sleep(ctx, markerWait); err != nil {
			return nil, err
		}
	}
}

// tellAll tells every partition that has heard no end of a transaction that is over.
func (m *mender) tellAll(ctx context.Context, t kadm.DescribedTransaction) (unasked, err error) {
	still, unasked, err := m.open(ctx)
	for _, o := range still {
		if o.producer == t.ProducerID {
			err = errors.Join(err, m.tell(ctx, o, endingOf(o, t)))
		}
	}
	return unasked, err
}
