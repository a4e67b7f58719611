// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/queues/ring"
)

// ringLoop rings hosts as work comes.
func (t *term) ringLoop(ctx context.Context) {
	t.view.mu.Lock()
	t.view.ringer.Reset(t.now()) // somebody else rang until now
	t.view.saver.Reset()
	t.view.mu.Unlock()
	hosts := newToHosts(t.opts.Log)
	defer hosts.wait()
	for {
		rings, wait := t.toRing()
		t.ring(ctx, hosts, rings)
		if _, on := await(ctx, t.rings, wait); !on { // at once: each moment of a ring is one of a boot
			return
		}
	}
}

// toRing are the rings to send now, and how long it is until there are more.
func (t *term) toRing() ([]ring.Ring, time.Duration) {
	t.view.mu.Lock()
	defer t.view.mu.Unlock()
	now := t.now()
	t.view.ringer.Ahead(t.view.ahead(now))
	rings := append(t.view.ranked(t.view.ringer.Rings(now), now), t.view.tellSavers(now)...)
	wait := time.Minute
	for _, next := range []time.Time{t.view.ringer.Next(), t.view.saver.Next()} {
		if !next.IsZero() {
			wait = min(wait, max(next.Sub(now), time.Millisecond))
		}
	}
	return rings, wait
}

// ranked tells with each ring since when the oldest work in the queue waits, and has what is to be served first come
// first.
func (v *view) ranked(rings []ring.Ring, now time.Time) []ring.Ring {
	at := v.logTime(now)
	for i := range rings {
		rings[i].Look.Oldest = v.oldest(rings[i].Look.Queue, at)
	}
	rank := func(r ring.Ring) time.Time { return v.listed[r.Look.Queue].Priority.Rank(r.Look.Oldest) }
	slices.SortStableFunc(rings, func(a, b ring.Ring) int {
		if none := a.Look.Oldest.IsZero(); none != b.Look.Oldest.IsZero() {
			if none {
				return 1
			}
			return -1
		}
		return rank(a).Compare(rank(b))
	})
	return rings
}

// ring sends rings. What becomes of them is not awaited by anybody.
func (t *term) ring(ctx context.Context, hosts *toHosts, rings []ring.Ring) {
	at, recs := t.now().UTC(), map[compute.HostID][]wire.Record{}
	var order []compute.HostID // as they come
	for _, r := range rings {
		if recs[r.Host] == nil {
			order = append(order, r.Host)
		}
		look := compute.Command{Op: compute.CommandLook, Look: &r.Look, At: at}
		recs[r.Host] = append(recs[r.Host], wire.EncodeCommand(look).To(t.opts.Topics.Host(r.Host), 0))
	}
	for _, h := range order {
		n := len(recs[h])
		hosts.send(ctx, h, recs[h], func(err error) {
			if err != nil {
				t.opts.Logger.Debug("some rings were not acknowledged", zap.String("host", string(h)), zap.Int("rings", n),
					zap.Error(err))
			}
			t.opts.Metrics.rang(n, err)
		})
	}
}

// reached says that a host's stream is there, so that the host can be rung, and told whether it is alone.
func (t *term) reached(h compute.HostID) {
	t.view.mu.Lock()
	defer t.view.mu.Unlock()
	t.view.streamThere(h, t.now())
	if _, asks := t.view.asks[h]; asks {
		wake(t.twins)
	}
	wake(t.rings)
}
