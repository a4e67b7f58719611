package kafka

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// inquiry is one question to brokers that do not lead, for all readers of a joint.
type inquiry struct {
	of   map[*source]bool // whose readers wait for the answer
	done chan struct{}
	errs map[*source]error // once done
}

// gatherDoubts is how long an inquiry waits for other readers to join it: those that
// start together doubt within the same moment.
const gatherDoubts = 10 * time.Millisecond

// doubt asks brokers that do not lead what they know of a reader's topic. The question
// is sent after the call, and carries the topics of all other readers that are open:
// they need not ask for a while.
func (j *Joint) doubt(ctx context.Context, s *source) error {
	if len(s.current().brokers) < 2 {
		return nil // nobody else could know
	}
	j.mu.Lock()
	q := j.inquiry
	if q == nil {
		q = &inquiry{of: map[*source]bool{}, done: make(chan struct{}), errs: map[*source]error{}}
		j.inquiry = q
		j.rides.Go(func() { j.inquire(q) })
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
func (j *Joint) opened(s *source) (left func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open[s] = true
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.open, s)
	}
}

func (j *Joint) inquire(q *inquiry) {
	defer close(q.done)
	_ = sleep(context.Background(), gatherDoubts) // nothing ends it
	j.mu.Lock()
	j.inquiry = nil
	all := maps.Clone(j.open)
	maps.Copy(all, q.of)
	j.mu.Unlock()
	views := map[*source]view{}
	for s := range all {
		if v := s.current(); len(v.leaders) > 0 {
			views[s] = v
		}
	}
	for broker, of := range witnesses(views) {
		for s, err := range j.witness(broker, of) {
			if q.errs[s] == nil {
				q.errs[s] = err
			}
		}
	}
}

// witnesses says which brokers to ask about which topics, so that some broker is asked
// about each partition that does not lead it: all topics of the broker that leads the
// fewest, and those that it leads of another.
func witnesses(views map[*source]view) map[int32][]*source {
	led, alive := map[int32][]*source{}, map[int32]bool{}
	for s, v := range views {
		for _, b := range v.brokers {
			alive[b] = true
		}
		for _, l := range v.leaders {
			if !slices.Contains(led[l.broker], s) {
				led[l.broker] = append(led[l.broker], s)
			}
		}
	}
	brokers := slices.Sorted(maps.Keys(alive))
	rand.Shuffle(len(brokers), func(a, b int) { brokers[a], brokers[b] = brokers[b], brokers[a] })
	slices.SortStableFunc(brokers, func(a, b int32) int { return len(led[a]) - len(led[b]) })
	if len(brokers) < 2 {
		return nil
	}
	asked := map[int32][]*source{brokers[0]: slices.Collect(maps.Keys(views))}
	if own := led[brokers[0]]; len(own) > 0 {
		asked[brokers[1]] = own
	}
	return asked
}

// witness asks one broker, and answers why each of the topics is not as it was known.
func (j *Joint) witness(broker int32, of []*source) map[*source]error {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	var topics []string
	for _, s := range of {
		topics = append(topics, s.topic)
	}
	slices.Sort(topics)
	asked, errs := time.Now(), map[*source]error{}
	m, err := metadata(ctx, j.broker(broker), slices.Compact(topics)...)
	if err == nil {
		j.cfg.Known.learn(m, asked)
	}
	for _, s := range of {
		if errs[s] = err; err != nil {
			continue
		}
		own := *m
		own.Topics = slices.DeleteFunc(slices.Clone(m.Topics), func(t kmsg.MetadataResponseTopic) bool { return *t.Topic != s.topic })
		if len(own.Topics) == 0 {
			errs[s] = kerr.UnknownServerError
		} else if errs[s] = kerr.ErrorForCode(own.Topics[0].ErrorCode); errs[s] == nil {
			_, errs[s] = s.take(&own, asked)
		}
	}
	return errs
}
