// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

// lying is a queue in which work of one processor has waited for so many minutes.
func lying(q compute.QueueName, p compute.Priority, minutes, most int64) Candidate {
	since := epochZero.Add(-time.Duration(minutes) * time.Minute)
	return Candidate{
		Queue: q, Needs: compute.Resources{compute.VCPU: 1}, Deep: true, Oldest: since,
		Lies: Lies{Priority: p, Since: since, Most: most},
	}
}

const (
	low    = compute.PriorityLow
	normal = compute.PriorityNormal
	high   = compute.PriorityHigh
)

// What is fetched first by a host that has room for one, in whatever order it comes upon the queues, and whether they
// are in one session or in one each.
func TestRanks(t *testing.T) {
	idle := Candidate{Queue: "idle", Needs: compute.Resources{compute.VCPU: 1}}
	skipped := func(c Candidate) Candidate {
		c.Skipped = 9
		return c
	}
	rung := func(c Candidate) Candidate {
		c.Rung = true
		return c
	}
	for _, c := range []struct {
		when string
		all  []Candidate
		want []compute.QueueName
	}{
		{"classes", []Candidate{lying("l", low, 1, 1), lying("n", normal, 1, 1), lying("h", high, 1, 1)},
			[]compute.QueueName{"h"}},
		{"low that has waited for long", []Candidate{lying("l", low, 11, 1), lying("n", normal, 0, 1)},
			[]compute.QueueName{"l"}},
		{"low that has not", []Candidate{lying("l", low, 9, 1), lying("n", normal, 0, 1)}, []compute.QueueName{"n"}},
		{"low that has waited longer than high by twice the shift",
			[]Candidate{lying("l", low, 21, 1), lying("h", high, 0, 1)}, []compute.QueueName{"l"}},
		{"left out before", []Candidate{skipped(lying("l", low, 1, 1)), lying("h", high, 1, 1)}, []compute.QueueName{"h"}},
		{"rung", []Candidate{rung(lying("l", low, 1, 1)), lying("h", high, 1, 1)}, []compute.QueueName{"h"}},
	} {
		for range 2 {
			slices.Reverse(c.all)
			room := Room{free: compute.Resources{compute.VCPU: 1}}
			got := fetched(room, 4, Session{Candidates: slices.Clone(c.all)})
			if diff := cmp.Diff([][]compute.QueueName{c.want}, got); diff != "" {
				t.Errorf("%s, in one session: %s", c.when, diff)
			}
			var apart []Session
			for _, x := range c.all {
				apart = append(apart, Session{Candidates: []Candidate{x}})
			}
			if diff := cmp.Diff(c.want, slices.Concat(fetched(room, 4, apart...)...)); diff != "" {
				t.Errorf("%s, in several: %s", c.when, diff)
			}
		}
	}
	// Where nothing is known to lie, work of any class may come first, and it is waited for beside what is known.
	got := fetched(Room{free: compute.Resources{compute.VCPU: 1}}, 4,
		Session{Candidates: []Candidate{idle, lying("l", low, 1, 1), lying("h", high, 1, 1)}})
	if diff := cmp.Diff([][]compute.QueueName{{"h", "idle"}}, got); diff != "" {
		t.Error(diff)
	}
}

// What comes later waits only where there may not be room or slots for it beside what comes first, and a fetch that it
// waits for is known to be.
func TestWhatYields(t *testing.T) {
	h, l := lying("h", high, 1, 3), lying("l", low, 1, 1)
	for _, c := range []struct {
		room, slots int64
		all         []Candidate
		want        int // are listed
	}{
		{4, 4, []Candidate{h, l}, 2},
		{3, 4, []Candidate{h, l}, 1},
		{4, 3, []Candidate{h, l}, 1},
		{3, 4, []Candidate{lying("a", high, 1, 3), h}, 2}, // of one class
	} {
		p := Plan(Room{free: compute.Resources{compute.VCPU: c.room}}, []Session{{Candidates: c.all}}, int(c.slots))[0]
		if len(p.Listed) != c.want || p.Awaited != (c.want == 1) {
			t.Errorf("room for %d, %d slots: %+v", c.room, c.slots, p)
		}
	}
	// One at another broker is waited for as well, and so is one that is looked at already.
	room := Room{free: compute.Resources{compute.VCPU: 2}}
	apart := Plan(room, []Session{{Candidates: []Candidate{l}}, {Candidates: []Candidate{h}}}, 4)
	if len(apart[0].Listed) != 0 || len(apart[1].Listed) != 1 || !apart[1].Awaited || apart[0].Awaited {
		t.Errorf("%+v", apart)
	}
	open := Session{Open: &Reserved{Most: h.Needs}, Ahead: []Candidate{h}}
	if got := fetched(room, 4, open, Session{Candidates: []Candidate{l}}); len(got[1]) != 0 {
		t.Errorf("%v beside what is looked at", got)
	}
}

