package kafka

import (
	"context"

	"github.com/berth-project/berth/pkg/wire"
)

// Batch is what one fetch brought.
type Batch struct {
	Records []wire.Record // in order within each partition
	// End says that with this batch the stream has been handed over up to the
	// end it had when it was last asked about, in every partition. A batch
	// without records only says that.
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
// its beginning. An offset whose record is gone means the oldest there is.
func At(offsets map[int32]int64) Start { return Start{kind: startAt, offsets: offsets} }

// ReaderOptions say what is read.
type ReaderOptions struct {
	Topic      string
	Partitions []int32 // nil: all the topic has when the reader starts
	From       Start
	Committed  bool // hand over only what is outside of, or committed by, a transaction
	// Handle takes what was read. It is called from one goroutine, in order
	// within each partition; while it runs nothing else is handed over. The
	// records are its own to keep.
	Handle func(Batch)
}

// Reader reads a topic by itself, without a consumer group: the table behind a
// compacted topic, or the tail of a stream. It is a service.Part.
type Reader struct {
	cfg   Config
	opts  ReaderOptions
	ready chan struct{}
}

// NewReader makes a reader; Run starts it.
func NewReader(cfg Config, opts ReaderOptions) *Reader {
	return &Reader{cfg: cfg.withDefaults(), opts: opts, ready: make(chan struct{})}
}

// Ready is closed once everything up to the ends the topic had when the reader
// started has been handled.
func (r *Reader) Ready() <-chan struct{} { return r.ready }

// Run reads until ctx ends.
func (r *Reader) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Sync asks where the topic ends now and answers when everything up to there
// has been handled: whatever was acknowledged to anybody before the call is
// then in the table.
func (r *Reader) Sync(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
