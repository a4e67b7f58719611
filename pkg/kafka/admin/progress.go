// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/wire"
)

// QueueProgress is how far a share group is with one queue.
type QueueProgress struct {
	Queue   wire.QueueRef
	TopicID compute.TopicID // the incarnation this is about; compare with Queue.TopicID
	// Start: every record below is done or removed. -1: no share state. The
	// brokers write the share start offset down only with the next
	// acknowledgement after the one that moved it, so while others remain it may
	// be behind by what was acknowledged last; when nothing remains it is LogEnd.
	// They read it and the count of what is done above it one after the other, and
	// an acknowledgement of another host may move both between: then both, and
	// Depth, are as if what moved it had not been done, until the next one.
	Start int64
	// Written is the share start offset as the brokers have written it down: never
	// above Start, and where a broker that leads the queue next begins. Only what is
	// below it may be removed.
	Written  int64
	LogStart int64 // the oldest offset that still exists
	LogEnd   int64 // the offset the next record gets
	Depth    int64 // records that are not done; without share state, all there are
	Err      error // wire.ErrNoTopic, or why nothing is known; then the rest means nothing
}

// QueueProgress asks how far queues are; the answers are in the order of
// queues. The error is that of asking at all; what is wrong with one queue is
// in its answer. Records may come and go between the questions it takes.
func (a *Admin) QueueProgress(ctx context.Context, queues []wire.QueueRef) ([]QueueProgress, error) {
	const op = "ask how far queues are"
	all := make([]QueueProgress, 0, len(queues))
	for piece := range pieces(queues) {
		part, err := a.progress(ctx, piece)
		if err != nil {
			return nil, a.cfg.Classify(op, err, a.describesQueues()...)
		}
		all = append(all, part...)
	}
	return all, nil
}

// progress asks for the ends before the state: what the state calls done then
// covers all up to these ends.
func (a *Admin) progress(ctx context.Context, queues []wire.QueueRef) ([]QueueProgress, error) {
	topics := make([]string, len(queues))
	groups := map[string][]string{}
	for i, q := range queues {
		topics[i] = a.cfg.Topics.Build(q.Name)
		groups[q.Group] = append(groups[q.Group], topics[i])
	}
	starts, err := a.kadm.ListStartOffsets(ctx, topics...)
	unanswered, err := inPart(err)
	if err != nil {
		return nil, err
	}
	ends, err := a.kadm.ListEndOffsets(ctx, topics...)
	noEnds, err := inPart(err)
	if err != nil {
		return nil, err
	}
	maps.Copy(unanswered, noEnds)
	states, err := a.describeEach(ctx, groups)
	if err != nil {
		return nil, err
	}
	all := make([]QueueProgress, len(queues))
	for i, q := range queues {
		all[i] = a.progressOf(q, states[q.Group][topics[i]], starts[topics[i]], ends[topics[i]], unanswered[topics[i]])
	}
	return all, nil
}

// inPart takes an error of ListOffsets apart. unanswered: why there is no answer of some topics, as of one without a
// leader, while there is of others; err: there is none at all. That topics do not exist is neither.
func inPart(all error) (unanswered map[string]error, err error) {
	unanswered = map[string]error{}
	var shards *kadm.ShardErrors
	if !errors.As(all, &shards) {
		return unanswered, all
	}
	for _, s := range shards.Errs {
		if errors.Is(s.Err, kerr.UnknownTopicOrPartition) {
			continue
		}
		req, ok := s.Req.(*kmsg.ListOffsetsRequest)
		if !ok || shards.AllFailed {
			return nil, all
		}
		for _, t := range req.Topics {
			unanswered[t.Topic] = s.Err
		}
	}
	return unanswered, nil
}

// describeEach describes topics of share groups, side by side: one may not answer. What is wrong with one group is in
// the states of its topics; what is wrong with all is the error.
func (a *Admin) describeEach(
	ctx context.Context, groups map[string][]string,
) (map[string]map[string]shareState, error) {
	var mu sync.Mutex
	var all errgroup.Group
	all.SetLimit(describedAtOnce)
	states, failed, why := map[string]map[string]shareState{}, 0, error(nil)
	for g, topics := range groups {
		all.Go(func() error {
			of, err := a.describe(ctx, g, topics)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed, why, of = failed+1, err, map[string]shareState{}
				for _, t := range topics {
					of[t] = shareState{start: -1, lag: -1, err: err}
				}
			}
			states[g] = of
			return nil
		})
	}
	_ = all.Wait() // each has its own
	if failed > 0 && failed == len(groups) {
		return nil, why
	}
	return states, nil
}

// describedAtOnce is how many share groups are asked for at once.
const describedAtOnce = 8

// wholeTopic is where kadm puts what a broker says of a topic instead of where its
// partitions are.
const wholeTopic = -1

// describesQueues are the rights to ask how far queues are.
func (a *Admin) describesQueues() []access.Right {
	return []access.Right{
		access.ToAll(access.Describe, access.Group, a.cfg.Topics.ShareGroups()),
		access.ToAll(access.Describe, access.Topic, a.cfg.Topics.Build("")),
	}
}

// progressOf puts together what was answered of a queue. unanswered: why nothing was of some.
func (a *Admin) progressOf(
	q wire.QueueRef, s shareState, start, end map[int32]kadm.ListedOffset, unanswered error,
) QueueProgress {
	p := QueueProgress{Queue: q, TopicID: topicID(s.topic), Start: s.start, Written: s.start}
	first, ok1 := start[0]
	next, ok2 := end[0]
	trouble := errors.Join(first.Err, next.Err, start[wholeTopic].Err, end[wholeTopic].Err)
	if trouble == nil && !(ok1 && ok2) {
		trouble = cmp.Or(unanswered, error(kerr.UnknownTopicOrPartition))
	}
	if errors.Is(trouble, kerr.UnknownTopicOrPartition) {
		p.Err = wire.ErrNoTopic
		return p
	}
	if p.Err = a.cfg.Classify("ask how far a queue is", errors.Join(s.err, trouble),
		access.To(access.Describe, access.Group, q.Group),
		describes(a.cfg.Topics.Build(q.Name)),
	); p.Err != nil {
		return p
	}
	p.LogStart, p.LogEnd = first.Offset, next.Offset
	switch {
	case s.start < 0:
		p.Depth = p.LogEnd - p.LogStart
	case s.lag == 0:
		p.Start = max(p.Start, p.LogEnd)
	default:
		p.Start = max(p.Start, p.LogStart)
		p.Depth = min(s.lag, p.LogEnd-p.Start)
		if s.lag < 0 { // not known for a moment
			p.Depth = max(0, p.LogEnd-p.Start)
		}
	}
	return p
}
