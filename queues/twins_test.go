// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// spoken is a beacon of h1 by one of its agents.
func spoken(by compute.Voice, knows bool) wire.Record {
	inv := compute.Inventory{Totals: compute.Resources{compute.VCPU: 4}}
	b := compute.Beacon{Host: "h1", Journal: by.Journal, Started: by.Started, Inventory: inv, Twins: knows}
	return wire.EncodeBeacon(b)
}

// warned are the words about twins that h1 was told since the last time asked.
func (f *far) warned(t *testing.T) (all [][]compute.Voice) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, rec := range f.logs[names.Host("h1")] {
		c, err := wire.DecodeCommand(rec)
		if err != nil {
			t.Fatal(err)
		}
		if c.Op == compute.CommandTwins {
			all = append(all, c.Voices)
		}
	}
	delete(f.logs, names.Host("h1"))
	return all
}

// Two agents that speak for one host are told of each other, again and again, until
// one is silent. Nobody is told of an agent that was started again.
func TestTwinsAreTold(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		settle(5 * time.Second)
		began := time.Now().UTC()
		a, b := compute.Voice{Journal: "a", Started: began}, compute.Voice{Journal: "b", Started: began.Add(time.Hour)}
		say := func(knows bool, voices ...compute.Voice) {
			for _, v := range voices {
				f.publish(names.Hosts(), spoken(v, knows))
				settle(7 * time.Second)
			}
		}
		say(true, a, a, b, b, b)
		if got := f.warned(t); len(got) > 0 {
			t.Errorf("of a restart: %v", got)
		}
		settle(time.Minute)
		say(true, a, b, a, b, a, b)
		if diff := cmp.Diff([][]compute.Voice{{a, b}}, f.warned(t)); diff != "" {
			t.Error(diff)
		}
		say(true, a, b, a, b)
		if diff := cmp.Diff([][]compute.Voice{{a, b}}, f.warned(t)); diff != "" {
			t.Error(diff)
		}
		settle(time.Minute)
		say(true, a, a)
		if got := f.warned(t); len(got) > 0 {
			t.Errorf("of one that is gone: %v", got)
		}
		settle(time.Minute)
		if say(false, a, b, a, b, a, b); len(f.warned(t)) > 0 {
			t.Error("agents of an older version are told")
		}
	})
}
