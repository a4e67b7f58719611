// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

func movable(cpus ...int64) (out []Movable) {
	for i, n := range cpus { // the later ones are younger
		out = append(out, Movable{
			Held:     Held{Resources: compute.Resources{compute.VCPU: n, compute.MemoryMB: n * 1024}},
			Instance: compute.InstanceID(fmt.Sprintf("m%d-%d", i, n)), Since: time.Unix(int64(i), 0),
		})
	}
	return out
}

// takenBefore says how often each was taken before.
func takenBefore(ms []Movable, times ...uint32) []Movable {
	for i, n := range times {
		ms[i].Taken = n
	}
	return ms
}

func ofCPUs(n int64) Host {
	return Terms{}.Offer(compute.Inventory{Totals: compute.Resources{compute.VCPU: n, compute.MemoryMB: n * 1024}}, nil, nil)
}

func TestPreemptChooses(t *testing.T) {
	for name, c := range map[string]struct {
		host    int64
		kept    int64
		movable []Movable
		needs   int64
		want    []compute.InstanceID
	}{
		"nothing, where there is room":        {16, 4, movable(4, 4), 4, nil},
		"nothing, where all would not do":     {16, 12, movable(2, 2), 8, nil},
		"one, and the youngest":               {16, 0, movable(4, 4, 4, 4), 4, []compute.InstanceID{"m3-4"}},
		"one rather than two":                 {16, 0, movable(8, 2, 2, 2, 2), 4, []compute.InstanceID{"m0-8"}},
		"the smallest that will do":           {16, 0, movable(8, 5, 3), 4, []compute.InstanceID{"m1-5"}},
		"what is free beside":                 {16, 3, movable(8, 2, 1), 4, []compute.InstanceID{"m1-2"}},
		"two with least together":             {16, 0, movable(6, 5, 4, 1), 9, []compute.InstanceID{"m1-5", "m2-4"}},
		"no more than is needed":              {16, 0, movable(4, 4, 4, 4), 8, []compute.InstanceID{"m3-4", "m2-4"}},
		"what is kept, even where it is more": {8, 10, movable(4), 1, nil},

		"one that was not taken before, though it is older": {16, 0, takenBefore(movable(4, 4, 4, 4), 0, 0, 1, 2), 4,
			[]compute.InstanceID{"m1-4"}},
		"one rather than two that were not taken before": {16, 0, takenBefore(movable(8, 4, 4), 9), 8,
			[]compute.InstanceID{"m0-8"}},
		"the smaller, though it was taken before": {16, 0, takenBefore(movable(8, 5, 3), 0, 1, 0), 4,
			[]compute.InstanceID{"m1-5"}},
		"two alike": {11, 0, movable(3, 3, 5), 6, []compute.InstanceID{"m0-3", "m1-3"}},
		"two with least together, though they were taken more often": {
			42, 0, takenBefore(movable(8, 11, 11, 12), 0, 1, 1, 3), 20, []compute.InstanceID{"m0-8", "m3-12"}},
		"two taken least together": {20, 0, takenBefore(movable(6, 4, 7, 3), 0, 5, 1, 1), 10,
			[]compute.InstanceID{"m2-7", "m3-3"}},
	} {
		t.Run(name, func(t *testing.T) {
			kept := Held{Resources: compute.Resources{compute.VCPU: c.kept, compute.MemoryMB: c.kept * 1024}}
			needs := compute.Resources{compute.VCPU: c.needs, compute.MemoryMB: c.needs * 1024}
			got := ofCPUs(c.host).Preempt([]Held{kept}, c.movable, needs)
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("%v go, want %v", got, c.want)
			}
		})
	}
}

