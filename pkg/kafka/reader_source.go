package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/unpack"
)

// source knows where the partitions of one topic are led. It is safe for
// concurrent use once open has returned.
type source struct {
	client *kgo.Client
	topic  string
	only   []int32 // nil: all partitions
	log    *zap.Logger
	look   *lookout
	// shared carries what is fetched together with what other readers fetch, nil: it
	// goes by itself; patient: it may wait for the others.
	shared  sharer
	patient bool
	known   *Known // what the process knows already; nil: nothing
	unpack  unpack.Reader
	// takeovers says that records between conductors are handed over too.
	takeovers bool

	mu    sync.Mutex
	view  view
	moved chan struct{} // closed and replaced when another leads
	asked time.Time     // when somebody was last asked
}

// sharer carries the requests of several sources together.
type sharer interface {
	// fetch answers what a broker says to one topic's part of a request. A patient one
	// waits for the next request that goes anyway.
	fetch(ctx context.Context, broker int32, topic string, req *kmsg.FetchRequest, wait time.Duration, patient bool) answer
	// doubt asks brokers that do not lead who leads the source's topic.
	doubt(context.Context, *source) error
	// broker is where other questions for a broker go.
	broker(id int32) kmsg.Requestor
}

// answer is what came of a fetch.
type answer struct {
	resp  *kmsg.FetchResponse
	early bool // the broker was not asked to wait for as long as the reader wants to
	err   error
}

// view is who leads the partitions of a topic, as far as known.
type view struct {
	id      [16]byte
	leaders map[int32]leader
	brokers []int32 // those that are alive
}

type leader struct{ broker, epoch int32 }

// What ListOffsets is asked for.
const (
	latest   int64 = -1 // the high watermark: the offset the next record gets
	earliest int64 = -2 // the oldest offset there is
)

// offsetsTimeout is how long a joint's reader waits for a leader to say where a
// partition ends, before it asks who leads.
const offsetsTimeout = 2 * askTimeout

func (s *source) current() view {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}

// broker is whom to send a request for a broker.
func (s *source) broker(id int32) kmsg.Requestor {
	if s.shared != nil {
		return s.shared.broker(id)
	}
	return s.client.Broker(int(id))
}

// open waits until the topic exists and is led.
func (s *source) open(ctx context.Context) error {
	if m, asked := s.known.about(s.topic, time.Now().Add(-knownFor)); m != nil {
		if _, err := s.take(m, asked); err == nil {
			return nil
		}
	}
	_, err := retryAfter(ctx, s.log.With(zap.String("topic", s.topic)), "waiting for a topic", s.look, missingWait, func() (view, error) {
		return s.refresh(ctx)
	})
	return err
}

// persist lists offsets and goes on trying until ctx ends or trying is no use.
// An answer counts only if no other broker knows of a newer leader: one that is
// cut off from the others would name an end of the past.
func (s *source) persist(ctx context.Context, what int64) (map[int32]int64, error) {
	return retry(ctx, s.log.With(zap.String("topic", s.topic)), "waiting for the ends of a topic", s.look, func() (map[int32]int64, error) {
		v := s.current()
		doubted := make(chan error, 1)
		go func() {
			if what == earliest && s.shared != nil { // one of the past is as good: what is gone since is skipped
				doubted <- nil
				return
			}
			doubted <- s.doubt(ctx)
		}()
		offsets, err := s.offsets(ctx, v, slices.Collect(maps.Keys(v.leaders)), what)
		if err = errors.Join(err, <-doubted); err == nil && !maps.Equal(v.leaders, s.current().leaders) {
			return nil, errMoved
		}
		if err != nil {
			if _, changed := s.refresh(ctx); isFatal(changed) {
				return nil, changed
			}
			return nil, err
		}
		return offsets, nil
	})
}

