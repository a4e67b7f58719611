// SPDX-License-Identifier: Apache-2.0

package fetch

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
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/kafka/internal/retry"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/unpack"
)

// Source knows where the partitions of one topic are led. It is safe for
// concurrent use once open has returned.
type Source struct {
	Client *kgo.Client
	Topic  string
	Only   []int32 // nil: all partitions
	Log    *zap.Logger
	Outage *kafka.OutageReporter
	// Shared carries what is fetched together with what other readers fetch, nil: it
	// goes by itself; patient: it may wait for the others.
	Shared  sharer
	Patient bool
	Known   *kafka.Known // what the process knows already; nil: nothing
	unpack  unpack.Reader
	// Takeovers says that records between conductors are handed over too.
	Takeovers bool

	mu    sync.Mutex
	view  View
	moved chan struct{} // closed and replaced when another leads
	asked time.Time     // when somebody was last asked
}

// sharer carries the requests of several sources together.
type sharer interface {
	// Fetch answers what a broker says to one topic's part of a request. A patient one
	// waits for the next request that goes anyway.
	Fetch(
		ctx context.Context, broker int32, topic string, req *kmsg.FetchRequest, wait time.Duration, patient bool,
	) Answer
	// VerifyLeaders asks non-leaders which brokers lead the source's topic.
	VerifyLeaders(context.Context, *Source) error
	// Broker is where other questions for a broker go.
	Broker(id int32) kmsg.Requestor
}

// Answer is what came of a fetch.
type Answer struct {
	Resp  *kmsg.FetchResponse
	Early bool // the broker was not asked to wait for as long as the reader wants to
	Err   error
}

// View has the leaders of a topic's partitions, as far as known.
type View struct {
	Id      [16]byte
	Leaders map[int32]Leader
	Brokers []int32 // those that are alive
}

type Leader struct{ Broker, Epoch int32 }

// What ListOffsets is asked for.
const (
	Latest   int64 = -1 // the high watermark: the offset the next record gets
	Earliest int64 = -2 // the oldest offset there is
)

// offsetsTimeout is how long a shared fetch's reader waits for a leader to say where a partition ends, before it asks
// for the leader.
const offsetsTimeout = 2 * pace.AskTimeout

func (s *Source) Current() View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}

// broker takes requests for a broker.
func (s *Source) broker(id int32) kmsg.Requestor {
	if s.Shared != nil {
		return s.Shared.Broker(id)
	}
	return s.Client.Broker(int(id))
}

// Open waits until the topic exists and is led.
func (s *Source) Open(ctx context.Context) error {
	if m, asked := s.Known.About(s.Topic, time.Now().Add(-kafka.KnownFor)); m != nil {
		if _, err := s.Learn(m, asked); err == nil {
			return nil
		}
	}
	log := s.Log.With(zap.String("topic", s.Topic))
	refresh := func() (View, error) { return s.Refresh(ctx) }
	_, err := retry.After(ctx, log, "waiting for a topic", s.Outage, missingWait, refresh)
	return err
}

// Persist lists offsets and goes on trying until ctx ends or trying is no use.
// An answer counts only if no other broker knows of a newer leader: one that is
// cut off from the others would name an end of the past.
func (s *Source) Persist(ctx context.Context, what int64) (map[int32]int64, error) {
	log := s.Log.With(zap.String("topic", s.Topic))
	return retry.Do(ctx, log, "waiting for the ends of a topic", s.Outage, func() (map[int32]int64, error) {
		v := s.Current()
		verified := make(chan error, 1)
		go func() {
			if what == Earliest && s.Shared != nil { // one of the past is as good: what is gone since is skipped
				verified <- nil
				return
			}
			verified <- s.VerifyLeaders(ctx)
		}()
		offsets, err := s.Offsets(ctx, v, slices.Collect(maps.Keys(v.Leaders)), what)
		if err = errors.Join(err, <-verified); err == nil && !maps.Equal(v.Leaders, s.Current().Leaders) {
			return nil, ErrMoved
		}
		if err != nil {
			if _, changed := s.Refresh(ctx); kafka.IsFatal(changed) {
				return nil, changed
			}
			return nil, err
		}
		return offsets, nil
	})
}

