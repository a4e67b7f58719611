// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// Which lanes are opened where not everything has room, whatever the order of the lanes.
func TestWhoIsServedFirst(t *testing.T) {
	cpus := func(n int64) compute.Resources { return compute.Resources{compute.VCPU: n} }
	one := func(c Candidate) Lane { return Lane{Candidates: []Candidate{c}} }
	open := func(most int64, c Candidate) Lane {
		return Lane{Open: &Reserved{Most: cpus(most)}, Candidates: []Candidate{c}}
	}
	of := func(q compute.QueueName, n int64, skipped int, deep bool) Candidate {
		return Candidate{Queue: q, Needs: cpus(n), Skipped: skipped, Deep: deep}
	}
	just := func(q compute.QueueName) []compute.QueueName { return []compute.QueueName{q} }
	none, small := of("none", 1, 0, false), one(of("b", 2, 0, false))
	for _, c := range []struct {
		when  string
		room  int64
		lanes []Lane
		want  []compute.QueueName
	}{
		{"work lies there", 4, []Lane{one(of("a", 4, 0, false)), one(of("b", 4, 0, true))}, just("b")},
		{"left out in an open lane", 4, []Lane{open(1, of("a", 4, 1, false)), one(of("b", 3, 0, false))}, nil},
		{"not left out in an open lane", 4, []Lane{open(1, of("a", 4, 0, false)), one(of("b", 3, 0, false))}, just("b")},
		{"as often, the idle lane", 5, []Lane{open(1, of("a", 4, 1, false)), one(of("b", 4, 1, false))}, just("b")},
		{"large, nothing lies there", 4, []Lane{open(1, none), one(of("a", 4, 1, false)), small}, just("b")},
		{"large, work lies there", 4, []Lane{open(1, none), one(of("a", 4, 1, true)), small}, nil},
		{"large, not left out yet", 4, []Lane{open(1, none), one(of("a", 4, 0, true)), small}, just("b")},
		{"large, in an open lane", 4, []Lane{open(1, none), open(1, of("a", 4, 1, true)), small}, just("b")},
		{"larger than the host", 4, []Lane{open(1, none), one(of("a", 5, 1, true)), small}, just("b")},
		{"in a lane of which more was left out", 4, []Lane{
			open(1, none), one(of("a", 4, 1, true)), {Candidates: []Candidate{of("b", 9, 2, false), of("c", 2, 0, false)}},
		}, nil},
		{"in place of the open fetch", 5, []Lane{open(2, of("a", 3, 1, false)), small}, just("b")},
	} {
		for range 2 {
			var got []compute.QueueName
			for _, p := range Plan(Room{free: cpus(c.room)}, c.lanes, 4) {
				got = append(got, listed(p.Listed)...)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: %s", c.when, diff)
			}
			slices.Reverse(c.lanes)
		}
	}
}

// fetched are the queues that are fetched in each lane.
func fetched(room Room, slots int, lanes ...Lane) (out [][]compute.QueueName) {
	for _, p := range Plan(room, lanes, slots) {
		out = append(out, listed(p.Listed))
	}
	return out
}

// What is held for one has no room for another.
func TestHeldBackOnce(t *testing.T) {
	disk := func(cpus int64) compute.Resources { return compute.Resources{compute.VCPU: cpus, compute.DiskGB: 1} }
	got := fetched(Room{free: disk(8)}, 9,
		Lane{Open: &Reserved{Most: compute.Resources{compute.VCPU: 4}}},
		Lane{Candidates: []Candidate{{Queue: "a", Needs: compute.Resources{compute.VCPU: 5}, Skipped: 2, Deep: true}}},
		Lane{Candidates: []Candidate{{Queue: "b", Needs: disk(5), Skipped: 1, Deep: true}}},
		Lane{Candidates: []Candidate{{Queue: "c", Needs: compute.Resources{compute.DiskGB: 1}}}},
	)
	if diff := cmp.Diff([][]compute.QueueName{nil, nil, nil, {"c"}}, got); diff != "" {
		t.Error(diff)
	}
}

// A lane takes one slot, whatever it lists; what is to be fetched there next takes none.
func TestSlots(t *testing.T) {
	one := compute.Resources{compute.VCPU: 1}
	room := Room{free: compute.Resources{compute.VCPU: 9}}
	two := Lane{Candidates: []Candidate{{Queue: "a", Needs: one}, {Queue: "b", Needs: one}}}
	last := Lane{Candidates: []Candidate{{Queue: "c", Needs: one, Oldest: epochZero, Order: 1}}}
	open := Lane{Open: &Reserved{Most: one}, Candidates: []Candidate{{Queue: "d", Needs: one, Skipped: 2}}}
	late := Lane{Candidates: []Candidate{{Queue: "z", Needs: one, Order: 9}}}
	for _, c := range []struct {
		slots int
		lanes []Lane
		want  [][]compute.QueueName
	}{
		{2, []Lane{two, late}, [][]compute.QueueName{{"a", "b"}, {"z"}}},
		{1, []Lane{two, late}, [][]compute.QueueName{{"a", "b"}, nil}},
		{1, []Lane{last, late}, [][]compute.QueueName{{"c"}, nil}},
		{2, []Lane{open, late}, [][]compute.QueueName{nil, {"z"}}},
		{1, []Lane{open, late}, [][]compute.QueueName{nil, nil}},
	} {
		if diff := cmp.Diff(c.want, fetched(room, c.slots, c.lanes...)); diff != "" {
			t.Errorf("%d slots: %s", c.slots, diff)
		}
	}
}

// A fetch that lists all it may holds nothing back for what it does not list.
func TestAFullListHoldsNothingBack(t *testing.T) {
	one := compute.Resources{compute.VCPU: 1}
	var many Lane
	for range MostListed + 1 {
		many.Candidates = append(many.Candidates, Candidate{Queue: "a", Needs: one, Skipped: 1, Deep: true})
	}
	got := fetched(Room{free: compute.Resources{compute.VCPU: 2}}, 9, many,
		Lane{Candidates: []Candidate{{Queue: "b", Needs: one}}})
	if len(got[0]) != MostListed || len(got[1]) != 1 {
		t.Errorf("%d and %d queues are listed", len(got[0]), len(got[1]))
	}
}

// What needs nothing is fetched like everything else: that a fetch is open is known by what it may bring.
func TestNothingIsReserved(t *testing.T) {
	lane := Lane{Candidates: []Candidate{{Queue: "a", Needs: compute.Resources{}}}}
	p := Plan(Room{free: compute.Resources{}}, []Lane{lane}, 1)[0]
	if len(p.Listed) != 1 || p.Most == nil {
		t.Errorf("%+v", p)
	}
}

// The next fetch of a lane is to have what the open one has: another lane has the other card.
func TestTheNextFetchIsWhereTheOpenOneIs(t *testing.T) {
	card1 := compute.Resources{wholeClass: 1}
	room := Terms{Devices: rules()}.Offer(compute.Inventory{}, nil, slices.Concat(card(1, 0, 0), card(2, 0, 0))).Room()
	open := Lane{
		Open:       &Reserved{card1, compute.Place{Devices: []compute.PCIAddress{"0000:02:00.0"}}},
		Candidates: []Candidate{{Queue: "a", Needs: card1, Skipped: 1}},
	}
	got := fetched(room, 9, open, Lane{Candidates: []Candidate{{Queue: "b", Needs: card1}}})
	if diff := cmp.Diff([][]compute.QueueName{nil, {"b"}}, got); diff != "" {
		t.Error(diff)
	}
}
