// SPDX-License-Identifier: Apache-2.0

package read

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/wire"
)

// Batch is what one fetch brought.
type Batch struct {
	Records []wire.Record // in order within each partition
	// End says that with this batch everything has been handed over up to the
	// end that each partition had when it was last fetched: its high watermark,
	// for a Committed reader its last stable offset. A batch without records
	// only says that; there is one whenever the end is reached without a record,
	// so also for an empty topic.
	End bool
}

// Start is where a reader begins. The zero value is Beginning.
type Start struct {
	kind    startKind
	offsets map[int32]int64
}

type startKind uint8

const (
	startBeginning startKind = iota
	startEnd
	startAt
)

// Beginning reads everything there is.
func Beginning() Start { return Start{} }

// End reads what comes after the reader started.
func End() Start { return Start{kind: startEnd} }

// At reads from these offsets on; a partition that is not named is read from
// its beginning. Where the log no longer has the offset, or never had it (it
// is of an earlier incarnation of the topic), it is read from the oldest
// record there is.
func At(offsets map[int32]int64) Start { return Start{kind: startAt, offsets: offsets} }

// Options say what is read.
type Options struct {
	Topic      string
	Partitions []int32 // nil: all the topic has when the reader starts
	From       Start
	Committed  bool // hand over nothing that a transaction has not committed
	// Until is where the reader is ready, for partitions that are known to reach
	// so far, whatever a broker says that does not know of it yet.
	Until map[int32]int64
	// Handle takes what was read; required. It is called from one goroutine, in
	// order within each partition; while it runs nothing else is handed over.
	// The records are the receiver's to keep.
	Handle func(Batch)
	// Missed hears that a partition is read on at an offset though the reader was elsewhere: what lay between was
	// removed before it was read, or the topic was made anew and is shorter than that. It is called as Handle is,
	// before what follows is handed over. A reader that has no offset to start at misses nothing by starting. nil:
	// nobody wants to know.
	Missed func(partition int32, next int64)
	// MaxWait is how long a broker may hold a fetch that finds nothing new.
	// 0: DefaultReaderWait.
	MaxWait time.Duration
	// Gather is how long a broker may hold records back so that several come at once: where nothing is gained by each
	// coming a millisecond earlier, an answer for each record costs more than the records. Sync may take that much
	// longer. 0: not at all.
	Gather time.Duration
	// Pace is how long the reader leaves, from one fetch to the next, for more to
	// come while nobody waits in Sync: what comes alone is handed over at once, of
	// a dense stream several at a time. 0: not at all.
	Pace time.Duration
	// Takeovers has the records of no instance handed over too: conductors, and what
	// helps them, find positions there.
	Takeovers bool
}

// DefaultWait keeps idle readers cheap: a fetch every 5 s.
const DefaultWait = 5 * time.Second

// Reader reads a topic by itself, without a consumer group: the table behind a
// compacted topic, or the tail of a stream. It is a service.Part.
//
// A topic that is not there yet is waited for, and so is one that disappears.
// If it comes back as another one (deleted and made again), or if it lost
// records that had been handed over, then what the receiver knows is of a log
// that no longer exists: Run ends with an error of KindConflict, and only a
// new reader with an empty table helps.
//
// One that was cut off goes on from where it was, however long that took: what was removed from a compacted topic it
// hears of for the topic's delete.retention.ms.
type Reader struct {
	cfg        kafka.Config
	opts       Options
	ready      chan struct{}
	ended      chan struct{} // closed when Run returns
	syncs      chan caller   // calls of Sync
	caughtUpAt atomic.Int64  // see CaughtUpAt; in nanoseconds since made
	made       time.Time
	reads      *readerMetrics
	shared     *SharedFetch // has the connections that it uses; nil: its own
}

// NewReader makes a reader; Run starts it.
func NewReader(cfg kafka.Config, opts Options) *Reader {
	if opts.MaxWait == 0 {
		opts.MaxWait = DefaultWait
	}
	return &Reader{
		cfg: cfg.WithDefaults(), opts: opts,
		reads: newMetrics(cfg.Metrics.Registerer()).reading(kindOf(cfg.Topics, opts.Topic)),
		ready: make(chan struct{}), ended: make(chan struct{}), syncs: make(chan caller), made: time.Now(),
	}
}

// Ready is closed once everything up to the ends the topic had when the reader
// started has been handled, and Handle was told so by End. An open transaction holds it up until it is
// decided, if the reader is Committed.
func (r *Reader) Ready() <-chan struct{} { return r.ready }

