// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"testing"
	"time"
)

func appended(at time.Time) []Record { return []Record{{Time: at, Logged: true}} }

// TestClockIsTheLogs: whatever a process's own clock shows, it knows the time of the log, once it
// has read something that was written a moment ago.
func TestClockIsTheLogs(t *testing.T) {
	log := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, off := range []time.Duration{0, time.Hour, -time.Hour, -10 * 365 * 24 * time.Hour} {
		var c Clock
		own := func(at time.Time) time.Time { return at.Add(off) }
		if got := c.At(own(log)); !got.Equal(own(log)) {
			t.Errorf("off by %s, and nothing read: %s", off, got)
		}
		c = Clock{}
		c.Observe([]Record{{Time: log.Add(-time.Hour)}, {Logged: true}}, own(log)) // its producer's time, and none
		if got := c.Ahead(); got != 0 {
			t.Errorf("off by %s, and ahead by %s for what no broker has said", off, got)
		}
		c.Observe(appended(log.Add(-20*time.Second)), own(log)) // read late
		if got := c.At(own(log)); !got.Equal(log.Add(-20 * time.Second)) {
			t.Errorf("off by %s: %s", off, got)
		}
		c.Observe(appended(log.Add(time.Second)), own(log.Add(time.Second)))
		c.Observe(appended(log), own(log.Add(2*time.Second))) // another that is read late
		if got := c.At(own(log.Add(2 * time.Second))); !got.Equal(log.Add(2 * time.Second)) {
			t.Errorf("off by %s: %s", off, got)
		}
	}
}

// TestClockFollows: what was learnt is forgotten after some minutes, and time goes back only where a
// broker's clock did.
func TestClockFollows(t *testing.T) {
	log := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var c Clock
	hear := func(own, behind time.Duration) { c.Observe(appended(log.Add(own-behind)), log.Add(own)) }
	want := func(own, at time.Duration) {
		t.Helper()
		if got := c.At(log.Add(own)).Sub(log); got != at {
			t.Errorf("at %s it is %s, want %s", own, got, at)
		}
	}
	hear(0, time.Second)
	want(0, -time.Second)
	for own := time.Second; own < 12*time.Minute; own += time.Second {
		hear(own, 3*time.Second) // this process has become faster
	}
	want(12*time.Minute, 12*time.Minute-3*time.Second)
	want(12*time.Minute-time.Second, 12*time.Minute-3*time.Second)
	for own := 12 * time.Minute; own < 24*time.Minute; own += time.Second {
		hear(own, time.Hour) // all brokers were set an hour back
	}
	want(24*time.Minute, -36*time.Minute)
}
