// SPDX-License-Identifier: Apache-2.0

package read

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
)

// leaderCheck is one question to brokers that do not lead, for all readers of a shared fetch.
type leaderCheck struct {
	of   map[*fetch.Source]bool // their readers wait for the answer
	done chan struct{}
	errs map[*fetch.Source]error // once done
}

// gatherQuestions is how long a leader check waits for other readers to join it: those that
// start together verify their leaders within the same moment.
const gatherQuestions = 10 * time.Millisecond

// VerifyLeaders asks brokers that do not lead what they know of a reader's topic. The question
// is sent after the call, and carries the topics of all other readers that are open:
// they need not ask for a while.
func (j *SharedFetch) VerifyLeaders(ctx context.Context, s *fetch.Source) error {
	if len(s.Current().Brokers) < 2 {
		return nil // nobody else could know
	}
	j.mu.Lock()
	q := j.leaderCheck
	if q == nil {
		q = &leaderCheck{of: map[*fetch.Source]bool{}, done: make(chan struct{}), errs: map[*fetch.Source]error{}}
		j.leaderCheck = q
		j.running.Go(func() { j.checkLeaders(q) })
	}
	q.of[s] = true
	j.mu.Unlock()
	select {
	case <-q.done:
		return q.errs[s]
	case <-ctx.Done():
		return ctx.Err()
	}
}

// opened counts a reader's topic in, until the answer is called.
func (j *SharedFetch) opened(s *fetch.Source) (left func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open[s] = true
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.open, s)
	}
}

func (j *SharedFetch) checkLeaders(q *leaderCheck) {
	defer close(q.done)
	_ = pace.Sleep(context.Background(), gatherQuestions) // nothing ends it
	j.mu.Lock()
	j.leaderCheck = nil
	all := maps.Clone(j.open)
	maps.Copy(all, q.of)
	j.mu.Unlock()
	views := map[*fetch.Source]fetch.View{}
	for s := range all {
		if v := s.Current(); len(v.Leaders) > 0 {
			views[s] = v
		}
	}
	for broker, of := range nonLeaders(views) {
		for s, err := range j.askNonLeader(broker, of) {
			if q.errs[s] == nil {
				q.errs[s] = err
			}
		}
	}
}

// nonLeaders says which brokers to ask about which topics, so that some broker is asked
// about each partition that does not lead it: all topics of the broker that leads the
// fewest, and those that it leads of another.
func nonLeaders(views map[*fetch.Source]fetch.View) map[int32][]*fetch.Source {
	led, alive := map[int32][]*fetch.Source{}, map[int32]bool{}
	for s, v := range views {
		for _, b := range v.Brokers {
			alive[b] = true
		}
		for _, l := range v.Leaders {
			if !slices.Contains(led[l.Broker], s) {
				led[l.Broker] = append(led[l.Broker], s)
			}
		}
	}
	brokers := slices.Sorted(maps.Keys(alive))
	rand.Shuffle(len(brokers), func(a, b int) { brokers[a], brokers[b] = brokers[b], brokers[a] })
	slices.SortStableFunc(brokers, func(a, b int32) int { return len(led[a]) - len(led[b]) })
	if len(brokers) < 2 {
		return nil
	}
	asked := map[int32][]*fetch.Source{brokers[0]: slices.Collect(maps.Keys(views))}
	if own := led[brokers[0]]; len(own) > 0 {
		asked[brokers[1]] = own
	}
	return asked
}

// askNonLeader asks one broker, and answers why each of the topics is not as it was known.
func (j *SharedFetch) askNonLeader(broker int32, of []*fetch.Source) map[*fetch.Source]error {
	ctx, cancel := context.WithTimeout(context.Background(), pace.AskTimeout)
	defer cancel()
	var topics []string
	for _, s := range of {
		topics = append(topics, s.Topic)
	}
	slices.Sort(topics)
	asked, errs := time.Now(), map[*fetch.Source]error{}
	m, err := fetch.Metadata(ctx, j.Broker(broker), slices.Compact(topics)...)
	if err == nil {
		j.cfg.Known.Learn(m, asked)
	}
	for _, s := range of {
		if errs[s] = err; err != nil {
			continue
		}
		own := *m
		own.Topics = slices.DeleteFunc(
			slices.Clone(m.Topics),
			func(t kmsg.MetadataResponseTopic) bool { return *t.Topic != s.Topic },
		)
		if len(own.Topics) == 0 {
			errs[s] = kerr.UnknownServerError
		} else if errs[s] = kerr.ErrorForCode(own.Topics[0].ErrorCode); errs[s] == nil {
			_, errs[s] = s.Learn(&own, asked)
		}
	}
	return errs
}