// Whatever the host has on it: where something goes, the work fits without it and not without any one of it, nothing
// else would do with fewer, nor with as few that have less of the host or were taken less often; and where nothing
// goes nothing has to or nothing would do.
func TestPreemptIsNeverMoreThanIsNeeded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		nodes := []compute.NUMANode{
			{ID: 0, CPUs: []int{0, 1, 2, 3}, MemoryMB: 4096}, {ID: 1, CPUs: []int{4, 5, 6, 7}, MemoryMB: 4096},
		}
		devices := []compute.PCIDevice{
			{Address: "0000:01:00.0", Vendor: 0x10de, Device: 0x2230, Driver: "vfio-pci", Node: 0},
			{Address: "0000:02:00.0", Vendor: 0x10de, Device: 0x2230, Driver: "vfio-pci", Node: 1},
		}
		terms := Terms{OneNode: rapid.Bool().Draw(rt, "one node"), Devices: []DeviceRule{{Class: "GPU", ID: "10de:2230"}}}
		h := terms.Offer(compute.Inventory{Totals: compute.Resources{compute.VCPU: 8, compute.MemoryMB: 8192}}, nodes, devices)
		room := h.Room()
		var kept []Held
		var may []Movable
		for i := range rapid.IntRange(0, 8).Draw(rt, "machines") {
			needs := compute.Resources{
				compute.VCPU: rapid.Int64Range(1, 4).Draw(rt, "cpus"), compute.MemoryMB: 1024,
				"GPU": rapid.Int64Range(0, 1).Draw(rt, "gpus"),
			}
			place, left, ok := room.Allocate(needs, compute.Place{})
			if !ok {
				continue
			}
			room = left
			held := Held{needs, place}
			if rapid.IntRange(0, 3).Draw(rt, "kept") == 0 {
				kept = append(kept, held)
				continue
			}
			since := time.Unix(rapid.Int64Range(0, 3).Draw(rt, "since"), 0)
			taken := rapid.Uint32Range(0, 2).Draw(rt, "taken")
			may = append(may, Movable{held, compute.InstanceID(fmt.Sprint(i)), taken, since})
		}
		needs := compute.Resources{
			compute.VCPU: rapid.Int64Range(1, 8).Draw(rt, "needs"), compute.MemoryMB: 1024,
			"GPU": rapid.Int64Range(0, 2).Draw(rt, "needs gpus"),
		}
		fits := func(gone map[compute.InstanceID]bool) bool {
			held := slices.Clone(kept)
			for _, m := range may {
				if !gone[m.Instance] {
					held = append(held, m.Held)
				}
			}
			return h.Room(held...).Fits(needs)
		}
		// how much of the host what goes has, in 64ths of a class, and how often it was taken before
		cost := func(gone map[compute.InstanceID]bool) (share int64, taken uint32) {
			for _, m := range may {
				if gone[m.Instance] {
					share += 8*m.Resources[compute.VCPU] + m.Resources[compute.MemoryMB]/128 + 32*m.Resources["GPU"]
					taken += m.Taken
				}
			}
			return share, taken
		}
		fewest, least, before := -1, int64(0), uint32(0)
		for set := range 1 << len(may) {
			gone := map[compute.InstanceID]bool{}
			for i, m := range may {
				if set&(1<<i) != 0 {
					gone[m.Instance] = true
				}
			}
			if !fits(gone) {
				continue
			}
			share, taken := cost(gone)
			if fewest < 0 || cmp.Or(cmp.Compare(len(gone), fewest), cmp.Compare(share, least), cmp.Compare(taken, before)) < 0 {
				fewest, least, before = len(gone), share, taken
			}
		}
		chosen := h.Preempt(kept, slices.Clone(may), needs)
		if len(chosen) != max(0, fewest) {
			rt.Fatalf("%d go, %d have to", len(chosen), fewest)
		}
		gone := map[compute.InstanceID]bool{}
		for _, id := range chosen {
			gone[id] = true
		}
		if len(chosen) > 0 && !fits(gone) {
			rt.Fatalf("it does not fit when %v are gone", chosen)
		}
		if share, taken := cost(gone); len(chosen) > 0 && (share != least || taken != before) {
			rt.Fatalf("%v go, which have %d and were taken %d times; %d and %d would do", chosen, share, taken, least, before)
		}
	})
}

