// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// Which sessions are opened where not everything has room, whatever the order of the sessions.
func TestWhoIsServedFirst(t *testing.T) {
	cpus := func(n int64) compute.Resources { return compute.Resources{compute.VCPU: n} }
	one := func(c Candidate) Session { return Session{Candidates: []Candidate{c}} }
	open := func(most int64, c Candidate) Session {
		return Session{Open: &Reserved{Most: cpus(most)}, Candidates: []Candidate{c}}
	}
	of := func(q compute.QueueName, n int64, skipped int, deep bool) Candidate {
		return Candidate{Queue: q, Needs: cpus(n), Skipped: skipped, Deep: deep}
	}
	just := func(q compute.QueueName) []compute.QueueName { return []compute.QueueName{q} }
	none, small := of("none", 1, 0, false), one(of("b", 2, 0, false))
	for _, c := range []struct {
		when     string
		room     int64
		sessions []Session
		want     []compute.QueueName
	}{
		{"work lies there", 4, []Session{one(of("a", 4, 0, false)), one(of("b", 4, 0, true))}, just("b")},
		{"left out in an open session", 4, []Session{open(1, of("a", 4, 1, false)), one(of("b", 3, 0, false))}, nil},
		{
			"not left out in an open session", 4, []Session{open(1, of("a", 4, 0, false)), one(of("b", 3, 0, false))},
			just("b"),
		},
		{
			"as often, the idle session", 5, []Session{open(1, of("a", 4, 1, false)), one(of("b", 4, 1, false))},
			just("b"),
		},
		{"large, nothing lies there", 4, []Session{open(1, none), one(of("a", 4, 1, false)), small}, just("b")},
		{"large, work lies there", 4, []Session{open(1, none), one(of("a", 4, 1, true)), small}, nil},
		{"large, not left out yet", 4, []Session{open(1, none), one(of("a", 4, 0, true)), small}, just("b")},
		{"large, in an open session", 4, []Session{open(1, none), open(1, of("a", 4, 1, true)), small}, just("b")},
		{"larger than the host", 4, []Session{open(1, none), one(of("a", 5, 1, true)), small}, just("b")},
		{"in a session of which more was left out", 4, []Session{
			open(1, none), one(of("a", 4, 1, true)),
			{Candidates: []Candidate{of("b", 9, 2, false), of("c", 2, 0, false)}},
		}, nil},
		{"behind what is kept locked", 4, []Session{
			one(Candidate{Queue: "a", Needs: cpus(4), Behind: true, Rung: true}),
			one(Candidate{Queue: "b", Needs: cpus(2), Held: true, Skipped: 1}),
		}, just("a")},
		{"in place of the open fetch", 5, []Session{open(2, of("a", 3, 1, false)), small}, just("b")},
	} {
		for range 2 {
			var got []compute.QueueName
			for _, p := range Plan(Room{free: cpus(c.room)}, c.sessions, 4) {
				got = append(got, listed(p.Listed)...)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: %s", c.when, diff)
			}
			slices.Reverse(c.sessions)
		}
	}
}

// fetched are the queues that are fetched in each session.
func fetched(room Room, slots int, sessions ...Session) (out [][]compute.QueueName) {
	for _, p := range Plan(room, sessions, slots) {
		out = append(out, listed(p.Listed))
	}
	return out
}

// What is held for one has no room for another.
func TestHeldBackOnce(t *testing.T) {
	disk := func(cpus int64) compute.Resources { return compute.Resources{compute.VCPU: cpus, compute.DiskGB: 1} }
	got := fetched(Room{free: disk(8)}, 9,
		Session{Open: &Reserved{Most: compute.Resources{compute.VCPU: 4}}},
		Session{
			Candidates: []Candidate{{Queue: "a", Needs: compute.Resources{compute.VCPU: 5}, Skipped: 2, Deep: true}},
		},
		Session{Candidates: []Candidate{{Queue: "b", Needs: disk(5), Skipped: 1, Deep: true}}},
		Session{Candidates: []Candidate{{Queue: "c", Needs: compute.Resources{compute.DiskGB: 1}}}},
	)
	if diff := cmp.Diff([][]compute.QueueName{nil, nil, nil, {"c"}}, got); diff != "" {
		t.Error(diff)
	}
}

