// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/queues/ring"
)

// errBehind is why rings are dropped.
var errBehind = errors.New("too many rings are under way")

// maxRinging bounds how many batches of rings are under way. When brokers answer no
// more, rings are dropped: late ones say nothing any more.
const maxRinging = 32

// ringLoop rings hosts as work comes.
func (t *term) ringLoop(ctx context.Context) {
	t.view.mu.Lock()
	t.view.ringer.Reset(t.now()) // somebody else rang until now
	t.view.saver.Reset()
	t.view.mu.Unlock()
	under := make(chan struct{}, maxRinging)
	defer func() {
		for range maxRinging {
			under <- struct{}{}
		}
	}()
	for {
		rings, wait := t.toRing()
		if len(rings) > 0 {
			select {
			case under <- struct{}{}:
				go func() {
					defer func() { <-under }()
					t.ring(ctx, rings)
				}()
			default:
				t.opts.Metrics.rang(len(rings), errBehind)
			}
		}
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

// ringTimeout is how long a ring may be on its way.
const ringTimeout = 5 * time.Second

// ring sends rings. What becomes of them is not awaited by anybody.
func (t *term) ring(ctx context.Context, rings []ring.Ring) {
	ctx, cancel := context.WithTimeout(ctx, ringTimeout)
	defer cancel()
	recs, at := make([]wire.Record, len(rings)), t.now().UTC()
	for i, r := range rings {
		look := compute.Command{Op: compute.CommandLook, Look: &r.Look, At: at}
		recs[i] = wire.EncodeCommand(look).To(t.opts.Topics.Host(r.Host), 0)
	}
	err := t.opts.Log.Send(ctx, recs...)
	if err != nil {
		t.opts.Logger.Debug("some rings were not acknowledged", zap.Int("rings", len(rings)), zap.Error(err))
	}
	t.opts.Metrics.rang(len(rings), err)
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
