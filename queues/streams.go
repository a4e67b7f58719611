// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
)

// sweepDue removes streams that nobody needs any more, if it is time, and says how
// long it is until it is time again; 0: never. It is the host loop's, which makes
// streams: so none is removed that is just being made.
func (t *term) sweepDue(ctx context.Context, due *time.Time, made map[compute.HostID]bool) time.Duration {
	if t.opts.Far.Streams == nil {
		return 0
	}
	if left := due.Sub(t.now()); left > 0 {
		return left
	}
	*due = t.now().Add(t.opts.Sweep)
	if err := t.sweep(ctx, made); err != nil && ctx.Err() == nil {
		t.opts.Logger.Warn("cannot remove the streams of forgotten hosts", zap.Error(err))
	}
	return t.opts.Sweep
}

// sweep removes the streams of hosts that have no beacon, for they were forgotten,
// and to which nothing was said for long. The last beacon of every other host stays
// in its topic for ever, however long the host is silent.
func (t *term) sweep(ctx context.Context, made map[compute.HostID]bool) error {
	topics, err := t.streams(ctx)
	if err != nil {
		return err
	}
	for h := range made {
		if topics[h] == "" { // somebody deleted it, or the broker has not heard of it yet: it is made again, if need be
			delete(made, h)
			t.streamGone(h)
		}
	}
	nobodys := t.unowned(topics)
	if len(nobodys) == 0 || t.opts.Forgotten <= 0 { // they stay
		return nil
	}
	var quiet []compute.HostID
	err = t.within(ctx, func(ctx context.Context) (err error) {
		since := t.view.logTime(t.now()).Add(-t.opts.Forgotten)
		quiet, err = t.opts.Far.Streams.QuietHosts(ctx, nobodys, since)
		return err
	})
	if err == nil {
		err = t.within(ctx, t.opts.View.SyncLists) // a host that came back meanwhile has a beacon
	}
	if err != nil {
		return err
	}
	for _, h := range quiet {
		if len(t.unowned(map[compute.HostID]compute.TopicID{h: topics[h]})) == 0 {
			continue
		}
		err := t.within(ctx, func(ctx context.Context) error {
			return t.opts.Far.Streams.DeleteHostTopic(ctx, h, topics[h])
		})
		if err != nil {
			return err
		}
		delete(made, h)
		t.streamGone(h)
		t.opts.Logger.Info("the stream of a forgotten host is removed", zap.String("host", string(h)))
	}
	return nil
}

// streams lists every stream that exists, as far as the broker that answers knows.
func (t *term) streams(ctx context.Context) (topics map[compute.HostID]compute.TopicID, err error) {
	err = t.within(ctx, func(ctx context.Context) (err error) {
		topics, err = t.opts.Far.Streams.HostTopics(ctx)
		return err
	})
	return topics, err
}

// unowned are the streams of hosts that no beacon is known of, one that cannot be
// read, or is not believed, included: the host may be there, and be without its key for a while.
func (t *term) unowned(topics map[compute.HostID]compute.TopicID) (list []compute.HostID) {
	t.view.mu.Lock()
	defer t.view.mu.Unlock()
	for h := range topics {
		if !t.view.hosts[h] && !t.view.unread[h] {
			list = append(list, h)
		}
	}
	slices.Sort(list)
	return list
}

// streamGone takes note that a host has no stream.
func (t *term) streamGone(h compute.HostID) {
	t.view.mu.Lock()
	defer t.view.mu.Unlock()
	delete(t.view.reached, h)
}