// denied notes in an error of ACLs that reading the topic is what they refuse.
func (s *Source) denied(err error) error {
	return kafka.Lacking(err, access.To(access.Read, access.Topic, s.Topic))
}

// missingWait is how long to wait for a topic that is not there, after so many looks from 0: 250 ms, doubled up to 2
// s, a part of it by chance. A thousand new hosts wait at once for streams that one process makes; a host that has
// its stream already must find it soon, for it offers nothing before.
func missingWait(fails int, err error) time.Duration {
	const least, most = 250 * time.Millisecond, 2 * time.Second
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return min(pace.MostWait, pace.Backoff(fails))
	}
	return service.Jitter(min(least<<min(fails, 10), most))
}

// Refresh asks some broker for the leaders. With LeaderNotAvailable some partition has none and keeps the one it had:
// the leaders of the others are no worse known for it.
func (s *Source) Refresh(ctx context.Context) (View, error) { return s.Ask(ctx, s.Client) }

// RefreshKnown is Refresh for those that can go on though some partition has no leader.
func (s *Source) RefreshKnown(ctx context.Context) (View, error) {
	v, err := s.Refresh(ctx)
	if v.Leaders != nil && errors.Is(err, kerr.LeaderNotAvailable) {
		err = nil
	}
	return v, err
}

// Ask is Refresh, of a broker.
func (s *Source) Ask(ctx context.Context, whom kmsg.Requestor) (View, error) {
	ctx, cancel := context.WithTimeout(ctx, pace.AskTimeout)
	defer cancel()
	asked := time.Now()
	m, err := topicMetadata(ctx, whom, s.Topic)
	if m != nil {
		s.Known.Learn(m, asked)
	}
	if err != nil {
		return View{}, s.denied(err)
	}
	return s.Learn(m, time.Now())
}

// Learn follows an answer about this topic alone, as Refresh does.
func (s *Source) Learn(m *kmsg.MetadataResponse, asked time.Time) (View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, err := s.view.follow(m, s.Only)
	if next.Leaders == nil {
		return next, err
	}
	if s.moved != nil && !maps.Equal(next.Leaders, s.view.Leaders) {
		close(s.moved)
		s.moved = nil
	}
	s.view, s.asked = next, asked
	return next, err
}

// VerifyEvery is how often it is asked elsewhere whether a leader that answers still leads. A broker that is cut
// off from the others does not know that another leads, and goes on answering.
const VerifyEvery = kafka.KnownFor

// VerifyDue says that nobody was asked for long, and counts as asking.
func (s *Source) VerifyDue(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.view.Brokers) < 2 || now.Sub(s.asked) < VerifyEvery {
		return false
	}
	s.asked = now
	return true
}

// VerifyLeaders asks about each partition some broker that does not lead it. With one
// broker it does nothing.
func (s *Source) VerifyLeaders(ctx context.Context) error {
	if s.Shared != nil {
		return s.Shared.VerifyLeaders(ctx, s)
	}
	v := s.Current()
	var leaderless error // what is said of the others counts all the same
	for _, broker := range v.nonLeaders() {
		learned, err := s.Ask(ctx, s.broker(broker))
		if err != nil && learned.Leaders == nil {
			return err
		}
		leaderless = errors.Join(leaderless, err)
	}
	return leaderless
}

// nonLeaders are brokers to ask so that each partition's is not its leader: one,
// and a second if the first leads something.
func (v View) nonLeaders() []int32 {
	if len(v.Brokers) < 2 {
		return nil
	}
	order := rand.Perm(len(v.Brokers)) // #nosec G404 -- any brokers will do
	some := []int32{v.Brokers[order[0]]}
	for _, l := range v.Leaders {
		if l.Broker == some[0] {
			return append(some, v.Brokers[order[1]])
		}
	}
	return some
}

// change is closed when another leads than in the view.
func (s *Source) change(of View) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !maps.Equal(of.Leaders, s.view.Leaders) {
		done := make(chan struct{})
		close(done)
		return done
	}
	if s.moved == nil {
		s.moved = make(chan struct{})
	}
	return s.moved
}