// missingWait is how long to wait for a topic that is not there, after so many looks
// from 0: 250 ms, doubled up to 2 s, a part of it by chance. A thousand new hosts wait
// at once for streams that one process makes; a host whose stream is there must find it
// soon, for it offers nothing before.
func missingWait(fails int, err error) time.Duration {
	const least, most = 250 * time.Millisecond, 2 * time.Second
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return min(mostWait, retryBackoff(fails))
	}
	return service.Jitter(min(least<<min(fails, 10), most))
}

// refresh asks some broker who leads. An answer is kept only if every
// partition has a leader that is at least as new as the one known.
func (s *source) refresh(ctx context.Context) (view, error) { return s.ask(ctx, s.client) }

// refreshKnown is refresh, but a partition without a leader keeps the one it had: who
// leads the others is no worse known for it.
func (s *source) refreshKnown(ctx context.Context) (view, error) {
	return s.askAll(ctx, s.client, true)
}

func (s *source) ask(ctx context.Context, whom kmsg.Requestor) (view, error) {
	return s.askAll(ctx, whom, false)
}

func (s *source) askAll(ctx context.Context, whom kmsg.Requestor, leaderless bool) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	asked := time.Now()
	m, err := topicMetadata(ctx, whom, s.topic)
	if m != nil {
		s.known.learn(m, asked)
	}
	if err != nil {
		return view{}, err
	}
	return s.takeAll(m, time.Now(), leaderless)
}

// take follows an answer about this topic alone.
func (s *source) take(m *kmsg.MetadataResponse, asked time.Time) (view, error) {
	return s.takeAll(m, asked, false)
}

func (s *source) takeAll(m *kmsg.MetadataResponse, asked time.Time, leaderless bool) (view, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, err := s.view.follow(m, s.only, leaderless)
	if err != nil {
		return view{}, err
	}
	if s.moved != nil && !maps.Equal(next.leaders, s.view.leaders) {
		close(s.moved)
		s.moved = nil
	}
	s.view, s.asked = next, asked
	return next, nil
}

// doubtEvery is how often a leader that answers is doubted. A broker that is cut
// off from the others does not know that another leads, and goes on answering.
const doubtEvery = knownFor

// doubtful says that nobody was asked for long, and counts as asking.
func (s *source) doubtful(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.view.brokers) < 2 || now.Sub(s.asked) < doubtEvery {
		return false
	}
	s.asked = now
	return true
}

// doubt asks about each partition some broker that does not lead it. Who is
// alone has nobody to ask.
func (s *source) doubt(ctx context.Context) error {
	if s.shared != nil {
		return s.shared.doubt(ctx, s)
	}
	v := s.current()
	for _, broker := range v.witnesses() {
		if _, err := s.ask(ctx, s.broker(broker)); err != nil {
			return err
		}
	}
	return nil
}

// witnesses are brokers to ask so that each partition's is not its leader: one,
// and a second if the first leads something.
func (v view) witnesses() []int32 {
	if len(v.brokers) < 2 {
		return nil
	}
	order := rand.Perm(len(v.brokers))
	some := []int32{v.brokers[order[0]]}
	for _, l := range v.leaders {
		if l.broker == some[0] {
			return append(some, v.brokers[order[1]])
		}
	}
	return some
}

// change is closed when another leads than in the view.
func (s *source) change(of view) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !maps.Equal(of.leaders, s.view.leaders) {
		done := make(chan struct{})
		close(done)
		return done
	}
	if s.moved == nil {
		s.moved = make(chan struct{})
	}
	return s.moved
}

