// SPDX-License-Identifier: Apache-2.0

package read

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
)

// SharedFetch lets readers of several topics share one connection to each broker, and
// one open fetch on it: a broker is asked once for all of them, and an idle host
// costs it a third. Each of them is a reader like any other, and ends by itself.
//
//	reader ──fetch──▶ waits ─┐                 ┌─▶ there is something for it: answered
//	reader ──fetch──▶ waits ─┼─▶ one request ──┤
//	reader ──fetch──▶ waits ─┘                 └─▶ for others only: stays, and goes with the next
//	reader ──fetch──▶ while one is open: asks by itself
//
// A request that is open cannot be changed. So the next one leaves when all readers are there that are about to ask
// again (brokerFetch.expected), at the latest gatherReaders after it could. A reader that comes while one is open asks
// on a connection of its own (fetchAside), with a wait that ends together with the open one, so that both go together
// the next time. mu guards all fields below it, and what they hold.
type SharedFetch struct {
	cfg kafka.Config

	running sync.WaitGroup

	mu          sync.Mutex
	users       int
	client      *kgo.Client              // asks for the leaders
	shared      *kafka.Direct            // carries the open fetch
	aside       map[string]*kafka.Direct // by topic: for its reader, when it cannot wait until the open fetch ends
	brokers     map[int32]*brokerFetch
	open        map[*fetch.Source]bool // topics of readers that run
	leaderCheck *leaderCheck           // others may join it; nil: none
}

// brokerFetch is the fetch that goes to one broker, again and again.
type brokerFetch struct {
	waiting  map[string]*waitingFetch // by topic
	open     bool                     // a request is open
	until    time.Time                // when that ends at the latest, if the broker answers
	outside  map[string]int           // fetches that readers make by themselves meanwhile
	expected map[string]bool          // topics of readers that were answered, and are about to ask on
	timer    *time.Timer              // goes without them; nil: waits for nobody
}

// waitingFetch is one reader's fetch that waits for its answer.
type waitingFetch struct {
	topic    string
	patient  bool // its reader comes back when it likes to
	req      *kmsg.FetchRequest
	wait     time.Duration
	deadline time.Time         // ends the wait
	done     chan fetch.Answer // takes one
	sent     *request          // nil: waits for the next request
}

// request is one request for several.
type request struct {
	of     []*waitingFetch
	left   int // readers that still want its answer
	cancel context.CancelFunc
	until  time.Time
}

// gatherReaders is how long a fetch waits at most for readers that were just answered.
// They hand over what they got and come back at once, where a processor is free. A reader
// that comes later fetches on a connection of its own.
const gatherReaders = 200 * time.Millisecond

// leastBeside is how long a reader that asks by itself waits at least beside a fetch that
// should have ended: the answer of that fetch is on its way, or lost. Without such a wait
// the reader would ask as fast as it is answered. The wait ends while the shared fetch
// would still wait for this reader.
const leastBeside = gatherReaders / 2

// NewSharedFetch is for the readers of one part of a process.
func NewSharedFetch(cfg kafka.Config) *SharedFetch {
	if cfg.Known == nil {
		cfg.Known = kafka.NewKnown()
	}
	return &SharedFetch{cfg: cfg.WithDefaults(), brokers: map[int32]*brokerFetch{}, open: map[*fetch.Source]bool{}}
}

// Reader makes a reader that shares the connection; Run starts it. A reader with a
// Pace waits for the next fetch that goes anyway. A Committed one shares nothing:
// what a request may bring is the same for all of it.
func (j *SharedFetch) Reader(opts Options) *Reader {
	r := NewReader(j.cfg, opts)
	if !opts.Committed {
		r.shared = j
	}
	return r
}

// enter gives a reader the client that all of them share, and the way out.
func (j *SharedFetch) enter() (_ *kgo.Client, leave func(), err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.users == 0 {
		idle, seldom := kgo.ConnIdleTimeout(kafka.AskedTimeout), kgo.MetadataMaxAge(kafka.NoMetadata)
		if j.client, err = kafka.NewClient(j.cfg, idle, seldom); err != nil {
			return nil, nil, err
		}
		j.shared, j.aside = kafka.NewDirect(j.cfg, j.client), map[string]*kafka.Direct{}
	}
	j.users++
	return j.client, j.exit, nil
}