// follow is the view after an answer about this topic alone. A partition that has no leader now keeps the one it had,
// and the error says so; without any view one had no leader before either.
func (v View) follow(m *kmsg.MetadataResponse, only []int32) (View, error) {
	t := m.Topics[0]
	if v.Leaders != nil && t.TopicID != v.Id {
		return View{}, replaced(*t.Topic)
	}
	next, leaderless := View{Id: t.TopicID, Leaders: map[int32]Leader{}}, error(nil)
	for _, b := range m.Brokers {
		next.Brokers = append(next.Brokers, b.NodeID)
	}
	for _, p := range t.Partitions {
		if v.Leaders != nil {
			if _, known := v.Leaders[p.Partition]; !known {
				continue // added later: not this reader's
			}
		} else if only != nil && !slices.Contains(only, p.Partition) {
			continue
		}
		old, known := v.Leaders[p.Partition]
		switch {
		case p.Leader >= 0 && (!known || old.Epoch <= p.LeaderEpoch):
			next.Leaders[p.Partition] = Leader{p.Leader, p.LeaderEpoch}
			continue
		case p.Leader < 0 && !known:
			return View{}, kerr.LeaderNotAvailable
		case p.Leader < 0:
			leaderless = kerr.LeaderNotAvailable
		}
		next.Leaders[p.Partition] = old // the answer may be that of a broker that is behind
	}
	for _, p := range only {
		if _, ok := next.Leaders[p]; !ok {
			return View{}, compute.NotFound(
				"partition", fmt.Sprintf("%s/%d", *t.Topic, p), "name partitions the topic has",
			)
		}
	}
	return next, leaderless
}

// Offsets asks the leaders where partitions begin or end. With an error it gives those that were answered: one that its
// broker refuses holds up no other of that broker.
func (s *Source) Offsets(ctx context.Context, v View, partitions []int32, what int64) (map[int32]int64, error) {
	byBroker := map[int32][]int32{}
	for _, p := range partitions {
		b := v.Leaders[p].Broker
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

func (s *Source) offsetsAt(
	ctx context.Context, v View, broker int32, partitions []int32, what int64) (map[int32]int64, error,
) {
	req := kmsg.NewPtrListOffsetsRequest()
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = s.Topic
	for _, p := range partitions {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = p, what, v.Leaders[p].Epoch
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	if s.Shared != nil { // nothing else ends the wait for a frozen broker
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
			if refused := kerr.ErrorForCode(p.ErrorCode); refused != nil {
				err = s.denied(refused)
				continue
			}
			offsets[p.Partition] = p.Offset
		}
	}
	if err == nil && len(offsets) != len(partitions) {
		err = kerr.UnknownTopicOrPartition
	}
	return offsets, err
}

func replaced(topic string) error {
	return compute.Conflict("topic", topic, "was deleted and made again", "start again with nothing known of it")
}

// End is where a partition ends, as the broker says that leads it by the word of
// others. It is asked until it answers.
func (s *Source) End(ctx context.Context, p int32) (int64, error) {
	log := s.Log.With(zap.String("topic", s.Topic))
	return retry.Do(ctx, log, "waiting for the end of a partition", s.Outage, func() (int64, error) {
		v, err := s.viewOf(ctx, s.Client, p)
		if err != nil {
			return 0, err
		}
		if was := s.Current(); was.Leaders != nil && was.Id != v.Id {
			return 0, replaced(s.Topic)
		}
		for _, broker := range v.nonLeaders() {
			other, err := s.viewOf(ctx, s.broker(broker), p)
			if err != nil {
				return 0, err
			}
			if other.Leaders[p] != v.Leaders[p] {
				return 0, ErrMoved
			}
		}
		ends, err := s.Offsets(ctx, v, []int32{p}, Latest)
		return ends[p], err
	})
}

// viewOf asks one broker for the leader of one partition.
func (s *Source) viewOf(ctx context.Context, whom kmsg.Requestor, p int32) (View, error) {
	ctx, cancel := context.WithTimeout(ctx, pace.AskTimeout)
	defer cancel()
	m, err := topicMetadata(ctx, whom, s.Topic)
	if err != nil {
		return View{}, s.denied(err)
	}
	return View{}.follow(m, []int32{p})
}
