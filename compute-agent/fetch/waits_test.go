// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

// events are what happens to a queue, to its broker or to the host.
var events = map[string]func(w *world, q compute.Queue){
	"come": func(w *world, q compute.Queue) { w.comes(q, false) },
	"come and ring": func(w *world, q compute.Queue) {
		w.comes(q, false)
		w.ring(compute.Look{Queue: q.Name})
	},
	"come for others": func(w *world, q compute.Queue) {
		if w.others < 2 {
			w.others++
			w.comes(q, true)
			w.ring(compute.Look{Queue: q.Name})
		}
	},
	"go": func(w *world, q compute.Queue) {
		if all := w.lies[q.Name]; len(all) > 0 {
			w.say("went %s %d", q.Name, all[0].offset)
			w.lies[q.Name] = all[1:]
		}
	},
	"ring":  func(w *world, q compute.Queue) { w.ring(compute.Look{Queue: q.Name}) },
	"hold":  func(w *world, q compute.Queue) { w.ring(compute.Look{Queue: q.Name, Hold: 15 * time.Second}) },
	"save":  func(w *world, q compute.Queue) { w.ring(compute.Look{Queue: q.Name, Save: 20 * time.Second}) },
	"spend": func(w *world, q compute.Queue) { w.ring(compute.Look{Queue: q.Name, Spend: true}) },
	"broker": func(w *world, q compute.Queue) {
		w.fails[broker(q.Name)] = !w.fails[broker(q.Name)]
		w.say("the broker of %s fails: %v", q.Name, w.fails[broker(q.Name)])
	},
	"close": func(w *world, _ compute.Queue) {
		w.closed = !w.closed
		w.say("closed: %v", w.closed)
		w.Changed()
	},
	"free": func(w *world, _ compute.Queue) {
		w.uses = max(0, w.uses-rapid.Int64Range(1, 10).Draw(w.t, "freed"))
		w.say("uses %d", w.uses)
		w.Freed(w.now)
	},
}

// A host that was rung for work that it has room for takes some soon, whatever it was rung for, waits on and saves for
// besides, where other hosts take what lies in queues, and some brokers fail.
func TestKnownWorkIsTakenSoon(t *testing.T) {
	for range 10 { // what was found came once in 500 to 12,000
		rapid.Check(t, func(t *rapid.T) { newWorld(t, false).play(waitsMost + 2*leftTwice) })
	}
}

// Where no queue manager is, it finds all work in time.
func TestWorkIsFoundInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { newWorld(t, true).play(3 * time.Minute) })
}

// play has things happen, and then time pass.
func (w *world) play(after time.Duration) {
	t := w.t
	kinds := slices.Sorted(maps.Keys(events))
	for range rapid.IntRange(1, 40).Draw(t, "events") {
		w.pass(time.Duration(rapid.IntRange(0, 200).Draw(t, "passes")) * 10 * time.Millisecond)
		q := rapid.SampledFrom(w.queues).Draw(t, "queue")
		events[rapid.SampledFrom(kinds).Draw(t, "event")](w, q)
	}
	w.pass(2 * after)
}
