// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/wire"
)

// places remembers which broker leads which queue, and where brokers listen. It is safe for concurrent use once
// client is set.
type places struct {
	client *kgo.Client
	cfg    kafka.Config
	asking sync.WaitGroup // questions that are not answered

	mu      sync.Mutex
	closed  bool
	known   map[compute.QueueName]place
	brokers map[int32]string // host:port
}

// place is what brokers last said of one queue.
type place struct {
	topic   topicUUID
	leader  fetch.Leader
	err     error     // why it has none
	asked   time.Time // when they said so
	suspect bool      // it gave trouble since
}

// askAgain is how soon brokers are asked again about a queue that cannot be
// placed: they hear of topics and leaders one after the other.
const askAgain = 200 * time.Millisecond

func newPlaces(cfg kafka.Config) *places {
	return &places{cfg: cfg, known: map[compute.QueueName]place{}, brokers: map[int32]string{}}
}

// place answers sessions for queues, and the errors of those that have none.
func (p *places) place(ctx context.Context, queues []wire.QueueRef) (map[wire.SessionID][]wire.QueueRef, error) {
	var errs []error
	if unsure := p.unsure(queues, time.Now()); len(unsure) > 0 {
		if err := p.refresh(ctx, unsure); err != nil {
			errs = append(errs, p.cfg.Classify("place queues", err))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	sessions := map[wire.SessionID][]wire.QueueRef{}
	for _, q := range queues {
		at, known := p.known[q.Name]
		switch {
		case !known: // the error is that of asking
		case at.err != nil:
			errs = append(errs, p.unplaced(q, at.err))
		case !at.is(q.TopicID):
			errs = append(
				errs,
				compute.Conflict(
					"queue", string(q.Name), "is on another topic than the one that was initialised",
					"wait for the queue list to say so",
				),
			)
		default:
			id := wire.SessionID{Broker: at.leader.Broker, Group: q.Group}
			sessions[id] = append(sessions[id], q)
		}
	}
	return sessions, errors.Join(errs...)
}

func (p *places) unplaced(q wire.QueueRef, err error) error {
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return &compute.Error{
			Op:      "place queues",
			Kind:    compute.KindNotFound,
			Field:   "queue",
			Value:   string(q.Name),
			Message: "has no topic",
			Cause:   wire.ErrNoTopic,
		}
	}
	needs := access.To(access.Read, access.Topic, p.cfg.Topics.Build(q.Name))
	return p.cfg.Classify("place queue "+string(q.Name), err, needs)
}

func (at place) is(id compute.TopicID) bool {
	t, err := parseTopicID(id)
	return err == nil && t == at.topic
}

// unsure are the queues brokers must be asked about.
func (p *places) unsure(queues []wire.QueueRef, now time.Time) []compute.QueueName {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []compute.QueueName
	for _, q := range queues {
		at, known := p.known[q.Name]
		wrong := at.err != nil || !at.is(q.TopicID)
		if !known || at.suspect || wrong && now.Sub(at.asked) >= askAgain {
			names = append(names, q.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// markSuspect makes the next call of place ask about queues.
func (p *places) markSuspect(queues []wire.QueueRef) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range queues {
		if at, known := p.known[q.Name]; known {
			at.suspect = true
			p.known[q.Name] = at
		}
	}
}

// address is where a broker listens, empty if that is not known.
func (p *places) address(broker int32) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.brokers[broker]
}

// refresh asks some broker about queues. A frozen one never answers; the next
// one asked may: the client takes them in turn.
func (p *places) refresh(ctx context.Context, names []compute.QueueName) error {
	ctx, cancel := context.WithTimeout(ctx, pace.AskTimeout)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	for _, n := range names {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(p.cfg.Topics.Build(n))
		req.Topics = append(req.Topics, rt)
	}
	answered, err := p.ask(ctx, req)
	if err != nil {
		return err
	}
	select {
	case err := <-answered:
		return err
	case <-ctx.Done(): // which the client does not heed while it connects
		return ctx.Err()
	}
}

// ask asks, learns from the answer, and says how it went.
func (p *places) ask(ctx context.Context, req *kmsg.MetadataRequest) (<-chan error, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, pullerEnded("ask who leads")
	}
	answered := make(chan error, 1)
	p.asking.Go(func() {
		resp, err := req.RequestWith(ctx, p.client)
		if err == nil {
			p.learn(resp, time.Now())
		}
		answered <- err
	})
	return answered, nil
}

func (p *places) learn(resp *kmsg.MetadataResponse, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range resp.Brokers {
		p.brokers[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if t.Topic == nil {
			continue
		}
		if name, ok := p.cfg.Topics.QueueOf(*t.Topic); ok {
			p.known[name] = p.known[name].follow(t, now)
		}
	}
}

// follow is the place after an answer. A broker that is behind may still name
// an older leader: the one with the higher epoch stays.
func (at place) follow(t *kmsg.MetadataResponseTopic, now time.Time) place {
	next := place{topic: t.TopicID, asked: now, err: kerr.ErrorForCode(t.ErrorCode)}
	if next.err != nil {
		return next
	}
	for _, part := range t.Partitions {
		if part.Partition != 0 {
			continue
		}
		next.leader = fetch.Leader{Broker: part.Leader, Epoch: part.LeaderEpoch}
		if at.topic == next.topic && at.err == nil && at.leader.Epoch > part.LeaderEpoch {
			next.leader = at.leader
		}
		if next.leader.Broker < 0 {
			next.err = kerr.LeaderNotAvailable
		}
		return next
	}
	next.err = kerr.LeaderNotAvailable
	return next
}

// close ends the connections, and answers when nothing is asked any more.
func (p *places) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.client.Close()
	p.asking.Wait()
}

// watch ends a request that takes too long at a broker that no longer leads
// all of these queues. A frozen broker's connections stay open.
func (p *places) watch(
	ctx context.Context, broker int32, queues []wire.QueueRef, wait time.Duration, cancel context.CancelCauseFunc,
) {
	names := make([]compute.QueueName, len(queues))
	for i, q := range queues {
		names[i] = q.Name
	}
	for asked, d := 0, wait+pace.Overdue(0); pace.Sleep(ctx, d) == nil; d = pace.Overdue(asked) {
		asked++
		if p.alone() {
			continue
		}
		if p.refresh(ctx, names) == nil && p.moved(broker, queues) {
			cancel(fetch.ErrMoved)
			return
		}
	}
}

// alone says that no other broker than one is known: nobody else could lead.
func (p *places) alone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.brokers) < 2
}

// moved says whether another broker leads one of the queues now.
func (p *places) moved(broker int32, queues []wire.QueueRef) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(queues, func(q wire.QueueRef) bool {
		at := p.known[q.Name]
		return at.err == nil && at.is(q.TopicID) && at.leader.Broker != broker
	})
}

func parseTopicID(id compute.TopicID) (topicUUID, error) {
	b, err := hex.DecodeString(string(id))
	if err != nil || len(b) != len(topicUUID{}) {
		return topicUUID{}, compute.Invalid("topic id", string(id), "give 32 hexadecimal digits")
	}
	return topicUUID(b), nil
}

// byTopic finds queues by the ids of their topics.
func byTopic(queues []wire.QueueRef) (map[topicUUID]wire.QueueRef, error) {
	refs := make(map[topicUUID]wire.QueueRef, len(queues))
	for _, q := range queues {
		t, err := parseTopicID(q.TopicID)
		if err != nil {
			return nil, err
		}
		refs[t] = q
	}
	return refs, nil
}

func topicsOf(refs map[topicUUID]wire.QueueRef) []topicUUID { return slices.Collect(maps.Keys(refs)) }
