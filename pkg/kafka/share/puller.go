// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/unpack"
	"github.com/berth-project/berth/pkg/wire"
)

// Options say how a puller waits. The zero value takes the defaults.
type Options struct {
	// MaxWait is how long a broker may hold a fetch that finds nothing. It must
	// be well below the time a record stays locked (30 s): while a fetch is
	// open, no ack and no renewal can be sent in its session. 0: DefaultPullWait.
	MaxWait time.Duration
	// AckWait is how long an ack waits for a fetch to go with before it is sent
	// by itself. 0: DefaultAckWait.
	AckWait time.Duration
	// Backoff is about how long a session waits after an error before it asks its
	// broker again; up to four times as long after more in a row.
	// 0: DefaultPullBackoff.
	Backoff time.Duration
	// Random makes the member id, which must be a secret: a process that knows it can acknowledge in this puller's
	// name. nil: crypto/rand.
	Random io.Reader
}

const (
	// DefaultPullWait keeps idle waiters cheap. A record that comes ends the
	// wait early.
	DefaultPullWait = 5 * time.Second
	// DefaultAckWait is longer than it takes to look again at what fits, and
	// shorter than a user notices.
	DefaultAckWait = 200 * time.Millisecond
	// DefaultPullBackoff is about how long leaders take to move.
	DefaultPullBackoff = 200 * time.Millisecond
)

// mostSessions bounds the results that were not read yet: one a session.
const mostSessions = 256

// Puller takes work from share-group queues, one record at a time, without
// being a member of any group. It is a service.Part.
//
//	Place ─▶ places: which broker leads which queue ─▶ one wire.SessionID for each broker and group
//	Open(id, queues) ─▶ session id: ShareFetch, held open by the broker ─▶ Results: a record, nothing, or an error
//	Ack(ref, how) ────▶ session id: goes with its next fetch, or by itself after AckWait
//
// A share session is what one broker knows of this puller in one group: which queues it listed last and which records
// it holds. It has a goroutine and a connection of its own (session), because Kafka knows one session a connection,
// and releases what the session holds when the connection closes. In a session one thing happens at a time, a fetch
// or some acks; what each request says follows from sessionState, which does nothing else.
//
// A record that came is locked for 30 s. While a fetch is open in its session, the lock can be neither renewed nor
// answered, so a fetch lasts 5 s at most (MaxWait). What comes up meanwhile goes to the secondary session.
//
// Any error of a session ends it: its connection is closed, so that what it held is released at once, its acks are
// forgotten, and the next Open begins another, after a moment. The outcome of an ack without an answer is unknown and
// cannot be settled by asking. It is never sent again: the conductor's record says which host has the work.
type Puller struct {
	cfg    kafka.Config
	opts   Options
	member string

	results chan wire.Pulled
	ready   chan struct{}
	ended   chan struct{}
	places  *places
	unpack  unpack.Reader
	counts  counters
	metrics *pullMetrics

	mu       sync.Mutex
	sessions map[wire.SessionID]*session
	begin    func(*session) // runs a session; nil until Run
	over     bool           // Run has ended its sessions
}

// NewPuller makes a puller; Run starts it.
func NewPuller(cfg kafka.Config, opts Options) *Puller {
	if opts.MaxWait == 0 {
		opts.MaxWait = DefaultPullWait
	}
	if opts.AckWait == 0 {
		opts.AckWait = DefaultAckWait
	}
	if opts.Backoff == 0 {
		opts.Backoff = DefaultPullBackoff
	}
	if opts.Random == nil {
		opts.Random = rand.Reader
	}
	cfg = cfg.WithDefaults()
	p := &Puller{
		cfg: cfg, opts: opts,
		results: make(chan wire.Pulled, mostSessions), ready: make(chan struct{}), ended: make(chan struct{}),
		places:   newPlaces(cfg),
		sessions: map[wire.SessionID]*session{}, metrics: newMetrics(cfg.Metrics.Registerer()),
	}
	p.counts.into(p.metrics)
	return p
}

// Ready is closed once the puller takes calls of Place. Whether brokers can be
// reached, Place tells.
func (p *Puller) Ready() <-chan struct{} { return p.ready }

