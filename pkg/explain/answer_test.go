// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// TestAnswer: of each class and each trait it says how many hosts lack it, that of most hosts first, and of the class
// how little may be enough.
func TestAnswer(t *testing.T) {
	disk := func(free int64) func(*Host) {
		return func(h *Host) { h.Beacon.Inventory.Totals[compute.DiskGB], h.Beacon.Free[compute.DiskGB] = 10, free }
	}
	ssd := traits("CUSTOM_B", "CUSTOM_C")
	w := Wanted{
		Resources: compute.Resources{compute.VCPU: 4, compute.MemoryMB: 8192, compute.DiskGB: 5},
		Required:  []compute.Trait{"CUSTOM_B", "CUSTOM_C"}, Forbidden: []compute.Trait{"CUSTOM_A"},
	}
	got := Hosts(w, []Host{
		host("h3", 3, ssd, disk(1)), host("h2", 3, ssd, disk(9)), host("h1", 1, ssd, disk(4)),
		host("h4", 8, disk(9)), host("h5", 8, disk(9), traits("CUSTOM_C")),
		host("h6", 8, disk(9), traits("CUSTOM_A", "CUSTOM_B", "CUSTOM_C")),
		host("h7", 8, ssd), host("h8", 8, ssd, disk(9)), host("h9", 8, ssd, disk(9), silent),
	})
	short := []Shortage{
		{compute.MemoryMB, 3, 2048}, {compute.VCPU, 3, 1}, {compute.DiskGB, 2, 1},
	}
	if diff := cmp.Diff(short, got.Short); diff != "" {
		t.Error(diff)
	}
	unfit := []Unfit{{"CUSTOM_B", 2, true}, {"CUSTOM_A", 1, false}, {"CUSTOM_C", 1, true}}
	if diff := cmp.Diff(unfit, got.Traits); diff != "" {
		t.Error(diff)
	}
	if got.Now() != 1 || got.Later() != 4 || got.Never() != 4 || got.Total() != 9 || got.Room != 1 || got.Empty != 10 {
		t.Errorf("%d now, %d later, %d never of %d, room for %d, empty for %d", got.Now(), got.Later(), got.Never(),
			got.Total(),
			got.Room, got.Empty)
	}
	if got.first[Full].Host != "h2" {
		t.Errorf("the nearest that is full is %s", got.first[Full].Host)
	}
}

// TestNearest are those with most room, by name where that is the same, in whatever order the hosts come.
func TestNearest(t *testing.T) {
	var hosts []Host
	for n := range MostNearest + 3 {
		hosts = append(hosts, host(fmt.Sprint("h", n%10), int64(n%4)))
	}
	w := Wanted{Resources: compute.Resources{compute.VCPU: 8}}
	want := slices.SortedFunc(slices.Values(Hosts(w, hosts[:MostNearest]).Nearest), nearer(w))
	for _, h := range hosts[MostNearest:] {
		want = append(want, Judge(w, h))
	}
	slices.SortFunc(want, nearer(w))
	for range 2 {
		if diff := cmp.Diff(want[:MostNearest], Hosts(w, hosts).Nearest); diff != "" {
			t.Error(diff)
		}
		slices.Reverse(hosts)
	}
}

// TestCountsOfLists: each host is in one of the places that lists have.
func TestCountsOfLists(t *testing.T) {
	var c Counts
	sum := func(all ...Standing) (n uint32) {
		for _, s := range all {
			n += 1 << s
		}
		return n
	}
	for s := range standings {
		c[s] = sum(s)
	}
	want := compute.HostCounts{
		NeverFits: sum(TooSmall, LacksTrait, OtherHost, LacksKey), Silent: sum(Silent), Disabled: sum(Disabled),
		Draining: sum(Draining), Quarantined: sum(Quarantined, Twin), Full: sum(Full), Avoided: sum(Avoided, KeptOut),
		Eligible: sum(Fits, FailedThere, Mistrusts),
	}
	if diff := cmp.Diff(want, c.Hosts()); diff != "" {
		t.Error(diff)
	}
}

// TestStranded: what hosts have besides does not make a machine, and of no hosts nothing is.
func TestStranded(t *testing.T) {
	w := Wanted{Resources: compute.Resources{compute.VCPU: 2}}
	var none, few Capacity
	for _, h := range []Host{host("h1", 1), host("h2", 0), host("h3", 8)} {
		few.Add(w, h)
	}
	if none.Stranded(w) != 0 || none.Stranded(Wanted{}) != 0 || few.Stranded(w) != 0 {
		t.Errorf("stranded are %d, %d and %d", none.Stranded(w), none.Stranded(Wanted{}), few.Stranded(w))
	}
}