// Where work of one class is known, all is planned as if nobody had classes.
func TestOneClassChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(compute.Priorities()).Draw(t, "class")
		var with, without []Session
		for range rapid.IntRange(1, 3).Draw(t, "sessions") {
			var a, b Session
			for range rapid.IntRange(0, 4).Draw(t, "queues") {
				c := lying(compute.QueueName(rapid.StringMatching("[a-z]").Draw(t, "q")), p,
					rapid.Int64Range(0, 60).Draw(t, "minutes"), rapid.Int64Range(1, 9).Draw(t, "most"))
				c.Skipped, c.Rung = rapid.IntRange(0, 2).Draw(t, "skipped"), rapid.Bool().Draw(t, "rung")
				a.Candidates = append(a.Candidates, c)
				c.Lies = Lies{}
				b.Candidates = append(b.Candidates, c)
			}
			with, without = append(with, a), append(without, b)
		}
		room := Room{free: compute.Resources{compute.VCPU: rapid.Int64Range(0, 4).Draw(t, "room")}}
		if diff := cmp.Diff(fetched(room, 4, without...), fetched(room, 4, with...)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Whatever waits is served in the end by a host that has room for one at a time, and of two that wait as long the
// higher first: one queue of each class in which work always lies, each taken at a mean rate.
func TestNothingWaitsForEver(t *testing.T) {
	now, served := epochZero, map[compute.Priority]int{}
	since := map[compute.Priority]time.Time{low: now, normal: now, high: now}
	for range 600 {
		now = now.Add(time.Minute)
		var all []Candidate
		for _, p := range compute.Priorities() {
			c := lying(compute.QueueName(p.String()), p, 0, 1)
			c.Since, c.Oldest, c.Skipped = since[p], since[p], int(now.Sub(since[p])/time.Minute)
			all = append(all, c)
		}
		p := Plan(Room{free: compute.Resources{compute.VCPU: 1}}, []Session{{Candidates: all}}, 1)[0]
		took := p.Listed[0].Priority
		since[took] = since[took].Add(2 * time.Minute) // one comes every two minutes, and one goes in each: too many
		if since[took].After(now) {
			since[took] = now
		}
		served[took]++
	}
	if served[low] == 0 || served[normal] < served[low] || served[high] < served[normal] {
		t.Errorf("%v were served", served)
	}
}

// What may come to a host of all that lies in a queue.
func TestHowMuchMayCome(t *testing.T) {
	for _, c := range []struct {
		depth    uint64
		eligible uint32
		want     int64
	}{{0, 5, 0}, {1, 0, 1}, {1, 100, 1}, {50, 100, 2}, {100, 100, 3}, {1000, 1, 1000}, {90, 1, 90}, {1 << 40, 1, 1000}} {
		got := LiesBy(compute.QueueAdvice{Depth: c.depth, Eligible: c.eligible, Oldest: epochZero}, high)
		if got.Most != c.want || got.Since.IsZero() != (c.depth == 0) || got.Priority != high {
			t.Errorf("%d on %d hosts: %+v", c.depth, c.eligible, got)
		}
	}
}

// Of the queues at which a host looks because work lies there, those that rank first are chosen.
func TestExtraByRank(t *testing.T) {
	var all []Candidate
	for i := range 9 {
		c := lying(compute.QueueName(rune('a'+i)), low, 1, 1)
		c.Order = uint64(i)
		all = append(all, c)
	}
	all[7].Priority, all[8].Since = high, time.Time{}
	for range 2 {
		slices.Reverse(all)
		sortExtra(all)
		if diff := cmp.Diff([]compute.QueueName{"h", "a", "b", "c", "d", "e", "f", "g", "i"}, inTurn(all)); diff != "" {
			t.Error(diff)
		}
	}
	// Where all is of one class it goes by chance, so that not all hosts look at the same queues.
	for i := range all {
		all[i].Lies = Lies{Priority: low, Since: epochZero.Add(time.Duration(9-i) * time.Minute), Most: 1}
		all[i].Order = uint64(i)
	}
	all[0].Lies = Lies{Priority: normal} // of which nothing is known
	want := inTurn(all)
	slices.Reverse(all)
	if sortExtra(all); !slices.Equal(inTurn(all), want) {
		t.Errorf("%v, want %v", inTurn(all), want)
	}
}

// inTurn are the queues of candidates in their order.
func inTurn(all []Candidate) (out []compute.QueueName) {
	for _, c := range all {
		out = append(out, c.Queue)
	}
	return out
}
