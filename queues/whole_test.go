// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/queues/advise"
)

// partOf makes an instance a part of the set that instance 1 leads, offered whole in queue w if that is not empty.
func partOf(w compute.QueueName, granted bool) func(*compute.Instance) {
	return func(i *compute.Instance) {
		lead, _ := wire.DecodeInstance(instance(1, "x", compute.StateQueued))
		i.Boot.Rules = compute.InGroup(web.Name)
		if i.Boot.InSet(compute.Set{ID: lead.ID, Size: 2, Whole: w, Granted: granted}); i.State.OnHost() {
			i.Host = "h1"
		}
	}
}

// TestWhereAWholeSetWaits: one piece of work for all of it, in the queue that covers it; all its queues stay, since
// it may be offered in parts.
func TestWhereAWholeSetWaits(t *testing.T) {
	v := newView(Options{Advice: advise.DefaultRules()}.withDefaults())
	v.listed["w"] = compute.Queue{Name: "w", State: compute.QueueClosed}
	for _, c := range []struct {
		rec   wire.Record
		depth string // x, y, w
		work  string
		came  bool
		freed bool // the queue that is closed may go
	}{
		{instance(1, "x", compute.StateQueued, partOf("w", false)), "0 0 1", "map[w:1 x:1]", true, false},
		{instance(2, "y", compute.StateQueued, partOf("w", false)), "0 0 1", "map[w:1 x:1 y:1]", false, false},
		{instance(1, "x", compute.StateQueued, partOf("", false)), "1 0 0", "map[x:1 y:1]", true, true},
		{instance(2, "y", compute.StateQueued, partOf("", false)), "1 1 0", "map[x:1 y:1]", true, false},
		{instance(1, "x", compute.StateQueued, partOf("w", false)), "0 1 1", "map[w:1 x:1 y:1]", true, false},
		{instance(2, "y", compute.StateQueued, partOf("w", false)), "0 0 1", "map[w:1 x:1 y:1]", false, false},
		{instance(1, "x", compute.StateStarting, partOf("", true)), "0 0 0", "map[x:1 y:1]", false, true},
		{instance(2, "y", compute.StateStarting, partOf("", true)), "0 0 0", "map[x:1 y:1]", false, false},
		{instance(1, "x", compute.StateQueued, partOf("", true)), "1 0 0", "map[x:1 y:1]", true, false}, // its start failed
		{instance(1, "x", compute.StateActive, partOf("", true)), "0 0 0", "map[y:1]", false, false},
		{instance(2, "y", compute.StateDeleted), "0 0 0", "map[]", false, false},
	} {
		out := v.instance(c.rec, time.Now())
		now := time.Now()
		depth := fmt.Sprint(v.progress("x", now).Depth, v.progress("y", now).Depth, v.progress("w", now).Depth)
		if got := fmt.Sprint(v.work()); depth != c.depth || got != c.work || out.came != c.came {
			t.Errorf("after %s: depths %s, work %s, %+v", c.rec.Key, depth, got, out)
		}
		if c.freed && !out.freed {
			t.Errorf("after %s queue w may go, and %+v", c.rec.Key, out)
		}
	}
}
