// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

// No host that has room does nothing while work waits that it may have.
func TestNoHostIsIdle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.play()
		w.pass(3 * time.Minute)
	})
}

// Nor does one where no queue manager is any more, only later.
func TestNoHostIsIdleWithoutQueueManagers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.play()
		w.say("the queue manager ends")
		w.gone = true
		clear(w.idle)
		w.play()
		w.pass(6 * time.Minute)
	})
}

// play has some things happen.
func (w *world) play() {
	for range rapid.IntRange(1, 60).Draw(w.t, "events") {
		w.pass(time.Duration(rapid.IntRange(0, 300).Draw(w.t, "passes")) * 10 * time.Millisecond)
		w.happens()
	}
}

// kinds are what happens; boots most often.
var kinds = []string{"boot", "boot", "boot", "boots", "picky", "again", "delete", "close", "elect", "lose"}

// happens has one thing happen.
func (w *world) happens() {
	q := rapid.SampledFrom(w.queues).Draw(w.t, "queue")
	h := rapid.SampledFrom(w.hosts).Draw(w.t, "host")
	switch rapid.SampledFrom(kinds).Draw(w.t, "event") {
	case "boot":
		w.boot(q, nil, nil)
	case "boots":
		for range rapid.IntRange(2, 6).Draw(w.t, "boots") {
			w.boot(q, nil, nil)
		}
	case "picky":
		w.boot(q, []compute.HostID{h.id}, nil)
	case "again":
		w.boot(q, nil, []compute.HostID{h.id})
	case "elect":
		w.say("another queue manager is elected")
		w.ringer.Reset(w.now)
		w.saver.Reset()
	case "lose":
		long := time.Duration(rapid.IntRange(1, 50).Draw(w.t, "lost")) * 100 * time.Millisecond
		w.say("rings are lost for %v", long)
		w.deaf, w.lost = latest(w.deaf, w.now.Add(long)), w.lost+long
	case "delete":
		if all := w.waits(q.Name); len(all) > 0 && all[0].locked == "" {
			w.cancel(all[0])
		}
	case "close":
		h.closed = !h.closed
		w.say("%s is closed: %v", h.id, h.closed)
		h.fetches.Changed()
	}
}
