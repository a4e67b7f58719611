// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/queues/advise"
)

// hostLoop makes the command stream of every host that was heard of.
func (t *term) hostLoop(ctx context.Context) {
	made, failures := map[compute.HostID]bool{}, map[compute.HostID]failure{}
	sweep := t.now().Add(t.opts.Settle)
	t.reachAll(ctx)
	for {
		wait := t.sweepDue(ctx, &sweep, made)
		for _, h := range t.unmade(made) {
			if left := failures[h].again.Sub(t.now()); left > 0 {
				wait = sooner(wait, left)
				continue
			}
			err := t.within(ctx, func(ctx context.Context) error { return t.opts.Far.Hosts.MakeHostTopic(ctx, h) })
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				made[h] = true
				delete(failures, h)
				t.reached(h)
				continue
			}
			now := t.now()
			failures[h] = failures[h].after(err, now, t.opts.Backoff, t.opts.MaxBackoff, 0)
			wait = sooner(wait, failures[h].again.Sub(now))
			t.opts.Logger.Warn("cannot make the stream of a host", zap.String("host", string(h)), zap.Error(err))
		}
		if !t.next(ctx, t.hosts, wait) {
			return
		}
	}
}

// reachAll takes note of the streams that seem to be there, so that their hosts are rung though it takes minutes to
// make sure of thousands: what a broker lists may have been deleted a moment ago.
func (t *term) reachAll(ctx context.Context) {
	if t.opts.Far.Streams == nil {
		return
	}
	there, err := t.streams(ctx)
	if err != nil && ctx.Err() == nil {
		t.opts.Logger.Warn("cannot list the streams of hosts", zap.Error(err))
	}
	for _, h := range t.unmade(nil) {
		if there[h] != "" {
			t.reached(h)
		}
	}
}

// unmade lists the hosts that are not in made.
func (t *term) unmade(made map[compute.HostID]bool) []compute.HostID {
	t.view.mu.Lock()
	defer t.view.mu.Unlock()
	var out []compute.HostID
	for h := range t.view.hosts {
		if !made[h] {
			out = append(out, h)
		}
	}
	slices.Sort(out)
	return out
}

// adviceLoop tells agents what they should know, at most as often as the rules
// allow.
func (t *term) adviceLoop(ctx context.Context) {
	t.resetAdvice() // somebody else told agents until now
	fails := failure{}
	for {
		if err := t.tellAgents(ctx); err != nil {
			t.resetAdvice()
			fails = fails.after(err, t.now(), t.opts.Advice.Every, t.opts.MaxBackoff, 0)
			t.opts.Logger.Warn("cannot give advice", zap.Error(err))
			if !service.Sleep(ctx, fails.again.Sub(t.now())) {
				return
			}
			continue
		}
		fails = failure{}
		if !t.next(ctx, t.advice, t.ask()) {
			return
		}
	}
}

// ask is how soon there may be news though nothing was read.
func (t *term) ask() time.Duration {
	t.view.mu.Lock()
	defer t.view.mu.Unlock()
	return t.view.advisor.NextIn(t.now())
}

// tellAgents writes the next advice, if there is any.
func (t *term) tellAgents(ctx context.Context) error {
	advice, ok := t.advise()
	if !ok {
		return nil
	}
	rec := wire.EncodeAdvice(advice).To(t.opts.Topics.Advice(), 0)
	if err := t.within(ctx, func(ctx context.Context) error { return t.opts.Log.Send(ctx, rec) }); err != nil {
		return err
	}
	t.opts.Metrics.advised()
	return nil
}

// resetAdvice has everything told anew.
func (t *term) resetAdvice() {
	t.view.mu.Lock()
	defer t.view.mu.Unlock()
	t.view.advisor.Reset()
}