// TestLargeWorkOfWhichNobodyTells: where no advice says what lies in queues, fetches of small work at several brokers
// end in turn, and leave no room for a machine of the host's size. After a while the idle ones wait for that.
func TestLargeWorkOfWhichNobodyTells(t *testing.T) {
	cpus := func(n int64) compute.Resources { return compute.Resources{compute.VCPU: n} }
	for _, c := range []struct {
		large Candidate
		waits bool
	}{
		{Candidate{Skipped: mostSkipped, Unsaid: true}, true}, {Candidate{Skipped: mostSkipped - 1, Unsaid: true}, false},
		{Candidate{Skipped: mostSkipped}, false}, {Candidate{Skipped: 1, Deep: true}, true},
	} {
		c.large.Queue, c.large.Needs = "large", cpus(3)
		out := Plan(Room{free: cpus(3)}, []Session{
			{Open: &Reserved{Most: cpus(1)}},
			{Candidates: []Candidate{{Queue: "small", Needs: cpus(1)}}},
			{Candidates: []Candidate{c.large}},
		}, 3)
		if waits := len(out[1].Listed) == 0; waits != c.waits || len(out[2].Listed) > 0 {
			t.Errorf("%+v: small work waits %v; listed are %v", c.large, waits, out)
		}
	}
}

// A session takes one slot, whatever it lists; what is to be fetched there next takes none.
func TestSlots(t *testing.T) {
	one := compute.Resources{compute.VCPU: 1}
	room := Room{free: compute.Resources{compute.VCPU: 9}}
	two := Session{Candidates: []Candidate{{Queue: "a", Needs: one}, {Queue: "b", Needs: one}}}
	last := Session{Candidates: []Candidate{{Queue: "c", Needs: one, Oldest: epochZero, Order: 1}}}
	open := Session{Open: &Reserved{Most: one}, Candidates: []Candidate{{Queue: "d", Needs: one, Skipped: 2}}}
	late := Session{Candidates: []Candidate{{Queue: "z", Needs: one, Order: 9}}}
	for _, c := range []struct {
		slots    int
		sessions []Session
		want     [][]compute.QueueName
	}{
		{2, []Session{two, late}, [][]compute.QueueName{{"a", "b"}, {"z"}}},
		{1, []Session{two, late}, [][]compute.QueueName{{"a", "b"}, nil}},
		{1, []Session{last, late}, [][]compute.QueueName{{"c"}, nil}},
		{2, []Session{open, late}, [][]compute.QueueName{nil, {"z"}}},
		{1, []Session{open, late}, [][]compute.QueueName{nil, nil}},
	} {
		if diff := cmp.Diff(c.want, fetched(room, c.slots, c.sessions...)); diff != "" {
			t.Errorf("%d slots: %s", c.slots, diff)
		}
	}
}

// A fetch that lists all it may holds nothing back for what it does not list.
func TestAFullListHoldsNothingBack(t *testing.T) {
	one := compute.Resources{compute.VCPU: 1}
	var many Session
	for range MostListed + 1 {
		many.Candidates = append(many.Candidates, Candidate{Queue: "a", Needs: one, Skipped: 1, Deep: true})
	}
	got := fetched(Room{free: compute.Resources{compute.VCPU: 2}}, 9, many,
		Session{Candidates: []Candidate{{Queue: "b", Needs: one}}})
	if len(got[0]) != MostListed || len(got[1]) != 1 {
		t.Errorf("%d and %d queues are listed", len(got[0]), len(got[1]))
	}
}

// What needs nothing is fetched like everything else: that a fetch is open is known by what it may bring.
func TestNothingIsReserved(t *testing.T) {
	session := Session{Candidates: []Candidate{{Queue: "a", Needs: compute.Resources{}}}}
	p := Plan(Room{free: compute.Resources{}}, []Session{session}, 1)[0]
	if len(p.Listed) != 1 || p.Most == nil {
		t.Errorf("%+v", p)
	}
}

// The next fetch of a session is to have what the open one has: another session has the other card.
func TestTheNextFetchIsWhereTheOpenOneIs(t *testing.T) {
	card1 := compute.Resources{wholeClass: 1}
	room := Terms{Devices: rules()}.Offer(
		compute.Inventory{}, nil, slices.Concat(card(1, 0, 0), card(2, 0, 0)),
	).Room()
	open := Session{
		Open:       &Reserved{card1, compute.Place{Devices: []compute.PCIAddress{"0000:02:00.0"}}},
		Candidates: []Candidate{{Queue: "a", Needs: card1, Skipped: 1}},
	}
	got := fetched(room, 9, open, Session{Candidates: []Candidate{{Queue: "b", Needs: card1}}})
	if diff := cmp.Diff([][]compute.QueueName{nil, {"b"}}, got); diff != "" {
		t.Error(diff)
	}
}