// Where there are too many ways to look through, none goes that could stay.
func TestPreemptOfVeryMany(t *testing.T) {
	var sizes []int64
	sum := int64(0)
	for i := range int64(200) {
		sizes, sum = append(sizes, 100+i), sum+100+i
	}
	may := movable(sizes...)
	h := ofCPUs(sum)
	needs := compute.Resources{compute.VCPU: 12_345, compute.MemoryMB: 1}
	chosen := h.Preempt(nil, may, needs)
	freed, least := int64(0), sum
	for _, m := range may {
		if slices.Contains(chosen, m.Instance) {
			freed, least = freed+m.Resources[compute.VCPU], min(least, m.Resources[compute.VCPU])
		}
	}
	if freed < 12_345 || freed-least >= 12_345 {
		t.Errorf("%d go, which have %d, the least %d", len(chosen), freed, least)
	}
}

// Machines of one size do not stand for each other where they are on other nodes or have other devices.
func TestPreemptOfMachinesElsewhere(t *testing.T) {
	cpus := func(n int64) compute.Resources { return compute.Resources{compute.VCPU: n} }
	part, whole := compute.Resources{partClass: 1}, compute.Resources{wholeClass: 1}
	on := func(id compute.InstanceID, r compute.Resources, young int64, p compute.Place) Movable {
		return Movable{Held{r, p}, id, 0, time.Unix(young, 0)}
	}
	node := func(n int) compute.Place { return compute.Place{Nodes: []int{n}} }
	at := func(all ...compute.PCIAddress) compute.Place { return compute.Place{Devices: all} }
	nodes, cards := numaHost(Terms{OneNode: true}), numaHost(Terms{})
	for name, c := range map[string]struct {
		host    Host
		kept    []Held
		movable []Movable
		needs   compute.Resources
		want    []compute.InstanceID
	}{
		"the other node": {nodes, []Held{{cpus(1), node(0)}},
			[]Movable{on("old", cpus(3), 1, node(1)), on("young", cpus(3), 2, node(0))}, cpus(4), []compute.InstanceID{"old"}},
		"either node, and so the younger": {nodes, nil,
			[]Movable{on("old", cpus(3), 1, node(0)), on("young", cpus(3), 2, node(1))}, cpus(4), []compute.InstanceID{"young"}},
		"the other card": {cards, []Held{{part, at("0000:01:00.2")}},
			[]Movable{on("old", part, 1, at("0000:02:00.1")), on("young", part, 2, at("0000:01:00.1"))}, whole,
			[]compute.InstanceID{"old"}},
		"a card for its parts": {cards, nil,
			[]Movable{on("card", whole, 1, at("0000:01:00.0")), on("one", part, 2, at("0000:02:00.1")),
				on("two", part, 3, at("0000:02:00.2"))},
			compute.Resources{partClass: 2}, []compute.InstanceID{"card"}},
	} {
		got := c.host.Preempt(c.kept, c.movable, c.needs)
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v go, want %v", name, got, c.want)
		}
	}
}

// What a machine has of a class of which the host has none costs nothing, and all of a class costs as much as all of
// another.
func TestWhatMachinesCost(t *testing.T) {
	h := Terms{}.Offer(compute.Inventory{Totals: compute.Resources{compute.VCPU: 16, "CUSTOM_X": 1}}, nil, nil)
	plain := Movable{Held{Resources: compute.Resources{compute.VCPU: 9}}, "plain", 0, time.Unix(1, 0)}
	for class, want := range map[compute.ResourceClass]compute.InstanceID{"CUSTOM_OLD": "with", "CUSTOM_X": "plain"} {
		with := Movable{Held{Resources: compute.Resources{compute.VCPU: 7, class: 1}}, "with", 0, time.Unix(0, 0)}
		got := h.Preempt(nil, []Movable{plain, with}, compute.Resources{compute.VCPU: 7})
		if !slices.Equal(got, []compute.InstanceID{want}) {
			t.Errorf("%v go beside one with %s, want %s", got, class, want)
		}
	}
}

// Where the fewest are not found, the smallest stay.
func TestTheSmallestStay(t *testing.T) {
	h := ofCPUs(11)
	c := &choice{rest: h.Room(), movable: movable(5, 3, 3), needs: compute.Resources{compute.VCPU: 6}, total: h.empty.free}
	if got := c.irredundant(); !slices.Equal(got, []int{1, 0}) {
		t.Errorf("%v go", got)
	}
}
