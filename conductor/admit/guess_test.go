// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

// TestWorldOfOneQueue lets takeovers happen among what one project has in one queue, of which its share holds some:
// what the next owner takes to be in the queue has been put there.
func TestWorldOfOneQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.state.opts.ShareLeast = rapid.IntRange(1, 3).Draw(t, "share")
		w.view.Quotas[compute.DefaultQuota] = compute.Quota{
			Limits: compute.Resources{compute.Instances: 40},
			Weight: rapid.Uint32Range(1, 2).Draw(t, "weight"),
		}
		for range rapid.IntRange(5, 300).Draw(t, "steps") {
			w.happenInQueue()
		}
	})
}

func (w *world) happenInQueue() {
	a := rapid.SampledFrom(w.agents).Draw(w.t, "agent")
	id := long(fmt.Sprint(rapid.IntRange(1, 40).Draw(w.t, "instance")))
	switch rapid.IntRange(0, 9).Draw(w.t, "what") {
	case 0, 1, 2:
		b := &compute.Boot{Flavor: "m1.small", Deadline: 24 * time.Hour, Attempts: 9}
		b.Rules = compute.InGroup(rapid.SampledFrom([]compute.GroupName{"", "", "apart"}).Draw(w.t, "group"))
		w.hear(Requested{Request: compute.Request{Op: compute.OpBoot, Project: "p", Instance: id, Boot: b, At: w.now}})
	case 3, 4:
		w.take(a)
		w.deliverReport(a)
	case 5, 6:
		w.deliverCommand(a)
		w.deliverReport(a)
	case 7:
		w.pass(rapid.SampledFrom([]time.Duration{time.Second, 3 * time.Second, 20 * time.Second}).Draw(w.t, "pass"))
	case 8:
		w.takeover(int64(rapid.IntRange(0, len(w.state.log)).Draw(w.t, "cursor")))
	case 9:
		w.feedback(false)
	}
}

// verifyGuesses: what a takeover takes to be in a queue has been put there. Nobody else would do it for as long as
// RepublishAfter. A member that the conductor before has held for its group is another matter; see publishLoaded.
func (w *world) verifyGuesses() {
	for id, e := range w.state.instances {
		if e.pub == nil || e.pub.state != unknown || e.pub.told || e.group() != nil || e.inst.Boot.Placeholder().Kept {
			continue
		}
		if !slices.ContainsFunc(w.queue, func(b compute.Build) bool {
			return slices.ContainsFunc(b.Each(), func(part compute.Build) bool {
				return part.Instance == id && part.Attempt == e.inst.Attempt
			})
		}) {
			w.t.Fatalf("%s is taken to be in its queue, and was never put there", describe(e.inst))
		}
	}
}
