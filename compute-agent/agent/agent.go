// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Agent drives one host. It is a service.Part.
type Agent struct {
	opts   Options
	begin  journal.State // as read by New
	inbox  *inbox
	ready  chan struct{}
	counts counters
	seen   atomic.Pointer[compute.Beacon] // what the host is, for the metrics; nil: not known, or nobody asks
}

// New reads the journal. It starts nothing.
func New(o Options) (*Agent, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := o.checkTerms(); err != nil {
		return nil, err
	}
	begin, err := o.Journal.Read()
	if err != nil {
		return nil, err
	}
	if err := o.checkHome(begin); err != nil {
		return nil, err
	}
	a := &Agent{opts: o.withDefaults(), begin: begin, inbox: newInbox(), ready: make(chan struct{})}
	a.counts.into(o.Metrics)
	return a, nil
}

// StartOffset is where the host's stream is to be read from: the first record
// that was not acted upon. A journal that knows of none reads from the
// beginning, but of what is there already it takes only what the operator wants
// of the host: the rest was said to a journal that is lost.
func (a *Agent) StartOffset() int64 { return a.begin.Position }

// Commands takes records of the host's stream, in order; end says that it has
// been read to the end it had. Nothing is acted upon before. It never blocks.
func (a *Agent) Commands(recs []wire.Record, end bool) {
	recs = slices.Clone(recs)
	a.inbox.put(func(l *loop) { l.readStream(recs, end) })
}

// Missed says that the host's stream goes on at an offset, and that words before it were removed before they were
// read. It is called before Commands has what follows. It never blocks.
func (a *Agent) Missed(next int64) { a.inbox.put(func(l *loop) { l.missed(next) }) }

// Queues takes records of the queue list; nothing is offered before its end was
// read. It never blocks.
func (a *Agent) Queues(recs []wire.Record, end bool) {
	recs = slices.Clone(recs)
	a.inbox.put(func(l *loop) { l.readQueues(recs, end) })
}

// Advice takes records of the advice. It never blocks.
func (a *Agent) Advice(recs []wire.Record, end bool) {
	recs = slices.Clone(recs)
	a.inbox.put(func(l *loop) { l.readAdvice(recs, end) })
}

// Stats may be called at any time.
func (a *Agent) Stats() Stats { return a.counts.stats() }

// Ready is closed once the agent knows what is on the host and takes what its
// streams bring. It offers only when they have been read to their ends.
func (a *Agent) Ready() <-chan struct{} { return a.ready }

// Run drives the host until ctx ends. Then it offers no more, lets short things
// finish, undoes and releases what it has not claimed, gives back what it has
// claimed and nobody answers, and returns nil after Timing.Stop at the latest; the
// machines stay. Meanwhile it has to be given its commands as before. It returns
// an error if the journal cannot be written.
func (a *Agent) Run(ctx context.Context) error {
	defer a.opts.Metrics.show(a)()
	return newLoop(a).run(ctx)
}

// message is something that came from outside the loop's goroutine; it is
// called in it.
type message func(*loop)

// inbox brings messages to the loop, in order. Putting never blocks: what feeds
// it (one host's stream, the queue list, results of its own calls) is bounded
// by what the host does.
type inbox struct {
	mu     sync.Mutex
	queued []message
	news   chan struct{} // holds one token while something is queued
}

func newInbox() *inbox { return &inbox{news: make(chan struct{}, 1)} }

func (b *inbox) put(m message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queued = append(b.queued, m)
	select {
	case b.news <- struct{}{}:
	default:
	}
}

func (b *inbox) all() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.queued
	b.queued = nil
	return out
}

func (b *inbox) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queued) == 0
}
