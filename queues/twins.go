// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/pkg/wire"
)

// twinsEvery is how often two agents of one host are told of each other: they take
// nothing for a minute after the last word.
const twinsEvery = 20 * time.Second

// noteVoice takes note of which agent says a beacon. It answers whether the host's
// agents are to be told that they are several, and know what that means.
func (v *view) noteVoice(b compute.Beacon, now time.Time) bool {
	if v.twins.Observe(b.Host, b.Voice(), now) == nil {
		delete(v.warned, b.Host)
		return false
	}
	return b.Twins && now.Sub(v.warned[b.Host]) >= twinsEvery
}

// twinsLoop tells agents that have one host name.
func (t *term) twinsLoop(ctx context.Context) {
	for {
		if err := t.warn(ctx, t.unwarned()); err != nil && ctx.Err() == nil {
			t.opts.Logger.Warn("cannot tell the agents of a host that they are several", zap.Error(err))
		}
		if !t.next(ctx, t.twins, 0) {
			return
		}
	}
}

// unwarned are the words to say now.
func (t *term) unwarned() (recs []wire.Record) {
	t.view.mu.Lock()
	defer t.view.mu.Unlock()
	now := time.Now()
	for _, h := range t.view.twins.All(now) {
		if now.Sub(t.view.warned[h]) < twinsEvery {
			continue
		}
		t.view.warned[h] = now
		voices := t.view.twins.Of(h, now)
		t.opts.Logger.Error("several agents speak for one host; none of them may take anything",
			zap.String("host", string(h)), zap.Stringers("agents", voices))
		c := compute.Command{Op: compute.CommandTwins, Voices: voices, At: now.UTC()}
		recs = append(recs, wire.EncodeCommand(c).To(t.opts.Topics.Host(h), 0))
	}
	return recs
}

func (t *term) warn(ctx context.Context, recs []wire.Record) error {
	for batch := range slices.Chunk(recs, t.opts.Batch) {
		if err := t.within(ctx, func(ctx context.Context) error { return t.opts.Log.Send(ctx, batch...) }); err != nil {
			return err
		}
	}
	return nil
}

// sayTwins says how many hosts have several agents.
func (v *view) sayTwins(say telemetry.Say) {
	v.mu.Lock()
	defer v.mu.Unlock()
	say(float64(len(v.twins.All(time.Now()))))
}