// Broker takes a reader's question for a broker that no other reader has.
func (j *SharedFetch) Broker(id int32) kmsg.Requestor {
	j.mu.Lock()
	shared := j.shared
	j.mu.Unlock()
	return shared.Broker(id)
}

// exit is called by a reader that has no fetch any more.
func (j *SharedFetch) exit() {
	j.mu.Lock()
	j.users--
	last, client, shared := j.users == 0, j.client, j.shared
	var aside []*kafka.Direct
	if last {
		aside = slices.Collect(maps.Values(j.aside))
		for _, c := range j.brokers {
			c.stopTimer()
		}
		clear(j.brokers)
	}
	j.mu.Unlock()
	if last {
		shared.Close()
		for _, d := range aside {
			d.Close()
		}
		client.Close()
		j.running.Wait() // requests that nobody waits for were ended
	}
}

// Fetch has a request for one topic carried to a broker. A reader that knows that there is
// something (wait is 0) fetches on a connection of its own, and so does one that is not
// patient while the shared fetch is open.
func (j *SharedFetch) Fetch(
	ctx context.Context, broker int32, topic string, req *kmsg.FetchRequest, wait time.Duration, patient bool,
) fetch.Answer {
	j.mu.Lock()
	c := j.brokers[broker]
	if c == nil {
		c = &brokerFetch{waiting: map[string]*waitingFetch{}, outside: map[string]int{}, expected: map[string]bool{}}
		j.brokers[broker] = c
	}
	delete(c.expected, topic)
	if wait == 0 || c.waiting[topic] != nil || c.open && !patient {
		return j.fetchAside(ctx, c, broker, topic, req, wait)
	}
	s := &waitingFetch{
		topic:    topic,
		patient:  patient,
		req:      req,
		wait:     wait,
		deadline: time.Now().Add(wait),
		done:     make(chan fetch.Answer, 1),
	}
	c.waiting[topic] = s
	j.send(c, broker)
	j.mu.Unlock()
	select {
	case a := <-s.done:
		return a
	case <-ctx.Done():
		j.mu.Lock()
		j.withdraw(c, s)
		j.send(c, broker)
		j.mu.Unlock()
		return fetch.Answer{Err: ctx.Err()}
	}
}

// fetchAside asks a broker by itself, beside the fetch that is open there, if one is. Early says then that the wait was
// cut short so that both end together. It is called with the lock held, and lets go of it.
func (j *SharedFetch) fetchAside(
	ctx context.Context, c *brokerFetch, broker int32, topic string, req *kmsg.FetchRequest, wait time.Duration,
) fetch.Answer {
	early := false
	if left := max(leastBeside, time.Until(c.until)); c.open && left < wait {
		req.MaxWaitMillis, early = waitMillis(left), true
	}
	aside := j.asideOf(topic)
	c.outside[topic]++
	j.mu.Unlock()
	resp, err := fetch.RequestFetch(ctx, aside.Broker(broker), req)
	j.mu.Lock()
	defer j.mu.Unlock()
	if c.outside[topic]--; c.outside[topic] == 0 {
		delete(c.outside, topic)
	}
	return fetch.Answer{Resp: resp, Early: early, Err: err}
}

// asideIdle is how long a connection stays open that a reader seldom needs.
const asideIdle = 20 * time.Second

// asideOf is what one reader asks by itself with. A broker answers one request of a
// connection after the other: two readers that shared one would wait for each other, and
// what is said to a host would lie behind a fetch that waits for news of queues.
func (j *SharedFetch) asideOf(topic string) *kafka.Direct {
	d := j.aside[topic]
	if d == nil {
		d = kafka.NewDirect(j.cfg, j.client, kgo.ConnIdleTimeout(asideIdle))
		j.aside[topic] = d
	}
	return d
}

// withdraw takes out a reader that does not wait any more. A request that no reader waits
// for is ended.
func (j *SharedFetch) withdraw(c *brokerFetch, s *waitingFetch) {
	if c.waiting[s.topic] == s {
		delete(c.waiting, s.topic)
	}
	if r := s.sent; r != nil {
		if r.left--; r.left == 0 {
			r.cancel()
		}
	}
}

