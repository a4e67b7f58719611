// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/queues/advise"
	"github.com/berth-project/berth/queues/save"
)

// TestSavingsKnowPlaceholders: what is room of a reservation is said to be that, so that nothing is taken away for it.
func TestSavingsKnowPlaceholders(t *testing.T) {
	v := newView(Options{Advice: advise.DefaultRules()}.withDefaults())
	now, want := time.Now(), []bool{true, false}
	for n, placeholder := range want {
		v.instance(instance(n, "q", compute.StateQueued, func(i *compute.Instance) {
			if i.QueuedAt = now.Add(time.Duration(n-2) * time.Second); placeholder {
				i.Boot.AsPlaceholder(compute.Placeholder{Of: "r", Size: 1})
			}
		}), now)
	}
	var got []bool
	savings{v.advisor, v}.Waiting(now, func(_ compute.QueueName, first []save.Build, _ int) {
		for _, b := range first {
			got = append(got, b.Placeholder)
		}
	})
	if !slices.Equal(got, want) {
		t.Errorf("placeholders are %v, want %v", got, want)
	}
}

// TestKeptPlaceholdersAreNotWaitedFor: a placeholder that its conductor keeps lies in no queue, and may come to: its
// queue stays, and no host is told that work is there until it is offered.
func TestKeptPlaceholdersAreNotWaitedFor(t *testing.T) {
	v := newView(Options{Advice: advise.DefaultRules()}.withDefaults())
	now := time.Now()
	for at, kept := range []bool{true, false, true} {
		v.instance(instance(1, "q", compute.StateQueued, func(i *compute.Instance) {
			i.Attempt, i.QueuedAt = 2, now
			i.Boot.AsPlaceholder(compute.Placeholder{Of: "r", Size: 1,
				Taker: "00000000-0000-4000-8000-000000000021", Kept: kept})
		}), now)
		depth, waiting := v.progress("q", now).Depth, 0
		v.ringer.EachWaiting(func(compute.QueueName) { waiting++ })
		if is := depth > 0; is == kept || waiting > 0 == kept || v.loads["q"] == nil {
			t.Errorf("record %d, kept %t: the depth is %d, work is in %d queues", at, kept, depth, waiting)
		}
	}
}
