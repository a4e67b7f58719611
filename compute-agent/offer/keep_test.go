// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// What a machine needs is kept before there is room for it: of what is short less than nothing is left.
func TestKeep(t *testing.T) {
	host := Terms{}.Offer(compute.Inventory{Totals: compute.Resources{compute.VCPU: 10, compute.MemoryMB: 100}}, nil, nil)
	needs := compute.Resources{compute.VCPU: 8, compute.MemoryMB: 10}
	for used, left := range map[int64]int64{0: 2, 2: 0, 6: -4} {
		room := host.Room(Held{Resources: compute.Resources{compute.VCPU: used}})
		kept := room.Keep(needs)
		if got := kept.Free(); got[compute.VCPU] != left || got[compute.MemoryMB] != 90 {
			t.Errorf("%d in use: %v is left", used, got)
		}
		if small := (compute.Resources{compute.VCPU: 1}); kept.Fits(small) != (left > 0) {
			t.Errorf("%d in use: a small one fits: %t", used, left <= 0)
		}
		if !kept.Fits(compute.Resources{compute.MemoryMB: 90}) {
			t.Errorf("%d in use: what needs no processor does not fit", used)
		}
	}
}

// On a host with nodes the one that lacks least is kept, and small machines go to the other.
func TestKeepOneNode(t *testing.T) {
	host := numaHost(Terms{OneNode: true})
	room := host.Room(
		Held{Resources: compute.Resources{compute.VCPU: 3}, Place: compute.Place{Nodes: []int{0}}},
		Held{Resources: compute.Resources{compute.VCPU: 1}, Place: compute.Place{Nodes: []int{1}}},
	)
	kept := room.Keep(compute.Resources{compute.VCPU: 4})
	place, rest, ok := kept.Allocate(compute.Resources{compute.VCPU: 1}, compute.Place{Nodes: []int{1}})
	if !ok || place.Nodes[0] != 0 {
		t.Fatalf("a small one goes to %v, %t", place, ok)
	}
	if rest.Fits(compute.Resources{compute.VCPU: 1}) {
		t.Error("another takes from the node that is kept")
	}
}

// Of devices those that there are are kept, with what excludes them; the others are owed.
func TestKeepDevices(t *testing.T) {
	host := numaHost(Terms{})
	room := host.Room(Held{
		Resources: compute.Resources{wholeClass: 1}, Place: compute.Place{Devices: []compute.PCIAddress{"0000:01:00.0"}},
	})
	before := room.Free().Clone()
	kept := room.Keep(compute.Resources{wholeClass: 2, compute.VCPU: 1})
	if diff := cmp.Diff(before, room.Free()); diff != "" {
		t.Errorf("it has changed what there was: %s", diff)
	}
	for class, n := range map[compute.ResourceClass]int64{wholeClass: -1, partClass: 0, compute.VCPU: 7} {
		if got := kept.Free()[class]; got != n {
			t.Errorf("%d %s are left, want %d", got, class, n)
		}
	}
	if kept.Fits(compute.Resources{partClass: 1}) {
		t.Error("a part of the card that is kept may be had")
	}
}

// What is owed of devices, or of processors beside them, is owed once.
func TestKeepOwesOnce(t *testing.T) {
	all := Held{
		Resources: compute.Resources{wholeClass: 2},
		Place:     compute.Place{Devices: []compute.PCIAddress{"0000:01:00.0", "0000:02:00.0"}},
	}
	if got := numaHost(Terms{}).Room(all).Keep(compute.Resources{wholeClass: 1}).Free()[wholeClass]; got != -1 {
		t.Errorf("%d cards are left", got)
	}
	busy := numaHost(Terms{}).Room(Held{Resources: compute.Resources{compute.VCPU: 5}})
	got := busy.Keep(compute.Resources{wholeClass: 1, compute.VCPU: 4}).Free()
	if got[wholeClass] != 1 || got[compute.VCPU] != -1 {
		t.Errorf("left are %v", got)
	}
}

// On which node is kept what a machine needs: where it fits it is as it would be placed; else on the node of which the
// smallest part is missing, and no more than there is.
func TestKeepOnWhichNode(t *testing.T) {
	const all = 8192 // MiB of a node
	for what, c := range map[string]struct {
		used  [2]compute.Resources
		needs compute.Resources
		left  [2]int64 // processors on each node
	}{
		"it fits on both": {[2]compute.Resources{{}, {compute.VCPU: 1}}, compute.Resources{compute.VCPU: 2}, [2]int64{4, 1}},
		"full nodes": {[2]compute.Resources{{compute.VCPU: 4}, {compute.VCPU: 4}}, compute.Resources{compute.VCPU: 4},
			[2]int64{0, 0}},
		"no memory anywhere, and none needed": {
			[2]compute.Resources{{compute.VCPU: 3, compute.MemoryMB: all}, {compute.VCPU: 1, compute.MemoryMB: all}},
			compute.Resources{compute.VCPU: 4}, [2]int64{1, 0},
		},
		"parts count": {
			[2]compute.Resources{{compute.VCPU: 3}, {compute.MemoryMB: 1000}},
			compute.Resources{compute.VCPU: 4, compute.MemoryMB: all}, [2]int64{1, 0},
		},
	} {
		h := numaHost(Terms{OneNode: true})
		needs := c.needs.Clone()
		kept := h.Room(Held{c.used[0], compute.Place{Nodes: []int{0}}},
			Held{c.used[1], compute.Place{Nodes: []int{1}}}).Keep(needs)
		if got := [2]int64{kept.nodes[0].free[compute.VCPU], kept.nodes[1].free[compute.VCPU]}; got != c.left {
			t.Errorf("%s: processors left on nodes are %v, want %v", what, got, c.left)
		}
		if sum := kept.Free()[compute.VCPU]; sum != c.left[0]+c.left[1] {
			t.Errorf("%s: of all %d are left", what, sum)
		}
		if diff := cmp.Diff(c.needs, needs); diff != "" {
			t.Errorf("%s: it has changed what it was given: %s", what, diff)
		}
	}
}
