// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"maps"
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

// ask is an agent that wants to know whether it is alone, and when it said so.
type ask struct {
	by compute.Voice
	at time.Time
}

// askedLately is how old an ask may be that is answered: a manager that was not elected
// then leaves it to the next.
const askedLately = 10 * time.Second

// noteVoice takes note of which agent says a beacon. It answers whether the host's
// agents are to be told something.
func (v *view) noteVoice(b compute.Beacon, past bool, now time.Time) bool {
	several := v.twins.Observe(b, past, now) != nil
	asks := b.Asks && !b.Leaves
	if asks {
		v.asks[b.Host] = ask{b.Voice(), now}
	} else if v.asks[b.Host].by.Same(b.Voice()) {
		delete(v.asks, b.Host)
	}
	if !several {
		delete(v.warned, b.Host)
		return asks
	}
	return asks || b.Twins && now.Sub(v.warned[b.Host]) >= twinsEvery
}

// twinsLoop tells agents that have one host name, and those that ask that they are alone.
func (t *term) twinsLoop(ctx context.Context) {
	hosts := newToHosts(t.opts.Log)
	defer hosts.wait()
	for {
		for _, w := range append(t.unwarned(), t.answers()...) {
			t.tell(ctx, hosts, w)
		}
		if !t.next(ctx, t.twins, 0) {
			return
		}
	}
}

// tell sends a word to a host. That all others of a name were told of an agent that begins counts only if they were.
func (t *term) tell(ctx context.Context, hosts *toHosts, w word) {
	rec := wire.EncodeCommand(w.Command).To(t.opts.Topics.Host(w.host), 0)
	hosts.send(ctx, w.host, []wire.Record{rec}, func(err error) {
		switch {
		case err == nil && w.Op == compute.CommandBegun:
			t.view.called(w.host, w.Voices[0])
		case err != nil && ctx.Err() == nil:
			t.opts.Logger.Warn("cannot tell the agents of a host whether they are several", zap.String("host", string(w.host)),
				zap.Error(err))
		}
	})
}

// word is what one host is told.
type word struct {
	host compute.HostID
	compute.Command
}

// unwarned are the words to say now.
func (t *term) unwarned() (all []word) {
	t.view.mu.Lock()
	defer t.view.mu.Unlock()
	now := t.now()
	for _, h := range t.view.twins.All(now) {
		if now.Sub(t.view.warned[h]) < twinsEvery {
			continue
		}
		t.view.warned[h] = now
		voices := t.view.twins.Of(h, now)
		t.opts.Logger.Error("several agents speak for one host; none of them may take anything",
			zap.String("host", string(h)), zap.Stringers("agents", voices))
		c := compute.Command{Op: compute.CommandTwins, Voices: voices, At: now.UTC()}
		all = append(all, word{h, c})
	}
	return all
}

// answers are the words to agents that have asked and whose streams are there.
func (t *term) answers() (all []word) {
	t.view.mu.Lock()
	defer t.view.mu.Unlock()
	now := t.now()
	for _, h := range slices.Sorted(maps.Keys(t.view.asks)) {
		if len(all) == t.opts.Batch { // of a whole cloud that starts some wait, lest more are under way than may be
			wake(t.twins)
			break
		}
		a := t.view.asks[h]
		late := now.Sub(a.at) >= askedLately
		if !late && !t.view.reached[h] {
			continue
		}
		if delete(t.view.asks, h); late {
			continue
		}
		if op := t.view.twins.Answer(h, a.by, now); op != compute.CommandNone {
			c := compute.Command{Op: op, Voices: []compute.Voice{a.by}, At: now.UTC()}
			all = append(all, word{h, c})
		}
	}
	return all
}

// called takes note that all others of a name were told of an agent.
func (v *view) called(h compute.HostID, by compute.Voice) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.twins.Called(h, by, v.now())
}

// sayTwins says how many hosts have several agents.
func (v *view) sayTwins(say telemetry.Say) {
	v.mu.Lock()
	defer v.mu.Unlock()
	say(float64(len(v.twins.All(v.now()))))
}
