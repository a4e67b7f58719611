// SPDX-License-Identifier: Apache-2.0

package cover

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	gpus := func(name compute.QueueName, cpus, gpus int64) compute.Queue {
		return queue(name, amounts(cpus, 4, gpus))
	}
	noGPU := queue("none", amounts(4, 4, 0))
	noGPU.Resources["CUSTOM_GPU"] = 0
	pickier := queue("a", amounts(4, 4, 0), "SSD")
	pickier.Forbidden = []compute.Trait{"SLOW"}
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
		"larger than forbidding":   {[]compute.Queue{forbids, more}, []*compute.Instance{two, two}, "more"},
		"the less picky": {[]compute.Queue{pickier, queue("b", amounts(4, 4, 0), "SSD")},
			[]*compute.Instance{two, two}, "b"},
		"the smaller, though last": {[]compute.Queue{queue("a", amounts(4, 5, 0)), queue("b", amounts(4, 4, 0))},
			[]*compute.Instance{two, two}, "b"},
		"rather a GPU than huge": {[]compute.Queue{gpus("gpu", 4, 1), gpus("large", 16, 0)}, []*compute.Instance{two, two},
			"gpu"},
		"no GPU is none":    {[]compute.Queue{more, noGPU}, []*compute.Instance{two, two}, "none"},
		"four GPUs for one": {[]compute.Queue{gpus("a", 4, 4), gpus("b", 14, 1)}, []*compute.Instance{two, gpu}, "b"},
		"one alone":         {[]compute.Queue{exact, small}, []*compute.Instance{two}, "exact"},
		"one needs a GPU": {[]compute.Queue{exact, queue("gpu", amounts(8, 8, 1))}, []*compute.Instance{two, gpu},
			"gpu"},
		"one needs a trait": {[]compute.Queue{exact, queue("ssd", amounts(8, 8, 0), "SSD")},
			[]*compute.Instance{ssd, two}, "ssd"},
		"one forbids a trait":     {[]compute.Queue{exact, forbids}, []*compute.Instance{two, &slow}, "forbids"},
		"one is of another group": {[]compute.Queue{exact}, []*compute.Instance{two, &elsewhere}, ""},
		"one is for a host":       {[]compute.Queue{exact}, []*compute.Instance{two, &pinned}, ""},
		"one is of another class": {[]compute.Queue{exact, tier}, []*compute.Instance{two, &high}, ""},
		"all are of one class":    {[]compute.Queue{exact, tier}, []*compute.Instance{&high, &high}, tier.Name},
		"their class has no tier": {[]compute.Queue{exact}, []*compute.Instance{&high, &high}, ""},
		"too much text":           {[]compute.Queue{exact}, []*compute.Instance{two, &wordy}, ""},
	} {
		near := compute.Group{Project: "p", Name: "near", Policy: compute.Affinity}
		none := func(compute.QueueName) bool { return false }
		got := Queue(slices.Values(c.queues), near, none, c.insts)
		slices.Reverse(c.queues)
		if again := Queue(slices.Values(c.queues), near, none, c.insts); got != c.want || again != c.want {
			t.Errorf("%s: %q, in the other order %q, want %q", name, got, again, c.want)
		}
		soft, rack, even := near, near, near
		soft.Policy, rack.Over, even.Skew = compute.SoftAffinity, "rack", 1
		for _, rule := range []compute.Group{soft, rack, even} {
			if got := Queue(slices.Values(c.queues), rule, none, c.insts); got != "" {
				t.Errorf("%s: %q, though the rule is %+v", name, got, rule)
			}
		}
		all := func(compute.QueueName) bool { return true }
		if got := Queue(slices.Values(c.queues), near, all, c.insts); got != "" {
			t.Errorf("%s: %q, though each queue is too large", name, got)
		}
	}
}

// A trait that several need is asked of the host once.
func TestSum(t *testing.T) {
	var insts []*compute.Instance
	for _, traits := range [][]compute.Trait{{"SSD", "FAST"}, {"SSD"}, {"FAST"}} {
		insts = append(insts, &compute.Instance{
			Resources: compute.Resources{compute.VCPU: 2}, Required: traits, Forbidden: traits,
		})
	}
	want := compute.Queue{
		Resources: compute.Resources{compute.VCPU: 6}, Priority: insts[0].Boot.Priority(),
		Required: []compute.Trait{"FAST", "SSD"}, Forbidden: []compute.Trait{"FAST", "SSD"},
	}
	if diff := cmp.Diff(want, Sum(insts)); diff != "" {
		t.Error(diff)
	}
}

// Whatever may be long in a request counts as text, up to the last byte.
func TestTextThatARecordHasRoomFor(t *testing.T) {
	words := compute.Boot{
		Name: "a", Image: "bc", UserData: "def", Sealed: "ghij", Metadata: map[string]string{"klmno": "pqrstu"},
		SSHKeys: []string{"vwxyzab"}, Avoid: []compute.HostID{"cdefghij"},
	}
	const size = 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8
	for _, more := range []int{0, 1} {
		first, second := compute.Instance{Boot: words}, compute.Instance{}
		first.Boot.Rules, second.Boot.Rules = compute.InGroup("near"), compute.InGroup("near")
		second.Boot.UserData = compute.UserData(strings.Repeat("x", MostText-size+more))
		near := compute.Group{Name: "near", Policy: compute.Affinity}
		if got := together(near, []*compute.Instance{&first, &second}); got != (more == 0) {
			t.Errorf("%d bytes more than there is room for: together %t", more, got)
		}
	}
}