// send sends a request for all readers that wait, unless one is open or a reader is about
// to return. Where some readers are patient and others are not it polls without waiting, so
// that one record does not wake every host (thundering herd): each host finds the record when
// a fetch of its own has ended.
func (j *SharedFetch) send(c *brokerFetch, broker int32) {
	if c.open || len(c.waiting) == 0 {
		return
	}
	if len(c.expected) > 0 {
		if c.timer == nil {
			c.timer = time.AfterFunc(gatherReaders, func() {
				j.mu.Lock()
				defer j.mu.Unlock()
				clear(c.expected)
				c.timer = nil
				j.send(c, broker)
			})
		}
		return
	}
	c.stopTimer()
	r, now := &request{}, time.Now()
	req := kmsg.NewPtrFetchRequest()
	req.SessionEpoch, req.MaxBytes, req.MinBytes = -1, fetch.AnswerBytes, fetch.GatherBytes
	patient := 0
	for _, s := range c.waiting {
		if s.patient {
			patient++
		}
		if r.until.IsZero() || s.deadline.Before(r.until) {
			r.until = s.deadline
		}
		s.sent = r
		r.of = append(r.of, s)
		req.MinBytes = min(req.MinBytes, s.req.MinBytes)
		req.Topics = append(req.Topics, s.req.Topics...)
	}
	if patient > 0 && patient < len(r.of) {
		r.until = now
	}
	req.MaxWaitMillis = waitMillis(r.until.Sub(now))
	r.left = len(r.of)
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	c.open, c.until = true, r.until
	shared := j.shared
	j.running.Go(func() {
		defer cancel()
		resp, err := fetch.RequestFetch(ctx, shared.Broker(broker), req)
		j.mu.Lock()
		defer j.mu.Unlock()
		c.open = false
		for topic := range c.outside {
			c.expected[topic] = true
		}
		j.deliver(c, r, resp, err)
		j.send(c, broker)
	})
}

// stopTimer stops the clock of a fetch that was about to go.
func (c *brokerFetch) stopTimer() {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// deliver answers the readers for which something came, and the patient ones. The others
// stay: what they asked for still holds. But a reader that has waited for more than half of
// its time is answered as well, and waits anew with the others: else there would be a fetch
// for what is left of each reader's wait.
func (j *SharedFetch) deliver(c *brokerFetch, r *request, resp *kmsg.FetchResponse, err error) {
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	for _, s := range r.of {
		if s.sent = nil; c.waiting[s.topic] != s {
			continue // it has left
		}
		var of *kmsg.FetchResponse
		if err == nil {
			if of = s.of(resp); !s.news(of) && !s.patient && time.Until(s.deadline) > s.wait/2 {
				continue
			}
		}
		delete(c.waiting, s.topic)
		if !s.patient {
			c.expected[s.topic] = true
		}
		s.done <- fetch.Answer{Resp: of, Early: s.deadline.After(r.until), Err: err}
	}
}

// waitMillis is a wait as Kafka takes it, not shorter.
func waitMillis(d time.Duration) int32 {
	return int32((max(0, d) + time.Millisecond - 1).Milliseconds())
}

// of is what an answer says to one of the readers that asked.
func (s *waitingFetch) of(resp *kmsg.FetchResponse) *kmsg.FetchResponse {
	own := *resp
	own.Topics = nil
	for _, t := range resp.Topics {
		if asked := s.req.Topics[0]; t.TopicID == asked.TopicID && t.TopicID != [16]byte{} ||
			t.Topic == asked.Topic && t.Topic != "" {
			own.Topics = append(own.Topics, t)
		}
	}
	return &own
}

// news says whether an answer holds anything: records, errors, or that there is
// more than was asked for.
func (s *waitingFetch) news(resp *kmsg.FetchResponse) bool {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if len(p.RecordBatches) > 0 || p.ErrorCode != 0 || fetch.Diverges(&p) ||
				p.HighWatermark != s.from(p.Partition) {
				return true
			}
		}
	}
	return false
}

func (s *waitingFetch) from(partition int32) int64 {
	for _, p := range s.req.Topics[0].Partitions {
		if p.Partition == partition {
			return p.FetchOffset
		}
	}
	return -1
}

// readClient is a client for fetches and questions for leaders, and nothing else.
func readClient(cfg kafka.Config) (*kgo.Client, error) {
	return kafka.NewClient(cfg, kgo.ConnIdleTimeout(kafka.AskedTimeout))
}
