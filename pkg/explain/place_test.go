// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// TestWhatIsAheadGoesWhereItIsInTheWay, as it may when the mix is booted; the hosts that are left come by name.
func TestWhatIsAheadGoesWhereItIsInTheWay(t *testing.T) {
	hosts := []Host{host("h1", 2), host("h3", 2, traits("CUSTOM_GPU")), host("h2", 0)}
	got := Fill([]Kind{kind(1, 2)}, []Kind{kind(1, 2, "CUSTOM_GPU"), kind(1, 2)}, hosts)
	if !slices.Equal(got.Fits, []int64{0, 1}) {
		t.Errorf("%v fit", got.Fits)
	}
	var names []compute.HostID
	for _, h := range got.Left {
		names = append(names, h.Beacon.Host)
	}
	if !slices.Equal(names, []compute.HostID{"h1", "h2", "h3"}) {
		t.Errorf("left are %v", names)
	}
}

// TestTheLargerGoesFirst where as many hosts can take either: a part of the class of which there is least counts.
func TestTheLargerGoesFirst(t *testing.T) {
	for _, mix := range [][]Kind{{kind(4, 2), kind(1, 8)}, {kind(1, 8), kind(4, 2)}} {
		for i, n := range Fill(nil, mix, []Host{host("h1", 8)}).Fits {
			if large := mix[i].Count == 1; large != (n == 1) {
				t.Errorf("%d of %+v fit", n, mix[i].Resources)
			}
		}
	}
}

// TestBestToGo frees most of what is short, counted as a part of that, and is then the one that has least of it.
func TestBestToGo(t *testing.T) {
	cpus := func(n int, vcpus int64) *compute.Instance { return machine(n, compute.Resources{compute.VCPU: vcpus}) }
	both := func(n int, vcpus, memory int64) *compute.Instance {
		return machine(n, compute.Resources{compute.VCPU: vcpus, compute.MemoryMB: memory})
	}
	short := compute.Resources{compute.VCPU: 4}
	two := func(vcpus, memory int64) compute.Resources { return both(0, vcpus, memory).Resources }
	for name, c := range map[string]struct {
		there []*compute.Instance
		short compute.Resources
		want  int
	}{
		"none": {nil, short, -1},
		"none that helps": {
			[]*compute.Instance{cpus(1, 0), machine(2, compute.Resources{compute.MemoryMB: 9})}, short, -1},
		"most":                {[]*compute.Instance{cpus(1, 1), cpus(2, 3), cpus(3, 2)}, short, 1},
		"the larger first":    {[]*compute.Instance{cpus(1, 8), cpus(2, 4)}, short, 1},
		"the smaller first":   {[]*compute.Instance{cpus(1, 4), cpus(2, 8)}, short, 0},
		"a small one":         {[]*compute.Instance{cpus(1, 4), cpus(2, 1)}, short, 0},
		"alike":               {[]*compute.Instance{cpus(2, 4), cpus(1, 4), cpus(3, 4)}, short, 1},
		"a larger lower id":   {[]*compute.Instance{cpus(2, 4), cpus(1, 8)}, short, 0},
		"of another class":    {[]*compute.Instance{cpus(1, 8), both(2, 4, 99)}, short, 1},
		"short of one":        {[]*compute.Instance{cpus(1, 2), cpus(2, 1)}, compute.Resources{compute.VCPU: 1}, 1},
		"as a part":           {[]*compute.Instance{cpus(1, 1), both(2, 0, 500)}, two(1, 1000), 0},
		"the larger part":     {[]*compute.Instance{cpus(1, 4), both(2, 0, 150)}, two(2, 100), 1},
		"some of two classes": {[]*compute.Instance{cpus(1, 4), both(2, 3, 3)}, two(4, 4), 1},
	} {
		if got := bestToGo(c.there, c.short); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestToGoLeavesItsPiece: what a machine had in one piece another may have when it is gone.
func TestToGoLeavesItsPiece(t *testing.T) {
	h := host("h1", 4, func(h *Host) { h.Beacon.Largest = compute.Resources{compute.VCPU: 2} })
	w := Wanted{Resources: compute.Resources{compute.VCPU: 4}}
	if got := ToGo(w, h, []*compute.Instance{machine(1, compute.Resources{compute.VCPU: 4})}); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// TestLargestOfAPool is the kind of which one machine takes the largest part, in whatever order they are asked about.
func TestLargestOfAPool(t *testing.T) {
	small, large, none := kind(1, 2).Wanted, kind(1, 4).Wanted, kind(1, 8).Wanted
	for want, asked := range [][]Wanted{{large, small, none}, {small, large}, {none, small, large}} {
		if got := pool(Wanted{}, asked, nil, []Host{host("h1", 4)}).Largest; got != want {
			t.Errorf("of %v: %d, want %d", asked, got, want)
		}
	}
}

// TestMembersMoreCountInTheirValue, too: what a skew leaves room for grows less.
func TestMembersMoreCountInTheirValue(t *testing.T) {
	three := func(compute.AxisValue) uint32 { return 3 }
	g := &Group{
		Rule: compute.Group{Name: "web", Policy: compute.SpreadOnly, Spread: "rack", Skew: 3}, Value: "a",
		Even: compute.Even{Skew: 3, Values: []compute.AxisValue{"a", "b"}, There: three, Stay: three},
	}
	more := g.with(map[compute.HostID]uint32{"h1": 1, "h2": 1})
	full := more.with(map[compute.HostID]uint32{"h1": 1})
	if g.atMost() != 3 || more.atMost() != 1 || more.uneven() != "" || full.uneven() == "" {
		t.Errorf("%d may come, and %d with two more", g.atMost(), more.atMost())
	}
}
