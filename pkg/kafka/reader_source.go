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
	// joint carries what is fetched together with what other readers fetch, nil: it
	// goes by itself; patient: it may wait for the others.
	joint   *Joint
	patient bool
	unpack  unpack.Reader
	// takeovers says that records between conductors are handed over too.
	takeovers bool

	mu    sync.Mutex
	view  view
	moved chan struct{} // closed and replaced when another leads
	asked time.Time     // when somebody was last asked
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

const (
	// askTimeout is how long one question of who leads may take. A frozen
	// broker never answers, the next one asked may.
	askTimeout = 3 * time.Second
	mostWait   = 2 * time.Second // between tries of what cannot be done yet
	// offsetsTimeout is how long a joint's reader waits for a leader to say where a
	// partition ends, before it asks who leads.
	offsetsTimeout = 2 * askTimeout
)

func (s *source) current() view {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}

// broker is whom to send a request for a broker.
func (s *source) broker(id int32) kmsg.Requestor {
	if s.joint != nil {
		return s.joint.broker(id)
	}
	return s.client.Broker(int(id))
}

// known is what the process knows already; only a joint's readers use it.
func (s *source) known() *Known {
	if s.joint != nil {
		return s.joint.cfg.Known
	}
	return nil
}

// open waits until the topic exists and is led.
func (s *source) open(ctx context.Context) error {
	if m, asked := s.known().about(s.topic, time.Now().Add(-knownFor)); m != nil {
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
			if what == earliest && s.joint != nil { // one of the past is as good: what is gone since is skipped
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

// retry tries with growing waits until it works, trying is no use, or ctx
// ends. What does not pass soon it tells: nobody else hears of it. That brokers
// do not answer is told to look, if there is one.
func retry[T any](ctx context.Context, log *zap.Logger, what string, look *lookout, try func() (T, error)) (T, error) {
	wait := func(fails int, _ error) time.Duration { return min(mostWait, retryBackoff(fails)) }
	return retryAfter(ctx, log, what, look, wait, try)
}

// retryAfter is retry with other waits: wait is asked how long, after so many failures
// before, from 0, and the last error.
func retryAfter[T any](ctx context.Context, log *zap.Logger, what string, look *lookout, wait func(int, error) time.Duration, try func() (T, error)) (T, error) {
	told := time.Now().Add(waitTold)
	for fails := 0; ; fails++ {
		v, err := try()
		switch {
		case err == nil || isFatal(err):
			look.fine()
			return v, err
		case ctx.Err() != nil:
			return v, fmt.Errorf("%w: %w", ctx.Err(), err) // whatever it was, it is called off
		}
		switch {
		case fails >= logAfter && look != nil && !answered(err):
			look.failed(err)
		case !told.IsZero() && !time.Now().Before(told):
			told = time.Time{}
			log.Info(what, zap.Error(err))
		}
		if err := sleep(ctx, wait(fails, err)); err != nil {
			return v, err
		}
	}
}

// waitTold is how long a wait lasts before it is told. What passes sooner is how a
// young cluster begins.
const waitTold = 8 * time.Second

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

// answered says whether an error is a broker's answer.
func answered(err error) bool {
	var code *kerr.Error
	return errors.As(err, &code)
}

func sleep(ctx context.Context, d time.Duration) error {
	if !service.Sleep(ctx, d) {
		return ctx.Err()
	}
	return nil
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
		s.known().learn(m, asked)
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
const doubtEvery = 30 * time.Second

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
	if s.joint != nil {
		return s.joint.doubt(ctx, s)
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

// describeTopics asks a broker for the metadata of topics. It is never
// answered from what the client remembers, as kadm's question is: that may be
// of a topic that was deleted and made again since.
func describeTopics(ctx context.Context, client *kgo.Client, topics ...string) ([]kmsg.MetadataResponseTopic, error) {
	m, err := metadata(ctx, client, topics...)
	if err != nil {
		return nil, err
	}
	return m.Topics, nil
}

func metadata(ctx context.Context, whom kmsg.Requestor, topics ...string) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none, where nil would be all
	for _, topic := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(topic)
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, whom)
	if err != nil {
		return nil, err
	}
	if len(resp.Topics) != len(topics) || slices.ContainsFunc(resp.Topics, func(t kmsg.MetadataResponseTopic) bool { return t.Topic == nil }) {
		return nil, kerr.UnknownServerError
	}
	return resp, nil
}

// describeTopic asks for one topic's metadata.
func describeTopic(ctx context.Context, client *kgo.Client, topic string) (*kmsg.MetadataResponseTopic, error) {
	m, err := topicMetadata(ctx, client, topic)
	if err != nil {
		return nil, err
	}
	return &m.Topics[0], nil
}

// topicMetadata is a broker's answer about a topic that there is.
func topicMetadata(ctx context.Context, whom kmsg.Requestor, topic string) (*kmsg.MetadataResponse, error) {
	m, err := metadata(ctx, whom, topic)
	if err != nil {
		return nil, err
	}
	return m, kerr.ErrorForCode(m.Topics[0].ErrorCode)
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
	if s.joint != nil { // nothing else ends the wait for a frozen broker
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

// isFatal says whether trying again cannot help: the answer is a refusal.
func isFatal(err error) bool {
	var ours *compute.Error
	if errors.As(err, &ours) {
		return ours.Kind != compute.KindUnavailable && ours.Kind != compute.KindTimeout
	}
	var code *kerr.Error
	return errors.As(err, &code) && !code.Retriable && code != kerr.UnknownServerError
}
