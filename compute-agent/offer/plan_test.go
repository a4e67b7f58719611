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
	none := Candidate{Queue: "none", Needs: cpus(1)}
	for _, c := range []struct {
		when  string
		room  int64
		lanes []Lane
		want  []compute.QueueName
	}{
		{"work lies there", 4, []Lane{one(Candidate{Queue: "a", Needs: cpus(4)}), one(Candidate{Queue: "b", Needs: cpus(4), Deep: true})}, []compute.QueueName{"b"}},
		{"left out in an open lane", 4, []Lane{open(1, Candidate{Queue: "a", Needs: cpus(4), Skipped: 1}), one(Candidate{Queue: "b", Needs: cpus(3)})}, nil},
		{"not left out in an open lane", 4, []Lane{open(1, Candidate{Queue: "a", Needs: cpus(4)}), one(Candidate{Queue: "b", Needs: cpus(3)})}, []compute.QueueName{"b"}},
		{"as often, the lane that is idle", 5, []Lane{open(1, Candidate{Queue: "a", Needs: cpus(4), Skipped: 1}), one(Candidate{Queue: "b", Needs: cpus(4), Skipped: 1})}, []compute.QueueName{"b"}},
		{"large, and nothing lies there", 4, []Lane{open(1, none), one(Candidate{Queue: "a", Needs: cpus(4), Skipped: 1}), one(Candidate{Queue: "b", Needs: cpus(2)})}, []compute.QueueName{"b"}},
		{"large, and work lies there", 4, []Lane{open(1, none), one(Candidate{Queue: "a", Needs: cpus(4), Skipped: 1, Deep: true}), one(Candidate{Queue: "b", Needs: cpus(2)})}, nil},
		{"large, and not left out yet", 4, []Lane{open(1, none), one(Candidate{Queue: "a", Needs: cpus(4), Deep: true}), one(Candidate{Queue: "b", Needs: cpus(2)})}, []compute.QueueName{"b"}},
		{"large, in an open lane", 4, []Lane{open(1, none), open(1, Candidate{Queue: "a", Needs: cpus(4), Skipped: 1, Deep: true}), one(Candidate{Queue: "b", Needs: cpus(2)})}, []compute.QueueName{"b"}},
		{"larger than the host", 4, []Lane{open(1, none), one(Candidate{Queue: "a", Needs: cpus(5), Skipped: 1, Deep: true}), one(Candidate{Queue: "b", Needs: cpus(2)})}, []compute.QueueName{"b"}},
		{"in a lane of which more was left out", 4, []Lane{
			open(1, none), one(Candidate{Queue: "a", Needs: cpus(4), Skipped: 1, Deep: true}),
			{Candidates: []Candidate{{Queue: "b", Needs: cpus(9), Skipped: 2}, {Queue: "c", Needs: cpus(2)}}},
		}, nil},
		{"the next fetch of an open lane, in place of that one", 5, []Lane{open(2, Candidate{Queue: "a", Needs: cpus(3), Skipped: 1}), one(Candidate{Queue: "b", Needs: cpus(2)})}, []compute.QueueName{"b"}},
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
	got := fetched(Room{free: compute.Resources{compute.VCPU: 2}}, 9, many, Lane{Candidates: []Candidate{{Queue: "b", Needs: one}}})
	if len(got[0]) != MostListed || len(got[1]) != 1 {
		t.Errorf("%d and %d queues are listed", len(got[0]), len(got[1]))
	}
}

// What needs nothing is fetched like everything else: that a fetch is open is known by what it may bring.
func TestNothingIsReserved(t *testing.T) {
	p := Plan(Room{free: compute.Resources{}}, []Lane{{Candidates: []Candidate{{Queue: "a", Needs: compute.Resources{}}}}}, 1)[0]
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
