// SPDX-License-Identifier: Apache-2.0

package cover

import (
	"slices"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// TestTheQueueThatCovers a set: the smallest open one whose machine has as much of all, on hosts that each of the set
// may have; one that asks more of hosts, or has what nobody needs, only if there is no other.
func TestTheQueueThatCovers(t *testing.T) {
	amounts := func(cpus, memory, gpus int64) compute.Resources {
		r := compute.Resources{compute.VCPU: cpus, compute.MemoryMB: memory}
		if gpus > 0 {
			r["CUSTOM_GPU"] = gpus
		}
		return r
	}
	queue := func(name compute.QueueName, r compute.Resources, required ...compute.Trait) compute.Queue {
		return compute.Queue{Name: name, Resources: r, Required: required}
	}
	forbids := queue("forbids", amounts(4, 4, 0))
	forbids.Forbidden = []compute.Trait{"SLOW"}
	closed := queue("closed", amounts(4, 4, 0))
	closed.State = compute.QueueClosed
	part := func(r compute.Resources, required ...compute.Trait) *compute.Instance {
		return &compute.Instance{
			Project: "p", Resources: r, Required: required,
			Boot: compute.Boot{Rules: compute.InGroup("near")},
		}
	}
	two, gpu, ssd := part(amounts(2, 2, 0)), part(amounts(2, 2, 1)), part(amounts(2, 2, 0), "SSD")
	elsewhere, pinned, wordy := *two, *two, *two
	elsewhere.Boot.Rules = compute.InGroup("other")
	pinned.Boot.Host = "h1"
	wordy.Boot.UserData = compute.UserData(strings.Repeat("x", MostText+1))
	high := *two
	high.Boot.Rules = compute.RulesOf("near", compute.Set{}, compute.PriorityHigh)
	slow := *two
	slow.Forbidden = []compute.Trait{"SLOW"}
	small, exact, more := queue("small", amounts(2, 8, 0)), queue("exact", amounts(4, 4, 0)), queue("more", amounts(4, 5, 0))
	tier := exact.Tier(compute.PriorityHigh)
	for name, c := range map[string]struct {
		queues []compute.Queue
		insts  []*compute.Instance
		want   compute.QueueName
	}{
		"the smallest":             {[]compute.Queue{small, more, exact}, []*compute.Instance{two, two}, "exact"},
		"none is large enough":     {[]compute.Queue{small, exact}, []*compute.Instance{two, two, two}, ""},
		"two alike":                {[]compute.Queue{queue("b", amounts(4, 4, 0)), exact}, []*compute.Instance{two, two}, "b"},
		"none is open":             {[]compute.Queue{closed}, []*compute.Instance{two, two}, ""},
		"rather larger than picky": {[]compute.Queue{queue("picky", amounts(4, 4, 0), "SSD"), more}, []*compute.Instance{two, two}, "more"},
		"rather larger than a GPU": {[]compute.Queue{queue("gpu", amounts(4, 4, 1)), more}, []*compute.Instance{two, two}, "more"},
		"picky, for want of other": {[]compute.Queue{queue("picky", amounts(4, 4, 0), "SSD")}, []*compute.Instance{two, two}, "picky"},
		"one needs a GPU":          {[]compute.Queue{exact, queue("gpu", amounts(8, 8, 1))}, []*compute.Instance{two, gpu}, "gpu"},
		"one needs a trait":        {[]compute.Queue{exact, queue("ssd", amounts(8, 8, 0), "SSD")}, []*compute.Instance{ssd, two}, "ssd"},
		"one forbids a trait":      {[]compute.Queue{exact, forbids}, []*compute.Instance{two, &slow}, "forbids"},
		"one is of another group":  {[]compute.Queue{exact}, []*compute.Instance{two, &elsewhere}, ""},
		"one is for a host":        {[]compute.Queue{exact}, []*compute.Instance{two, &pinned}, ""},
		"one is of another class":  {[]compute.Queue{exact, tier}, []*compute.Instance{two, &high}, ""},
		"all are of one class":     {[]compute.Queue{exact, tier}, []*compute.Instance{&high, &high}, tier.Name},
		"their class has no tier":  {[]compute.Queue{exact}, []*compute.Instance{&high, &high}, ""},
		"too much text":            {[]compute.Queue{exact}, []*compute.Instance{two, &wordy}, ""},
	} {
		near := compute.Group{Project: "p", Name: "near", Policy: compute.Affinity}
		none := func(compute.QueueName) bool { return false }
		if got := Queue(slices.Values(c.queues), near, none, c.insts); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		soft := near
		soft.Policy = compute.SoftAffinity
		all := func(compute.QueueName) bool { return true }
		if Queue(slices.Values(c.queues), soft, none, c.insts)+Queue(slices.Values(c.queues), near, all, c.insts) != "" {
			t.Errorf("%s: though the rule is soft, or each queue too large", name)
		}
	}
}
