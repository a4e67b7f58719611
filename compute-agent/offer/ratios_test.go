// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// Four of five processors are offered four times each; what others use is taken
// from that.
func TestRatios(t *testing.T) {
	has := compute.Inventory{
		Totals:    compute.Resources{compute.VCPU: 5, compute.DiskGB: 1001, "CUSTOM_GPU": 2},
		Reserved:  compute.Resources{compute.VCPU: 1},
		Unmanaged: compute.Resources{compute.VCPU: 3},
	}
	r := Ratios{compute.VCPU: 4, compute.DiskGB: 1.5}
	want := compute.Resources{compute.VCPU: 4*4 - 3 - 2, compute.DiskGB: 1501, "CUSTOM_GPU": 2}
	if diff := cmp.Diff(
		want, Terms{OverCommit: r}.Offer(has, nil, nil).Room(amounts(compute.Resources{compute.VCPU: 2})...).Free(),
	); diff != "" {
		t.Error(diff)
	}
	if has.Totals[compute.VCPU] != 5 {
		t.Error("the driver's own inventory was changed")
	}
	if diff := cmp.Diff(has, Ratios(nil).Of(has)); diff != "" {
		t.Errorf("without ratios: %s", diff)
	}
	if diff := cmp.Diff(has, Ratios{compute.MemoryMB: 2}.Of(has)); diff != "" {
		t.Errorf("of a class that is not there: %s", diff)
	}
	half := Ratios{compute.VCPU: 0.5}.Of(has)
	if half.Totals[compute.VCPU] != 2 || half.Reserved[compute.VCPU] != 1 {
		t.Errorf("half of it: %v", half)
	}
}

func TestRatiosThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		ratios Ratios
		says   string
	}{
		{Ratios{"CUSTOM_GPU": 2}, "CUSTOM_GPU: 2"},
		{Ratios{compute.VCPU: 0}, "VCPU: 0"},
		{Ratios{compute.VCPU: -1}, "VCPU: -1"},
		{Ratios{compute.VCPU: 65}, "at most 64"},
		{Ratios{compute.DiskGB: math.NaN()}, "NaN"},
		{Ratios{compute.MemoryMB: 0}, "MEMORY_MB: 0"},
	} {
		err := c.ratios.Check()
		if err == nil || !strings.Contains(err.Error(), "over_commit") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v", c.ratios, err)
		}
	}
	if err := (Ratios{compute.VCPU: 0.5}).Check(); err != nil {
		t.Error(err)
	}
	if err := (Ratios{compute.VCPU: 16, compute.MemoryMB: 1.5, compute.DiskGB: 64}).Check(); err != nil {
		t.Error(err)
	}
}

// One machine may have what there is once, of what is promised more than once.
func TestLargestOfWhatIsPromisedTwice(t *testing.T) {
	inv := compute.Inventory{
		Totals:   compute.Resources{compute.VCPU: 8, compute.MemoryMB: 1024},
		Reserved: compute.Resources{compute.VCPU: 1},
	}
	for _, c := range []struct {
		ratios, want map[compute.ResourceClass]float64
	}{
		{Ratios{compute.VCPU: 4, compute.MemoryMB: 1, compute.DiskGB: 2}, Ratios{compute.VCPU: 7}},
		{Ratios{compute.VCPU: 0.5, compute.MemoryMB: 1.5}, Ratios{compute.MemoryMB: 1024}},
	} {
		want := compute.Resources{}
		for class, n := range c.want {
			want[class] = int64(n)
		}
		if diff := cmp.Diff(want, Ratios(c.ratios).largest(inv)); diff != "" {
			t.Errorf("%v: %s", c.ratios, diff)
		}
	}
	inv.Reserved[compute.VCPU] = 9
	if got := (Ratios{compute.VCPU: 4}).largest(inv)[compute.VCPU]; got != 0 {
		t.Errorf("where the host keeps all, a machine may have %d", got)
	}
}
