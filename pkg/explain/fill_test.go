// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

func kind(count, processors int64, required ...compute.Trait) Kind {
	return Kind{Wanted: Wanted{Resources: compute.Resources{compute.VCPU: processors}, Required: required}, Count: count}
}

// TestTogetherAndAlone: two that fit alone do not fit together, and those that few hosts can take are not kept out by
// those that many can.
func TestTogetherAndAlone(t *testing.T) {
	gpu := traits("CUSTOM_GPU")
	for name, c := range map[string]struct {
		ahead, mix []Kind
		hosts      []Host
		want       []int64
	}{
		"alone":                        {nil, []Kind{kind(1, 5)}, []Host{host("h1", 8)}, []int64{1}},
		"together":                     {nil, []Kind{kind(1, 5), kind(1, 4)}, []Host{host("h1", 8)}, []int64{1, 0}},
		"on two hosts":                 {nil, []Kind{kind(1, 5), kind(1, 4)}, []Host{host("h1", 8), host("h2", 4)}, []int64{1, 1}},
		"the larger first":             {nil, []Kind{kind(2, 2), kind(1, 8)}, []Host{host("h1", 8), host("h2", 4)}, []int64{2, 1}},
		"the choosy first":             {nil, []Kind{kind(1, 8), kind(1, 1, "CUSTOM_GPU")}, []Host{host("h1", 8, gpu), host("h2", 8)}, []int64{1, 1}},
		"what waits before":            {[]Kind{kind(3, 2)}, []Kind{kind(2, 2)}, []Host{host("h1", 8)}, []int64{1}},
		"more waits than there is for": {[]Kind{kind(9, 2)}, []Kind{kind(2, 2)}, []Host{host("h1", 8)}, []int64{0}},
		"no host":                      {nil, []Kind{kind(2, 2)}, nil, []int64{0}},
		"none that may":                {nil, []Kind{kind(2, 2)}, []Host{host("h1", 8, silent), host("h2", 8, in(compute.HostDraining, ""))}, []int64{0}},
	} {
		if got := Fill(c.ahead, c.mix, c.hosts).Fits; !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

var (
	someTraits = []compute.Trait{"CUSTOM_A", "CUSTOM_B"}
	classes    = []compute.ResourceClass{compute.VCPU, compute.MemoryMB, "CUSTOM_GPU"}
)

func anyAmounts(rt *rapid.T, least, most int64, what string) compute.Resources {
	out := compute.Resources{}
	for _, c := range classes {
		if n := rapid.Int64Range(least, most).Draw(rt, what+" "+string(c)); n != 0 {
			out[c] = n
		}
	}
	return out
}

func anyHost(rt *rapid.T, n int) Host {
	all := anyAmounts(rt, 0, 20, "all")
	b := &compute.Beacon{
		Host: compute.HostID(fmt.Sprintf("h%d", n)), Inventory: compute.Inventory{Totals: all}, Free: compute.Resources{},
		State: rapid.SampledFrom([]compute.HostState{
			compute.HostEnabled, compute.HostEnabled, compute.HostEnabled, compute.HostDisabled,
		}).Draw(rt, "state"),
	}
	for c, most := range all {
		b.Free[c] = rapid.Int64Range(0, most).Draw(rt, "free")
	}
	if rapid.Bool().Draw(rt, "in pieces") {
		b.Largest = compute.Resources{compute.VCPU: rapid.Int64Range(0, 8).Draw(rt, "piece")}
	}
	b.Inventory.Traits = rapid.SliceOfDistinct(rapid.SampledFrom(someTraits), rapid.ID[compute.Trait]).Draw(rt, "traits")
	return Host{Beacon: b, Silent: rapid.IntRange(0, 5).Draw(rt, "silent") == 0}
}

func anyKind(rt *rapid.T) Kind {
	w := Wanted{Resources: anyAmounts(rt, 0, 6, "wanted")}
	if w.Resources.IsZero() {
		w.Resources[compute.VCPU] = 1
	}
	w.Required = rapid.SliceOfN(rapid.SampledFrom(someTraits), 0, 1).Draw(rt, "required")
	w.Forbidden = rapid.SliceOfN(rapid.SampledFrom(someTraits), 0, 1).Draw(rt, "forbidden")
	w.Avoid = rapid.SliceOfN(rapid.SampledFrom([]compute.HostID{"h0", "h1"}), 0, 1).Draw(rt, "avoid")
	if rapid.IntRange(0, 4).Draw(rt, "pinned") == 0 {
		w.Host = "h1"
	}
	w.Group = anyGroup(rt)
	return Kind{Wanted: w, Count: rapid.Int64Range(1, 9).Draw(rt, "count")}
}

// takes says whether a host has room for one more, in the plainest way.
func takes(h Host, free compute.Resources, w Wanted) bool {
	b := h.Beacon
	if h.Silent || b.State != compute.HostEnabled || slices.Contains(w.Avoid, b.Host) || w.Host != "" && w.Host != b.Host {
		return false
	}
	for _, t := range someTraits {
		has := slices.Contains(b.Inventory.Traits, t)
		if slices.Contains(w.Required, t) && !has || slices.Contains(w.Forbidden, t) && has {
			return false
		}
	}
	for c, n := range w.Resources {
		if piece, bounded := b.Largest[c]; n > free[c] || bounded && n > piece {
			return false
		}
	}
	return true
}

// TestWhatIsSaidToFitFits: put on the hosts one by one each of them has room, there is room for none of those that are
// said not to fit, and alone no fewer of a kind fit than together.
func TestWhatIsSaidToFitFits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var hosts []Host
		for n := range rapid.IntRange(0, 5).Draw(rt, "hosts") {
			hosts = append(hosts, anyHost(rt, n))
		}
		mix := rapid.SliceOfN(rapid.Custom(anyKind), 1, 4).Draw(rt, "mix")
		ahead := rapid.SliceOfN(rapid.Custom(anyKind), 0, 2).Draw(rt, "ahead")
		by, free := map[compute.HostID]Host{}, map[compute.HostID]compute.Resources{}
		for _, h := range hosts {
			by[h.Beacon.Host], free[h.Beacon.Host] = h, h.Beacon.Free.Clone()
		}
		got, there := Fill(ahead, mix, hosts), make([]int64, len(mix))
		members := map[*Group]map[compute.HostID]int64{} // that were put on hosts
		for _, k := range slices.Concat(ahead, mix) {
			members[k.Group] = map[compute.HostID]int64{}
		}
		for _, p := range got.puts {
			for range p.count {
				if !takes(by[p.host], free[p.host], p.Wanted) {
					rt.Fatalf("%+v does not fit on %s, where %v is free", p.Wanted, p.host, free[p.host])
				}
				if !rules(p.Group, members[p.Group], p.host) {
					rt.Fatalf("%+v breaks its rule on %s, beside %v", p.Group, p.host, members[p.Group])
				}
				free[p.host] = free[p.host].Minus(p.Resources)
				members[p.Group][p.host]++
			}
			if p.kind >= 0 {
				there[p.kind] += p.count
			}
		}
		for _, h := range got.Left {
			if !h.Beacon.Free.Equal(free[h.Beacon.Host]) {
				rt.Fatalf("on %s %v is left, and it says %v", h.Beacon.Host, free[h.Beacon.Host], h.Beacon.Free)
			}
		}
		if len(got.Left) != len(hosts) {
			rt.Fatalf("%d hosts became %d", len(hosts), len(got.Left))
		}
		for i, k := range mix {
			if got.Fits[i] != there[i] || got.Fits[i] > k.Count || got.Fits[i] > Hosts(k.Wanted, hosts).Room {
				rt.Fatalf("%d of %+v", got.Fits[i], k)
			}
			if alone := Fill(nil, mix[i:i+1], hosts).Fits[0]; alone != min(k.Count, Hosts(k.Wanted, hosts).Room) {
				rt.Fatalf("alone %d of %+v", alone, k)
			}
			for h := range maps.Keys(by) {
				if got.Fits[i] < k.Count && takes(by[h], free[h], k.Wanted) && rules(k.Group, members[k.Group], h) {
					rt.Fatalf("%d of %+v, and one more has room on %s, where %v is free", got.Fits[i], k, h, free[h])
				}
			}
		}
	})
}