func (t *term) advise() (compute.Advice, bool) {
	v, now := t.view, t.now()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.relisted {
		v.relisted = false
		var list []compute.Queue
		for _, q := range v.listed {
			if !q.CannotBeMade() {
				list = append(list, q)
			}
		}
		v.advisor.SetQueues(list)
	}
	at := v.logTime(now)
	v.advisor.Ahead(v.ahead(now))
	return v.advisor.Next(now, func(q compute.QueueName) advise.Progress { return v.progress(q, at) })
}

// truncateLoop removes the records of finished work, and looks for records
// that no instance waits for.
func (t *term) truncateLoop(ctx context.Context) {
	for {
		for refs := range slices.Chunk(t.refs(), t.opts.Batch) {
			if err := t.truncate(ctx, refs); err != nil && ctx.Err() == nil {
				t.opts.Logger.Warn("cannot remove finished records", zap.Error(err))
			}
		}
		if !service.Sleep(ctx, t.opts.Truncate) {
			return
		}
	}
}

// refs lists the queues that have a topic.
func (t *term) refs() []wire.QueueRef {
	t.view.mu.Lock()
	defer t.view.mu.Unlock()
	var out []wire.QueueRef
	for _, q := range t.view.listed {
		if !q.CannotBeMade() {
			out = append(out, wire.QueueRef{Name: q.Name, Group: q.Group, TopicID: q.TopicID})
		}
	}
	return out
}

// truncate removes what is below the share start offsets as they were just
// asked for and are written down, never above: a broker that leads a queue next
// begins there, and one that finds the records of a gap removed hands out nothing
// ever after. Whether work was lost is asked of that offset, not of
// the records, so nothing that check needs is removed.
func (t *term) truncate(ctx context.Context, refs []wire.QueueRef) error {
	idle := t.idle(refs, nil)
	answers, err := t.progress(ctx, refs)
	if err != nil {
		return err
	}
	t.watchPositions(refs, answers)
	idle = t.idle(refs, idle) // before and after
	below := map[compute.QueueName]int64{}
	t.view.mu.Lock()
	for i, p := range answers {
		delete(t.view.stray, refs[i].Name)
		if p.Err != nil || p.TopicID != refs[i].TopicID {
			continue
		}
		if p.Written > p.LogStart {
			below[refs[i].Name] = p.Written
		}
		if idle[refs[i].Name] && p.Depth > 0 {
			t.view.stray[refs[i].Name] = uint64(p.Depth)
			t.view.advisor.MarkDirty(refs[i].Name)
		}
	}
	t.view.mu.Unlock()
	if len(below) == 0 {
		return nil
	}
	return t.within(ctx, func(ctx context.Context) error { return t.opts.Far.Shares.DeleteBelow(ctx, below) })
}

// watchPositions tells of a queue whose position went back: brokers only ever move it ahead, but a process that may
// take work may also set it. Nothing is lost or done twice by that, for claims decide; but what is done is handed out
// once more.
func (t *term) watchPositions(refs []wire.QueueRef, answers []Progress) {
	for i, p := range answers {
		if p.Err != nil || p.TopicID != refs[i].TopicID {
			continue
		}
		if was := t.written[refs[i].Name]; was.TopicID == p.TopicID && p.Written < was.Written {
			t.opts.Metrics.positionWentBack()
			t.opts.Logger.Warn("the position of a queue went back: a process with READ on its share group has set it",
				zap.String("queue", string(refs[i].Name)), zap.String("group", refs[i].Group),
				zap.Int64("from", was.Written), zap.Int64("to", p.Written))
		}
		t.written[refs[i].Name] = p
	}
}

// idle finds the queues, of those idle before, in which no instance waits.
func (t *term) idle(refs []wire.QueueRef, before map[compute.QueueName]bool) map[compute.QueueName]bool {
	t.view.mu.Lock()
	defer t.view.mu.Unlock()
	out := map[compute.QueueName]bool{}
	for _, r := range refs {
		l := t.view.loads[r.Name]
		if (l == nil || l.waiting.Len() == 0) && (before == nil || before[r.Name]) {
			out[r.Name] = true
		}
	}
	return out
}
