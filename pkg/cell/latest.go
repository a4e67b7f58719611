// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/wire"
)

// latest is what a compacted topic says now. Its reader writes it, others read.
type latest struct {
	mu   sync.Mutex
	recs map[string]wire.Record
	news chan struct{} // holds one: something came
	time *logTime      // learns from all that comes
}

func newLatest(t *logTime) *latest {
	return &latest{recs: map[string]wire.Record{}, news: make(chan struct{}, 1), time: t}
}

func (b *latest) take(recs Records, _ bool) {
	b.time.clock.Observe(recs, b.time.own())
	b.mu.Lock()
	defer b.mu.Unlock()
	keepLast(b.recs, recs)
	select {
	case b.news <- struct{}{}:
	default:
	}
}

func (b *latest) all() []wire.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []wire.Record
	for _, r := range b.recs {
		out = append(out, r)
	}
	return out
}

// newest is when the last of its records was appended; zero where no broker says so of any.
func (b *latest) newest() (at time.Time) {
	for _, r := range b.all() {
		if r.Logged && r.Time.After(at) {
			at = r.Time
		}
	}
	return at
}

// logTime is the time of the log for a command that reads tables for a moment. This machine's clock may be wrong by
// years; how wrong it is, a record says that is read as soon as it was appended.
type logTime struct {
	own   func() time.Time // what this machine's clock shows
	clock wire.Clock
	quiet bool // nothing is appended that would say
}

func (c Cell) logTime() *logTime {
	return &logTime{own: func() time.Time { return c.Clock.shown(time.Now()) }}
}

// beaconGap is more than passes between two beacons of a host that is well.
const beaconGap = 20 * time.Second

// learn is called once the tables are read. Where all that was read seems old, either this machine's clock is fast or
// no host speaks: a beacon that is appended now tells them apart. Without one this machine's clock counts, for by the
// log every host would have spoken just now.
func (t *logTime) learn(ctx context.Context, hosts *latest) {
	if t.clock.Ahead() <= beaconGap {
		return
	}
	last, enough := hosts.newest(), time.NewTimer(beaconGap)
	defer enough.Stop()
	for t.quiet = last.IsZero(); !t.quiet && !hosts.newest().After(last); {
		select {
		case <-hosts.news:
		case <-enough.C:
			t.quiet = true
		case <-ctx.Done():
			return
		}
	}
}

// now is the time of the log, as far as it is known.
func (t *logTime) now() time.Time {
	if t.quiet {
		return t.own()
	}
	return t.clock.At(t.own())
}

// decoded is what can be read of what a record says.
func decoded[T any](b *latest, decode func(wire.Record) (T, error)) []T {
	var out []T
	for _, r := range b.all() {
		if x, err := decode(r); err == nil {
			out = append(out, x)
		}
	}
	return out
}

// keepLast is what a compacted topic says of each key.
func keepLast(into map[string]wire.Record, recs Records) {
	for _, r := range recs {
		if r.Value == nil {
			delete(into, string(r.Key))
			continue
		}
		into[string(r.Key)] = r
	}
}
