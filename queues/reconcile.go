// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/queues/plan"
)

// reconcileLoop brings what there is to what is wanted, on news and regularly.
func (t *term) reconcileLoop(ctx context.Context) {
	fails := failure{}
	for {
		wait, err := t.pass(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			fails = failure{}
		} else {
			now := t.now()
			fails = fails.after(err, now, t.opts.Backoff, t.opts.MaxBackoff, 0)
			wait = fails.again.Sub(now)
			t.opts.Logger.Warn("cannot go on", zap.Error(err), zap.Duration("again_in", wait))
		}
		if !t.next(ctx, t.reconcile, sooner(wait, t.opts.Resync)) {
			return
		}
	}
}

// layers is how often a pass looks again without a pause: more than any queue's
// life has steps, so what does not come to rest by then waits for brokers that
// have not heard of it yet.
const layers = 8

// pass looks, plans and does, layer by layer, until nothing is left that can be
// done now. It answers when there may be more to do: 0 if only news can tell.
func (t *term) pass(ctx context.Context) (time.Duration, error) {
	for range layers {
		wanted, seen, wait, err := t.observe(ctx)
		if err != nil {
			return 0, err
		}
		steps, retry := t.allowed(plan.Next(wanted, seen, t.opts.rules()))
		if t.partly { // what seems to be wanted by nobody may be by what was not read
			steps = slices.DeleteFunc(steps, func(s plan.Step) bool { return !s.Op.Makes() })
			wait = sooner(wait, t.opts.Settle)
		}
		if len(steps) == 0 || ctx.Err() != nil {
			return sooner(wait, retry), nil
		}
		err = t.do(ctx, steps)
		t.report(ctx, wanted, seen)
		if err != nil {
			return 0, err
		}
	}
	return 0, errUnsettled
}

var errUnsettled = errors.New("what was done cannot be seen yet")

// observe sees what is wanted and what there is. It also answers when waiting
// alone will change the picture.
func (t *term) observe(ctx context.Context) ([]compute.Queue, plan.Seen, time.Duration, error) {
	var topics map[compute.QueueName]compute.TopicID
	err := t.syncForPass(ctx)
	if err == nil {
		err = t.within(ctx, func(ctx context.Context) (err error) {
			topics, err = t.opts.Far.Topics.QueueTopics(ctx)
			return err
		})
	}
	if err != nil {
		return nil, plan.Seen{}, 0, err
	}
	now := t.now()
	t.view.mu.Lock()
	wanted, wait := t.view.wantedQueues(), time.Duration(0)
	seen := plan.Seen{
		Listed: maps.Clone(t.view.listed), Work: t.view.work(), Settled: now.Sub(t.began) >= t.opts.Settle,
		Topics: make(map[compute.QueueName]plan.Topic, len(topics)), Shares: map[compute.QueueName][]plan.Share{},
	}
	seen.Fresh, wait = t.view.fresh(now, t.opts.CloseFor)
	t.view.mu.Unlock()
	if !seen.Settled {
		wait = sooner(wait, t.opts.Settle-now.Sub(t.began))
	}
	for _, q := range wanted {
		if _, there := topics[q.Name]; !there {
			t.absent[q.Name] = true
		}
	}
	for q, id := range topics {
		seen.Topics[q] = plan.Topic{ID: id, Ours: t.absent[q]}
	}
	return wanted, seen, wait, t.observeShares(ctx, wanted, seen)
}

// observeShares asks for the share state of every wanted topic that is not
// listed as it is, in every group it may be in.
func (t *term) observeShares(ctx context.Context, wanted []compute.Queue, seen plan.Seen) error {
	var refs []wire.QueueRef
	now := t.now()
	groups := plan.Groups(len(wanted), seen.Listed, t.opts.rules())
	for _, q := range wanted {
		topic, there := seen.Topics[q.Name]
		listed := seen.Listed[q.Name]
		if !there || listed.TopicID == topic.ID || t.failures[q.Name].again.After(now) {
			continue
		}
		if group, ok := t.inited[topic.ID]; ok { // ours: nobody needs to be asked
			seen.Shares[q.Name] = append(seen.Shares[q.Name], plan.Share{Group: group, TopicID: topic.ID})
			continue
		}
		for _, g := range groups {
			if listed.Group == "" || listed.Group == g {
				refs = append(refs, wire.QueueRef{Name: q.Name, Group: g, TopicID: topic.ID})
			}
		}
	}
	for batch := range slices.Chunk(refs, t.opts.Batch) {
		answers, err := t.progress(ctx, batch)
		if err != nil {
			return err
		}
		for i, p := range answers {
			t.share(batch[i], p, seen)
		}
	}
	return nil
}

// share takes one answer. What is not known for sure is not the same as not
// there: such a queue is left for later.
func (t *term) share(ref wire.QueueRef, p Progress, seen plan.Seen) {
	switch {
	case p.Err != nil:
		t.fail(ref.Name, p.Err, 0)
	case p.Start < 0:
	case p.TopicID != ref.TopicID:
		t.fail(ref.Name, compute.Unavailable("look at share state", errOtherTopic), 0)
	default:
		seen.Shares[ref.Name] = append(seen.Shares[ref.Name], plan.Share{Group: ref.Group, TopicID: p.TopicID})
	}
}

var errOtherTopic = errors.New("the brokers do not agree yet which topic it is")

func (t *term) progress(ctx context.Context, refs []wire.QueueRef) (answers []Progress, err error) {
	err = t.within(ctx, func(ctx context.Context) error {
		answers, err = t.opts.Far.Shares.Progress(ctx, refs)
		return err
	})
	return answers, err
}

// allowed leaves out the steps of queues that failed and must wait, and says
// when the first of them may be tried again.
func (t *term) allowed(steps []plan.Step) ([]plan.Step, time.Duration) {
	now, next := t.now(), time.Duration(0)
	for _, f := range t.failures {
		if left := f.again.Sub(now); left > 0 {
			next = sooner(next, left)
		}
	}
	return slices.DeleteFunc(steps, func(s plan.Step) bool { return t.failures[s.Queue.Name].again.After(now) }), next
}

func (t *term) fail(q compute.QueueName, err error, atLeast time.Duration) {
	t.failures[q] = t.failures[q].after(err, t.now(), t.opts.Backoff, t.opts.MaxBackoff, atLeast)
}
