// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// Hosts that all the waiting work avoids could take none of it: they are no eligible
// ones. Avoided hosts that could not take it anyway count as what they are.
func TestAvoidedHostsAreNotEligible(t *testing.T) {
	a := New(DefaultRules())
	a.SetQueues([]compute.Queue{q("a", 1), q("b", 1)})
	for i, free := range []int64{8, 8, 8, 0} {
		a.Observe(beacon(i, free), at(0))
	}
	work := map[compute.QueueName]Progress{
		"a": {Depth: 3, Stray: 1, Oldest: zero, Avoided: []compute.HostID{"h0", "h2", "h3", "h9"}},
		"b": {},
	}
	adv, _ := a.next(at(1), func(q compute.QueueName) Progress { return work[q] })
	want := []compute.QueueAdvice{
		{
			Queue: "a", Eligible: 1, Depth: 3, Stray: 1, Oldest: zero,
			Hosts: compute.HostCounts{Eligible: 1, Avoided: 2, Full: 1},
		},
		{Queue: "b", Eligible: 3, Hosts: compute.HostCounts{Eligible: 3, Full: 1}},
	}
	if diff := cmp.Diff(want, adv.About); diff != "" {
		t.Error(diff)
	}
	for _, about := range adv.About {
		if n := about.Hosts.Total(); n != 4 {
			t.Errorf("%s: %d hosts of 4", about.Queue, n)
		}
	}
	if n := adv.About[0].Queued(); n != 2 {
		t.Errorf("%d wait, want 2", n)
	}
	work["a"] = Progress{} // the work went
	adv, _ = a.next(at(40), func(q compute.QueueName) Progress { return work[q] })
	if diff := cmp.Diff(compute.HostCounts{Eligible: 3, Full: 1}, adv.About[0].Hosts); diff != "" {
		t.Error(diff)
	}
}
