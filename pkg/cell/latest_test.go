// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/verify"
	"github.com/berth-project/berth/pkg/wire"
)

// offBy is a clock that shows so much more than it is.
type offBy time.Duration

func (o offBy) Shows(now time.Time) time.Time  { return now.Add(time.Duration(o)) }
func (o offBy) When(shown time.Time) time.Time { return shown.Add(-time.Duration(o)) }

// spoke is a beacon that was appended at a time.
func spoke(host compute.HostID, at time.Time) Records {
	rec := wire.EncodeBeacon(compute.Beacon{Host: host, At: at}).To("hosts", 0)
	rec.Time, rec.Logged = at, true
	return Records{rec}
}

// A command knows the time of the log, whatever its machine's clock shows: a host that spoke is not silent by it, and
// where none speaks that is no reason to believe that it is earlier.
func TestLogTime(t *testing.T) {
	for _, off := range []time.Duration{0, 2 * time.Minute, -2 * time.Minute, 10 * 365 * 24 * time.Hour} {
		for name, c := range map[string]struct {
			read  time.Duration // how old the newest beacon is that is read
			comes time.Duration // when the next one comes; 0: never
			wrong time.Duration // how far what is known may be from the time
		}{
			"a host speaks": {10 * time.Second, 4 * time.Second, 10 * time.Second},
			"one begins to": {time.Hour, 19 * time.Second, 0},
			"none speaks":   {time.Hour, 0, max(off, -off)},
			"none is there": {0, 0, max(off, -off)},
		} {
			synctest.Test(t, func(t *testing.T) {
				b := newTables(wire.Topics{}, Cell{Clock: Clocks{offBy(off)}}.logTime())
				if c.read > 0 {
					b.hosts.take(spoke("h1", time.Now().Add(-c.read)), true)
				}
				if c.comes > 0 {
					next := func() { b.hosts.take(spoke("h1", time.Now()), true) }
					defer time.AfterFunc(c.comes, next).Stop()
				}
				began := time.Now()
				b.time.learn(t.Context(), b.hosts)
				if took := time.Since(began); took > beaconGap {
					t.Errorf("%s, off by %s: took %s", name, off, took)
				}
				if wrong := time.Until(b.facts(1).Now); max(wrong, -wrong) > c.wrong {
					t.Errorf("%s, off by %s: wrong by %s", name, off, wrong)
				}
			})
		}
	}
}

// A host has spoken again once there is a beacon after the one that was looked at, by a clock that is behind too.
func TestAwaitBeacons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTables(wire.Topics{}, Cell{Clock: Clocks{offBy(-2 * time.Minute)}}.logTime())
		b.hosts.take(spoke("h1", time.Now()), true)
		b.hosts.take(spoke("h2", time.Now()), true)
		looked := b.facts(1)
		done := make(chan error, 1)
		go func() { done <- b.awaitBeacons(t.Context(), []verify.Difference{{Host: "h1"}}, looked.Beacons) }()
		for _, next := range []compute.HostID{"", "h2", "h1"} {
			if synctest.Wait(); len(done) > 0 {
				t.Fatalf("done before %q has spoken", next)
			}
			time.Sleep(time.Second) // virtual
			if next != "" {
				b.hosts.take(spoke(next, time.Now()), true)
			}
		}
		if synctest.Wait(); len(done) == 0 {
			t.Error("not done when h1 has spoken")
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