// TestFillJudgesEachHostAFewTimes: the work grows with kinds times hosts, and no faster.
func TestFillJudgesEachHostAFewTimes(t *testing.T) {
	const kinds, hosts = 64, 1000
	var mix, ahead []Kind
	for i := range kinds {
		mix, ahead = append(mix, kind(1, int64(i%7+1))), append(ahead, kind(1, int64(i%5+1)))
	}
	var all []Host
	for i := range hosts {
		all = append(all, host(fmt.Sprintf("h%04d", (i*7)%hosts), int64(i%3))) // few have room
	}
	judged := 0
	fill(func(w Wanted, h Host) Standing { judged++; return w.At(h) }, ahead, mix, all)
	if most := (3*kinds + kinds) * hosts; judged > most {
		t.Errorf("hosts are judged %d times, %d at most", judged, most)
	}
}

// TestToGoIsBounded: what would take more machines to go than anybody counts is not searched for.
func TestToGoIsBounded(t *testing.T) {
	const machines = 2000
	h := Host{Beacon: &compute.Beacon{
		Host: "h1", Free: compute.Resources{}, Inventory: compute.Inventory{Totals: compute.Resources{compute.VCPU: machines}},
	}}
	var there []*compute.Instance
	for i := range machines {
		there = append(there, machine(i, compute.Resources{compute.VCPU: 1}))
	}
	for processors, want := range map[int64]int{1: 1, MostToGo: MostToGo, MostToGo + 1: 0, machines: 0} {
		if got := ToGo(Wanted{Resources: compute.Resources{compute.VCPU: processors}}, h, there); len(got) != want {
			t.Errorf("for %d: %d go, want %d", processors, len(got), want)
		}
	}
}