// follow is the view after an answer about this topic alone. leaderless: a partition
// that has no leader now keeps the one it had.
func (v view) follow(m *kmsg.MetadataResponse, only []int32, leaderless bool) (view, error) {
	t := m.Topics[0]
	if v.leaders != nil && t.TopicID != v.id {
		return view{}, replaced(*t.Topic)
	}
	next := view{id: t.TopicID, leaders: map[int32]leader{}}
	for _, b := range m.Brokers {
		next.brokers = append(next.brokers, b.NodeID)
	}
	for _, p := range t.Partitions {
		if v.leaders != nil {
			if _, known := v.leaders[p.Partition]; !known {
				continue // added later: not this reader's
			}
		} else if only != nil && !slices.Contains(only, p.Partition) {
			continue
		}
		if old, known := v.leaders[p.Partition]; p.Leader < 0 && known && leaderless {
			next.leaders[p.Partition] = old
			continue
		}
		if p.Leader < 0 {
			return view{}, kerr.LeaderNotAvailable
		}
		next.leaders[p.Partition] = leader{p.Leader, p.LeaderEpoch}
		if old, ok := v.leaders[p.Partition]; ok && old.epoch > p.LeaderEpoch {
			next.leaders[p.Partition] = old // the answer of a broker that is behind
		}
	}
	for _, p := range only {
		if _, ok := next.leaders[p]; !ok {
			return view{}, compute.NotFound("partition", fmt.Sprintf("%s/%d", *t.Topic, p), "name partitions the topic has")
		}
	}
	return next, nil
}

// offsets asks the leaders where partitions begin or end, all or none.
func (s *source) offsets(ctx context.Context, v view, partitions []int32, what int64) (map[int32]int64, error) {
	byBroker := map[int32][]int32{}
	for _, p := range partitions {
		b := v.leaders[p].broker
		byBroker[b] = append(byBroker[b], p)
	}
	type answer struct {
		offsets map[int32]int64
		err     error
	}
	answers := make(chan answer, len(byBroker))
	for broker, ps := range byBroker {
		go func() {
			o, err := s.offsetsAt(ctx, v, broker, ps, what)
			answers <- answer{o, err}
		}()
	}
	all, errs := map[int32]int64{}, []error(nil)
	for range byBroker {
		a := <-answers
		maps.Copy(all, a.offsets)
		errs = append(errs, a.err)
	}
	return all, errors.Join(errs...)
}

func (s *source) offsetsAt(ctx context.Context, v view, broker int32, partitions []int32, what int64) (map[int32]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = s.topic
	for _, p := range partitions {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = p, what, v.leaders[p].epoch
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	if s.shared != nil { // nothing else ends the wait for a frozen broker
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, offsetsTimeout)
		defer cancel()
	}
	kresp, err := s.broker(broker).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, t := range kresp.(*kmsg.ListOffsetsResponse).Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, err
			}
			offsets[p.Partition] = p.Offset
		}
	}
	if len(offsets) != len(partitions) {
		return nil, kerr.UnknownTopicOrPartition
	}
	return offsets, nil
}

func replaced(topic string) error {
	return compute.Conflict("topic", topic, "was deleted and made again", "start again with nothing known of it")
}

// end is where a partition ends, as the broker says that leads it by the word of
// others. It is asked until it answers.
func (s *source) end(ctx context.Context, p int32) (int64, error) {
	log := s.log.With(zap.String("topic", s.topic))
	return retry(ctx, log, "waiting for the end of a partition", s.look, func() (int64, error) {
		v, err := s.viewOf(ctx, s.client, p)
		if err != nil {
			return 0, err
		}
		for _, broker := range v.witnesses() {
			other, err := s.viewOf(ctx, s.broker(broker), p)
			if err != nil {
				return 0, err
			}
			if other.leaders[p] != v.leaders[p] {
				return 0, errMoved
			}
		}
		ends, err := s.offsets(ctx, v, []int32{p}, latest)
		return ends[p], err
	})
}

// viewOf is who leads one partition, by somebody's word.
func (s *source) viewOf(ctx context.Context, whom kmsg.Requestor, p int32) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	m, err := topicMetadata(ctx, whom, s.topic)
	if err != nil {
		return view{}, err
	}
	return view{}.follow(m, []int32{p}, false)
}
