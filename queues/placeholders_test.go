// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/queues/advise"
)

// TestKeptPlaceholdersAreNotWaitedFor: a placeholder that its conductor keeps lies in no queue, and may come to: its queue stays,
// and no host is told that work is there until it is offered.
func TestKeptPlaceholdersAreNotWaitedFor(t *testing.T) {
	v := newView(Options{Advice: advise.DefaultRules()}.withDefaults())
	now := time.Now()
	for at, kept := range []bool{true, false, true} {
		v.instance(instance(1, "q", compute.StateQueued, func(i *compute.Instance) {
			i.Attempt, i.QueuedAt = 2, now
			i.Boot.AsPlaceholder(compute.Placeholder{Of: "r", Size: 1, Taker: "00000000-0000-4000-8000-000000000021", Kept: kept})
		}), now)
		depth, waiting := v.progress("q", now).Depth, 0
		v.ringer.EachWaiting(func(compute.QueueName) { waiting++ })
		if is := depth > 0; is == kept || waiting > 0 == kept || v.loads["q"] == nil {
			t.Errorf("record %d, kept %t: the depth is %d, work is in %d queues", at, kept, depth, waiting)
		}
	}
}
