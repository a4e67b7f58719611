// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

func pool(choice Wanted, asked, all []Wanted, hosts []Host) Pool {
	return PoolOf(choice, asked, hosts, Unusable(all, hosts))
}

// TestPoolOfAValue: hosts that do for it count, and of those that take work what no kind can use.
func TestPoolOfAValue(t *testing.T) {
	a := traits("CUSTOM_ZONE_A")
	hosts := []Host{
		host("h1", 8, a), host("h2", 3, a), host("h3", 1, a), host("h4", 8, a, silent), host("h5", 8, a, in(compute.HostDraining, "")),
		host("h6", 8),
	}
	small := Wanted{Resources: compute.Resources{compute.VCPU: 2}}
	large := Wanted{Resources: compute.Resources{compute.VCPU: 5, compute.MemoryMB: 2048}}
	got := pool(Wanted{Required: []compute.Trait{"CUSTOM_ZONE_A"}}, []Wanted{small, large}, []Wanted{small, large}, hosts)
	want := Pool{
		Hosts: 5, Taking: 3, Largest: 1, Kinds: got.Kinds,
		Spare:    compute.Resources{compute.VCPU: 12, compute.MemoryMB: 12 * 2048},
		Unusable: compute.Resources{compute.VCPU: 2, compute.MemoryMB: 11 * 2048},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Capacity{})); diff != "" {
		t.Error(diff)
	}
	if got.Kinds[0].Room != 5 || got.Kinds[1].Room != 1 || got.Kinds[0].Empty != 20 {
		t.Errorf("%+v", got.Kinds)
	}
	card := compute.Resources{"CUSTOM_GPU": 1}
	hosts[1].Beacon.Inventory.Totals = hosts[1].Beacon.Inventory.Totals.Plus(card) // which is taken
	if cards := pool(Wanted{Resources: card}, nil, nil, hosts); cards.Hosts != 1 || cards.Taking != 1 || cards.Spare[compute.VCPU] != 3 {
		t.Errorf("of the host with a card: %+v", cards)
	}
	if none := pool(Wanted{}, []Wanted{small}, nil, nil); none.Hosts != 0 || none.Largest != -1 {
		t.Errorf("%+v", none)
	}
}

// TestPoolsAreTheirHosts: a pool counts as many as its hosts do one by one, nothing unusable is more than is free, and
// where nothing fits all of it is unusable.
func TestPoolsAreTheirHosts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var hosts []Host
		for n := range rapid.IntRange(0, 5).Draw(rt, "hosts") {
			hosts = append(hosts, anyHost(rt, n))
		}
		var kinds []Wanted
		for range rapid.IntRange(0, 3).Draw(rt, "kinds") {
			w := anyKind(rt).Wanted
			w.Host, w.Avoid = "", nil
			kinds = append(kinds, w)
		}
		whole := pool(Wanted{}, kinds, kinds, hosts)
		room, free, stays := make([]int64, len(kinds)), compute.Resources{}, compute.Resources{}
		for _, h := range hosts {
			one := pool(Wanted{}, kinds, kinds, []Host{h})
			fits := false
			for i, c := range one.Kinds {
				room[i] += c.Room
				fits = fits || c.Room > 0
			}
			if !fits && !one.Unusable.Equal(one.Spare) {
				rt.Fatalf("nothing fits, and of %v %v is unusable", one.Spare, one.Unusable)
			}
			for class, n := range one.Unusable {
				if n < 0 || n > one.Spare[class] {
					rt.Fatalf("of %v %v is unusable", one.Spare, one.Unusable)
				}
			}
			free.Add(one.Spare)
			stays.Add(one.Unusable)
		}
		for i, c := range whole.Kinds {
			if c.Room != room[i] || (whole.Largest >= 0 && whole.Kinds[whole.Largest].Room == 0) || c.Room > 0 && whole.Largest < 0 {
				rt.Fatalf("%+v, one by one %v", whole, room)
			}
		}
		if !free.Equal(whole.Spare) || !stays.Equal(whole.Unusable) {
			rt.Fatal(fmt.Sprintf("%+v, one by one %v and %v", whole, free, stays))
		}
	})
}