func machine(n int, r compute.Resources) *compute.Instance {
	return &compute.Instance{ID: compute.InstanceID(fmt.Sprintf("%04d", n)), Resources: r}
}

// TestToGoLeavesOutWhatIsNeedless: what helps most at first may be needless in the end.
func TestToGoLeavesOutWhatIsNeedless(t *testing.T) {
	h := Host{Beacon: &compute.Beacon{
		Host: "h1", Free: compute.Resources{},
		Inventory: compute.Inventory{Totals: compute.Resources{compute.VCPU: 8, compute.MemoryMB: 8}},
	}}
	there := []*compute.Instance{
		machine(1, compute.Resources{compute.VCPU: 3, compute.MemoryMB: 3}),
		machine(2, compute.Resources{compute.VCPU: 4}), machine(3, compute.Resources{compute.MemoryMB: 4}),
	}
	got := ToGo(Wanted{Resources: compute.Resources{compute.VCPU: 4, compute.MemoryMB: 4}}, h, there)
	if len(got) != 2 || got[0].ID != "0002" || got[1].ID != "0003" {
		t.Errorf("%v", got)
	}
}

// TestToGo: without them it fits, and with any one of them it does not; where one class is short there are no fewer.
func TestToGo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := anyHost(rt, 0)
		w := Wanted{Resources: anyAmounts(rt, 0, 12, "wanted")}
		var there []*compute.Instance
		for n := range rapid.IntRange(0, 5).Draw(rt, "machines") {
			m := machine(n, anyAmounts(rt, 0, 5, "has"))
			there = append(there, m)
			h.Beacon.Inventory.Totals = h.Beacon.Inventory.Totals.Plus(m.Resources)
		}
		without := func(gone []*compute.Instance) bool {
			b := *h.Beacon
			b.Largest = b.Largest.Clone()
			for _, m := range gone {
				b.Free = b.Free.Plus(m.Resources)
				for c := range b.Largest {
					b.Largest[c] = max(b.Largest[c], m.Resources[c])
				}
			}
			return w.At(Host{Beacon: &b, Silent: h.Silent}).Now()
		}
		got := ToGo(w, h, there)
		if w.At(h) != Full {
			if got != nil {
				rt.Fatalf("%v go, and it is %s", got, w.At(h))
			}
			return
		}
		least := -1 // of all subsets
		for set := range 1 << len(there) {
			var gone []*compute.Instance
			for i, m := range there {
				if set&(1<<i) != 0 {
					gone = append(gone, m)
				}
			}
			if without(gone) && (least < 0 || len(gone) < least) {
				least = len(gone)
			}
		}
		switch oneClass := len(beyond(w.Resources, h.Beacon.Free, h.Beacon.Largest)) == 1 && h.Beacon.Largest == nil; {
		case got == nil && least >= 0 && h.Beacon.Largest == nil:
			rt.Fatalf("nothing is found, and %d are enough", least)
		case got == nil:
			return
		case !without(got):
			rt.Fatalf("without %v it does not fit", got)
		case oneClass && len(got) != least:
			rt.Fatalf("%d go, and %d are enough", len(got), least)
		}
		for i := range got {
			if without(slices.Delete(slices.Clone(got), i, i+1)) {
				rt.Fatalf("%v could stay", got[i])
			}
		}
	})
}