// Run pulls until ctx ends. Then it ends the sessions, answers every open fetch
// with an error, and returns nil.
//
// What a session without an open fetch holds is released at once. A broker reads nothing from a connection while a
// fetch is open on it, not even that it was closed: then it releases what is held in the listed queues when the fetch
// would have ended, and the rest when its locks end. A caller that wants a gentle end waits for the results first.
func (p *Puller) Run(ctx context.Context) error {
	defer close(p.ended)
	member, err := memberID(p.opts.Random)
	if err != nil {
		return err
	}
	client, err := kafka.NewClient(p.cfg, kgo.ConnIdleTimeout(kafka.AskedTimeout), kgo.MetadataMaxAge(kafka.NoMetadata))
	if err != nil {
		return err
	}
	p.member = member
	p.places.client = client
	defer p.places.close()
	close(p.ready)
	var running sync.WaitGroup
	p.mu.Lock()
	p.begin = func(s *session) { running.Go(func() { s.run(ctx) }) }
	for _, s := range p.sessions {
		p.begin(s)
	}
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	running.Wait()
	return nil
}

// memberID is a random id of 32 characters; Kafka takes 36 at most.
func memberID(random io.Reader) (string, error) {
	var b [24]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", &compute.Error{Op: "make a member id", Message: "the source of randomness failed", Cause: err}
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// Place says in which session each of the queues is to be fetched now. It answers
// from memory, and asks brokers about queues it does not know and those that
// gave trouble.
//
// Queues that cannot be fetched are left out, and the error says why: it joins
// one error a queue, KindNotFound (no such topic), KindConflict (the topic was
// made again and is not the one the ref names) or KindUnavailable (no leader,
// or no broker answers). What was placed can be fetched whatever the error is.
func (p *Puller) Place(ctx context.Context, queues []wire.QueueRef) (map[wire.SessionID][]wire.QueueRef, error) {
	const op = "place queues"
	select {
	case <-p.ready:
	case <-p.ended: // without ever being ready
	case <-ctx.Done():
		return nil, p.cfg.Classify(op, ctx.Err())
	}
	select {
	case <-p.ended:
		return nil, pullerEnded(op)
	default:
	}
	return p.places.place(ctx, queues)
}

// Open begins a fetch in a session of these queues, in any order, and returns at once. Exactly one result follows:
// the record, or nothing after wait (0, or more than it: MaxWait) at the latest, or an error. Only then may the
// session be opened again; a second Open before is answered with KindConflict. Without queues it is answered with
// KindInvalid.
//
// After an error, and when a broker refused some of the queues, the session waits
// a moment before it asks the broker again.
func (p *Puller) Open(id wire.SessionID, queues []wire.QueueRef, wait time.Duration) {
	if err := p.session(id).order(slices.Clone(queues), wait); err != nil {
		p.answer(wire.Pulled{Session: id, Queues: queues, Err: err})
	}
}

// Results are the ends of fetches, one for each Open. The channel is never
// closed. A reader that reads each before it opens the same session again may
// take its time: nothing waits for it.
func (p *Puller) Results() <-chan wire.Pulled { return p.results }

// Ack says what becomes of a record that was pulled, and returns at once. The
// ack is sent with the next fetch in its session, or by itself if none comes
// within a moment, but not while a fetch is open. It is sent once at most, and
// not at all if the session that brought the record is gone, or if the record
// was already accepted, released or rejected.
func (p *Puller) Ack(ref wire.WorkRef, how wire.Ack) { p.session(ref.Session).ack(ref, how) }

func (p *Puller) session(id wire.SessionID) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessions[id]
	if s == nil {
		s = newSession(p, id)
		p.sessions[id] = s
		switch {
		case p.over:
			s.over = true
		case p.begin != nil:
			p.begin(s)
		}
	}
	return s
}

// answer never blocks for a reader that keeps to Results.
func (p *Puller) answer(r wire.Pulled) {
	select {
	case p.results <- r:
	default:
		p.cfg.Log.Error("the result of a fetch was dropped: too many wait to be read", zap.Int("waiting", mostSessions))
	}
}

func pullerEnded(op string) error {
	return &compute.Error{Op: op, Kind: compute.KindUnavailable, Message: "the puller has ended"}
}