// Run reads until ctx ends, and then returns nil.
func (r *Reader) Run(ctx context.Context) error {
	defer close(r.ended)
	client, leave, err := r.enter()
	if err != nil {
		return err
	}
	defer leave()
	defer r.reads.show()()
	outage := r.cfg.OutageReporter(readOf(r.cfg.Topics, r.opts.Topic))
	defer outage.Fine()
	src := &fetch.Source{
		Client: client, Topic: r.opts.Topic, Only: r.opts.Partitions, Log: r.cfg.Log, Outage: outage,
		Patient: r.opts.Pace > 0, Takeovers: r.opts.Takeovers,
	}
	if r.shared != nil {
		src.Shared, src.Known = r.shared, r.shared.cfg.Known
		defer r.shared.opened(src)()
	}
	err = r.read(ctx, src)
	if ctx.Err() != nil {
		return nil
	}
	return r.classified(err)
}

// classified is why the topic cannot be read.
func (r *Reader) classified(err error) error {
	return r.cfg.Classify("read "+r.opts.Topic, err, access.To(access.Read, access.Topic, r.opts.Topic))
}

// enter is the client to read with, and what to do when it is not needed any more.
func (r *Reader) enter() (*kgo.Client, func(), error) {
	if r.shared != nil {
		return r.shared.enter()
	}
	client, err := readClient(r.cfg)
	if err != nil {
		return nil, nil, err
	}
	return client, client.Close, nil
}

func (r *Reader) read(ctx context.Context, src *fetch.Source) error {
	if err := src.Open(ctx); err != nil {
		return err
	}
	ends, err := src.Persist(ctx, fetch.Latest)
	if err != nil {
		return err
	}
	for p, end := range r.opts.Until {
		ends[p] = max(ends[p], end)
	}
	at, err := r.begin(ctx, src, ends)
	if err != nil {
		return err
	}
	l := newReadLoop(r, src, at)
	l.targets = []target{{ends: ends, done: []chan struct{}{r.ready}}}
	return l.run(ctx)
}

// begin finds the first offset to read in each partition.
func (r *Reader) begin(ctx context.Context, src *fetch.Source, ends map[int32]int64) (fetch.Cursors, error) {
	first := ends
	if r.opts.From.kind != startEnd {
		var err error
		if first, err = src.Persist(ctx, fetch.Earliest); err != nil {
			return nil, err
		}
	}
	at := fetch.Cursors{}
	for p, oldest := range first {
		at[p] = &fetch.Cursor{Next: oldest, End: -1}
		want, ok := r.opts.From.offsets[p]
		if !ok || want == oldest {
			continue
		}
		if want < oldest || want > ends[p] {
			r.cfg.Log.Warn(
				"the offset to start at is not in the log; reading from the oldest record",
				zap.String("topic", src.Topic),
				zap.Int32(
					"partition",
					p,
				),
				zap.Int64("offset", want),
				zap.Int64("oldest", oldest),
				zap.Int64("end", ends[p]),
			)
			r.missed(p, oldest)
			continue
		}
		at[p].Next = want
	}
	return at, nil
}

// missed tells the receiver that a partition is read on at an offset.
func (r *Reader) missed(partition int32, next int64) {
	if r.opts.Missed != nil {
		r.opts.Missed(partition, next)
	}
}

// CaughtUpAt is a time up to which the receiver knows all that was said in every
// partition, as far as the brokers knew that answered: a leader that is cut off
// from the others does not know that it leads no more, for half a minute at most,
// and Sync would ask them too. Of what waits behind an open transaction a Committed
// reader knows nothing. It is zero if there is none. Where brokers answer, it is
// MaxWait ago at most while nothing is said, and twice that where something is.
func (r *Reader) CaughtUpAt() time.Time {
	if n := r.caughtUpAt.Load(); n > 0 {
		return r.made.Add(time.Duration(n))
	}
	return time.Time{}
}

// Sync asks where the topic ends now and answers when everything up to there
// has been handled: whatever was acknowledged to anybody before the call is
// then in the table. Calls at the same time share one question. It waits for a
// reader that has not opened its topic yet; one that has ended answers
// KindUnavailable, the end of ctx KindTimeout.
func (r *Reader) Sync(ctx context.Context) error { return r.sync(ctx, every) }

// SyncPartition is Sync of one partition. It does not wait for what other partitions wait for, such as a leader or
// the end of a transaction.
func (r *Reader) SyncPartition(ctx context.Context, p int32) error { return r.sync(ctx, p) }

func (r *Reader) sync(ctx context.Context, p int32) error {
	const op = "read up to the end"
	done := make(chan struct{})
	select {
	case r.syncs <- caller{p, done}:
	case <-r.ended:
		return ended(op)
	case <-ctx.Done():
		return r.cfg.Classify(op, ctx.Err())
	}
	select {
	case <-done:
		return nil
	case <-r.ended:
		return ended(op)
	case <-ctx.Done():
		return r.cfg.Classify(op, ctx.Err())
	}
}

func ended(op string) error {
	return &compute.Error{Op: op, Kind: compute.KindUnavailable, Message: "the reader has ended"}
}

// readOf is what a reader of a topic does; the streams of hosts are many.
func readOf(t wire.Topics, topic string) string {
	if _, ok := t.HostOf(topic); ok {
		return "read host streams"
	}
	return "read " + topic
}
