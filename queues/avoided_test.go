// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/queues/advise"
)

// TestHostsThatAllTheWorkAvoids: whatever comes, is claimed, comes back and ends, the
// hosts that are said to be avoided are those that everything which waits avoids.
func TestHostsThatAllTheWorkAvoids(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := newView(Options{Advice: advise.DefaultRules()}.withDefaults())
		now := time.Now()
		hosts := []compute.HostID{"h0", "h1", "h2"}
		avoid := map[int][]compute.HostID{}
		waits := map[int]bool{}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			n := rapid.IntRange(0, 4).Draw(rt, "instance")
			if _, known := avoid[n]; !known {
				avoid[n] = rapid.SliceOfN(rapid.SampledFrom(hosts), 0, 3).Draw(rt, "avoid")
			}
			state := rapid.SampledFrom([]compute.State{
				compute.StateQueued, compute.StateStarting, compute.StateActive, compute.StateDeleted,
			}).Draw(rt, "state")
			v.instance(instance(n, "q", state, func(i *compute.Instance) {
				i.Boot.Avoid = avoid[n]
				i.QueuedAt = now.Add(time.Duration(rapid.IntRange(-9, 9).Draw(rt, "queued")) * time.Second)
			}), now)
			waits[n] = state == compute.StateQueued
			if want, got := avoidedByAll(hosts, avoid, waits),
				v.progress("q", now).Avoided; fmt.Sprint(want) != fmt.Sprint(got) {
				rt.Fatalf("avoided are %v, want %v: %v of %v", got, want, waits, avoid)
			}
		}
	})
}

func avoidedByAll(hosts []compute.HostID, avoid map[int][]compute.HostID, waits map[int]bool) (out []compute.HostID) {
	for _, h := range hosts {
		all, any := true, false
		for n, is := range waits {
			all, any = all && (!is || slices.Contains(avoid[n], h)), any || is
		}
		if all && any {
			out = append(out, h)
		}
	}
	return out
}

// TestStraysAreNotWaitedFor: records that no instance waits for are told to hosts,
// and counted apart.
func TestStraysAreNotWaitedFor(t *testing.T) {
	v := newView(Options{Advice: advise.DefaultRules()}.withDefaults())
	now := time.Now()
	v.stray["q"] = 16
	if p := v.progress("q", now); p.Depth != 16 || p.Stray != 16 {
		t.Errorf("%+v", p)
	}
	v.instance(instance(1, "q", compute.StateQueued, func(i *compute.Instance) { i.QueuedAt = now }), now)
	if p := v.progress("q", now); p.Depth != 17 || p.Stray != 16 || !p.Oldest.Equal(now) {
		t.Errorf("%+v", p)
	}
}
