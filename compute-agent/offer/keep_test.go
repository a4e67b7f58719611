// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"testing"

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
	kept := room.Keep(compute.Resources{wholeClass: 2, compute.VCPU: 1})
	for class, n := range map[compute.ResourceClass]int64{wholeClass: -1, partClass: 0, compute.VCPU: 7} {
		if got := kept.Free()[class]; got != n {
			t.Errorf("%d %s are left, want %d", got, class, n)
		}
	}
	if kept.Fits(compute.Resources{partClass: 1}) {
		t.Error("a part of the card that is kept may be had")
	}
}
