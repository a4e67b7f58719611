// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

var epochZero = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func names(list []compute.Queue) []compute.QueueName {
	var out []compute.QueueName
	for _, q := range list {
		out = append(out, q.Name)
	}
	return out
}

func listed(list []Candidate) []compute.QueueName {
	var out []compute.QueueName
	for _, c := range list {
		out = append(out, c.Queue)
	}
	slices.Sort(out)
	return out
}

func amounts(of ...compute.Resources) (held []Held) {
	for _, r := range of {
		held = append(held, Held{Resources: r})
	}
	return held
}

// The example the design comes from: flavors tiny, medium and large with one
// exclusive device or none are six queues, and a host with one device.
func TestTheExample(t *testing.T) {
	axes := map[compute.AxisName]compute.Capability{"pci": {Axis: "pci", Values: []compute.CapabilityValue{
		{Value: "yes", Requires: []compute.Trait{"CUSTOM_PCI_SLOT"}, Consumes: compute.Resources{"CUSTOM_PCI": 1}},
	}}}
	var queues []compute.Queue
	for name, gib := range map[compute.FlavorName]int64{"tiny": 1, "medium": 4, "large": 8} {
		f := compute.Flavor{
			Name: name, Resources: compute.Resources{compute.MemoryMB: gib << 10},
			Capabilities: []compute.AxisName{"pci"},
		}
		queues = append(queues, compute.Permutations(f, axes)...)
	}
	inv := compute.Inventory{
		Totals: compute.Resources{compute.MemoryMB: 16 << 10, "CUSTOM_PCI": 1},
		Traits: []compute.Trait{"CUSTOM_PCI_SLOT"},
	}
	all := []compute.QueueName{"large", "large.pci-yes", "medium", "medium.pci-yes", "tiny", "tiny.pci-yes"}
	waits := func(held ...compute.Resources) []compute.QueueName {
		room := Terms{}.Offer(inv, nil, nil).Room(amounts(held...)...)
		sampler := NewSampler("h", compute.Spread)
		sampler.List(Accepted(Traits(inv.Traits), queues))
		plan := Plan(room, []Session{{Candidates: sampler.Sample(room, Used(inv.Totals, room.Free()), epochZero)}}, 4)
		return listed(plan[0].Listed)
	}
	tinyPCI := compute.Resources{compute.MemoryMB: 1 << 10, "CUSTOM_PCI": 1}
	for _, c := range []struct {
		when string
		held []compute.Resources
		want []compute.QueueName
	}{
		{"empty", nil, all},
		{"tiny with the device taken", []compute.Resources{tinyPCI}, []compute.QueueName{"large", "medium", "tiny"}},
		{"deleted", nil, all},
		{
			"12 GiB taken besides", []compute.Resources{tinyPCI, {compute.MemoryMB: 12 << 10}},
			[]compute.QueueName{"tiny"},
		},
	} {
		if diff := cmp.Diff(c.want, waits(c.held...)); diff != "" {
			t.Errorf("%s: %s", c.when, diff)
		}
	}
}

func TestFreeCountsEverything(t *testing.T) {
	inv := compute.Inventory{
		Totals: compute.Resources{compute.VCPU: 16}, Reserved: compute.Resources{compute.VCPU: 1},
		Unmanaged: compute.Resources{compute.VCPU: 2},
	}
	held := amounts(compute.Resources{compute.VCPU: 4}, compute.Resources{compute.VCPU: 10})
	if got := (Terms{}).Offer(inv, nil, nil).Room(held...).Free()[compute.VCPU]; got != -1 {
		t.Errorf("free is %d, want -1", got)
	}
}

func TestTraitsDecideToo(t *testing.T) {
	queues := []compute.Queue{
		{Name: "any"}, {Name: "needs", Required: []compute.Trait{"A"}},
		{Name: "not", Forbidden: []compute.Trait{"A"}},
	}
	if diff := cmp.Diff(
		[]compute.QueueName{"any", "needs"}, names(Accepted(Traits([]compute.Trait{"A"}), queues)),
	); diff != "" {
		t.Error(diff)
	}
}

// sampleAll is Sample with room for everything.
func (l *Sampler) sampleAll(queues []compute.Queue, used float64, now time.Time) []Candidate {
	room := Room{free: compute.Resources{}}
	for _, q := range queues {
		room.free = room.free.Max(q.Resources)
	}
	l.List(queues)
	return l.Sample(room, used, now)
}

func many(n int) []compute.Queue {
	var out []compute.Queue
	for i := range n {
		out = append(
			out,
			compute.Queue{
				Name: compute.QueueName(fmt.Sprintf("q%03d", i)), Resources: compute.Resources{compute.VCPU: 1},
			},
		)
	}
	return out
}

func advice(n int, eligible uint32, depth uint64) compute.Advice {
	a := compute.Advice{Full: true}
	for _, q := range many(n) {
		a.About = append(a.About, compute.QueueAdvice{Queue: q.Name, Eligible: eligible, Depth: depth})
	}
	return a
}

// About eight hosts wait on a queue without work, whatever their names and the time; work brings more.
func TestAboutEightWait(t *testing.T) {
	for _, c := range []struct {
		hosts    uint32
		depth    uint64
		min, max int
		queues   int
	}{
		{1000, 0, 4, 12, 20}, {1000, 92, 80, 120, 20}, {1000, 5000, 1000, 1000, 1}, {8, 0, 8, 8, 20},
		{1, 0, 1, 1, 20},
		// few where queues are many
		{1000, 0, 2, 5, 1000}, {100, 0, 7, 9, 100}, {100, 0, 2, 4, 300}, {8, 0, 3, 5, 64},
		{1000, 5000, 200, 212, 20}, // four of twenty that are all deep, and those that are its by lot
	} {
		var sum int
		for h := range c.hosts {
			l := NewSampler(compute.HostID(fmt.Sprint("h", h)), compute.Spread)
			l.Advise(advice(c.queues, c.hosts, c.depth), epochZero)
			sum += len(l.sampleAll(many(c.queues), 0.5, epochZero.Add(time.Second)))
		}
		if avg := sum / c.queues; avg < c.min || avg > c.max {
			t.Errorf("%d hosts, depth %d: %d wait on average, want %d to %d", c.hosts, c.depth, avg, c.min, c.max)
		}
	}
}

// Where advice says that more should wait, they do; as many less where queues are many.
func TestAsManyWaitAsAreWanted(t *testing.T) {
	for _, c := range []struct {
		hosts, waiters uint32
		queues         int
		min, max       int
	}{{1000, 60, 20, 52, 68}, {1000, 60, 1000, 2, 5}, {20, 60, 20, 20, 20}, {1000, 8, 20, 6, 10}} {
		told := advice(c.queues, c.hosts, 0)
		for i := range told.About {
			told.About[i].Waiters = c.waiters
		}
		sum := 0
		for h := range c.hosts {
			l := NewSampler(compute.HostID(fmt.Sprint("h", h)), compute.Spread)
			l.Advise(told, epochZero)
			sum += len(l.sampleAll(many(c.queues), 0.5, epochZero.Add(time.Second)))
		}
		if avg := sum / c.queues; avg < c.min || avg > c.max {
			t.Errorf("%+v: %d wait on average", c, avg)
		}
	}
}

// Samples are renewed: over an hour every host waits on every queue now and then,
// and none on a queue all the time.
func TestSamplesRotate(t *testing.T) {
	l := NewSampler("h", compute.Spread)
	times := map[compute.QueueName]int{}
	for i := range 240 {
		now := epochZero.Add(time.Duration(i) * 15 * time.Second)
		l.Advise(advice(10, 32, 0), now)
		for _, c := range l.sampleAll(many(10), 0.5, now) {
			times[c.Queue]++
		}
	}
	for _, q := range many(10) {
		if n := times[q.Name]; n < 30 || n > 90 {
			t.Errorf("%s: waited on in %d of 240 epochs, want about 60", q.Name, n)
		}
	}
}

func TestWeighersTilt(t *testing.T) {
	count := func(w compute.Weigher, used float64) (n int) {
		for h := range 400 {
			l := NewSampler(compute.HostID(fmt.Sprint("h", h)), w)
			l.Advise(advice(20, 100, 0), epochZero)
			n += len(l.sampleAll(many(20), used, epochZero))
		}
		return n
	}
	if empty, full := count(compute.Spread, 0), count(compute.Spread, 1); empty < 2*full {
		t.Errorf("spread: empty hosts wait %d times, full ones %d", empty, full)
	}
	if empty, full := count(compute.Pack, 0), count(compute.Pack, 1); full < 2*empty {
		t.Errorf("pack: empty hosts wait %d times, full ones %d", empty, full)
	}
}

// With the queue manager dead, depths are forgotten after a minute, and every
// host visits every queue that fits once a minute.
func TestWithoutAdvice(t *testing.T) {
	queues := many(50)
	fresh := NewSampler("h", compute.Spread)
	if got := len(fresh.sampleAll(queues, 0.5, epochZero)); got != 50 {
		t.Errorf("no advice ever: waits on %d of 50", got)
	}
	l := NewSampler("h", compute.Spread)
	l.Advise(advice(50, 1_000_000, 2_000_000), epochZero)
	if got := len(l.sampleAll(queues, 0.5, epochZero.Add(59*time.Second))); got != MostExtra {
		t.Errorf("everybody should wait on some deep queues: %d of 50", got)
	}
	for begin := 60; begin < 200; begin += 7 {
		visited := map[compute.QueueName]bool{}
		for sec := begin; sec < begin+60; sec += 5 {
			got := l.sampleAll(queues, 0.5, epochZero.Add(time.Duration(sec)*time.Second))
			if len(got) > 30 {
				t.Errorf("at %d s it waits on %d queues at once", sec, len(got))
			}
			for _, c := range got {
				visited[c.Queue] = true
				if c.Deep {
					t.Errorf("%s still counts as deep", c.Queue)
				}
			}
		}
		if len(visited) != 50 {
			t.Errorf("within the minute from %d s: visited %d of 50", begin, len(visited))
		}
	}
}

func TestNextEpochIsWhenTheSampleChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewSampler(compute.HostID(rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "host")), compute.Spread)
		now := epochZero.Add(time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "now")))
		next := l.NextEpoch(now)
		if !next.After(now) || next.Sub(now) > Epoch {
			t.Fatalf("the next epoch is %s after now", next.Sub(now))
		}
		if l.epoch(next.Add(-1)) != l.epoch(now) || l.epoch(next) != l.epoch(now)+1 {
			t.Fatal("not at the epoch's end")
		}
	})
}

// A host whose clock is set back by hours looks at its queues as soon as it would have: the time has a monotonic part,
// which comparisons go by.
func TestNextEpochIsNoTimeOfTheWall(t *testing.T) {
	now := time.Now()
	next := NewSampler("h", compute.Spread).NextEpoch(now)
	if wall := next.Round(0); next.Sub(now) != wall.Sub(now.Round(0)) || next == wall {
		t.Errorf("the next epoch is %s, and now is %s", next, now)
	}
}

// A fetch lists 64 queues at most: deep ones first, the longest waiting first,
// and none is left out twice in a row as long as two fetches hold all.
func TestSixtyFourAtMost(t *testing.T) {
	l := NewSampler("h", compute.Spread)
	a := advice(100, 1, 0)
	for i := range 10 {
		a.About[90+i].Depth, a.About[90+i].Oldest = 1, epochZero.Add(-time.Duration(i)*time.Second)
	}
	l.Advise(a, epochZero)
	left := map[compute.QueueName]bool{}
	room := Room{free: compute.Resources{compute.VCPU: 1}}
	for round := range 6 {
		sampled := l.sampleAll(many(100), 0, epochZero)
		if round == 0 && (sampled[0].Queue != "q099" || sampled[9].Queue != "q090") {
			t.Errorf("first the longest waiting: %v", listed(sampled[:10]))
		}
		p := Plan(room, []Session{{Candidates: sampled}}, 1)[0]
		if len(p.Listed) != 64 || len(p.Left) != 36 {
			t.Fatalf("lists %d, leaves %d", len(p.Listed), len(p.Left))
		}
		for _, c := range p.Left {
			if left[c.Queue] {
				t.Errorf("round %d: %s is left out twice in a row", round, c.Queue)
			}
		}
		clear(left)
		for _, c := range p.Left {
			left[c.Queue] = true
		}
		l.Planned(p.Listed, p.Left)
	}
}

func someResources(t *rapid.T, most int64) compute.Resources {
	r := compute.Resources{}
	for _, c := range []compute.ResourceClass{compute.VCPU, compute.MemoryMB, "CUSTOM_PCI"} {
		if n := rapid.Int64Range(0, most).Draw(t, string(c)); n > 0 {
			r[c] = n
		}
	}
	return r
}

// Whatever all open fetches bring at once fits (I4), however they were opened:
// one record of any listed queue of each session.
func TestWhateverArrivesFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		free := someResources(t, 10)
		sessions := make([]Session, rapid.IntRange(1, 4).Draw(t, "sessions"))
		left := free.Clone()
		for i := range sessions {
			if open := someResources(t, 4); rapid.Bool().Draw(t, "open") && open.FitsIn(left) {
				sessions[i].Open, left = &Reserved{Most: open}, left.Minus(open)
			}
			for n := range rapid.IntRange(0, 5).Draw(t, "candidates") {
				sessions[i].Candidates = append(sessions[i].Candidates, Candidate{
					Queue: compute.QueueName(fmt.Sprint(i, "-", n)), Needs: someResources(t, 6),
					Skipped: rapid.IntRange(0, 2).Draw(t, "skipped"),
				})
			}
		}
		slots := rapid.IntRange(0, 5).Draw(t, "slots")
		plan := Plan(Room{free: free}, sessions, slots)
		rest, open := free.Clone(), 0
		for i, p := range plan {
			if sessions[i].Open != nil {
				open++
				rest = rest.Minus(sessions[i].Open.Most)
				if len(p.Listed)+len(p.Left) > 0 {
					t.Fatal("a busy session is opened")
				}
				continue
			}
			if len(p.Listed) > 0 {
				open++
			}
			if len(p.Listed)+len(p.Left) != len(sessions[i].Candidates) {
				t.Fatal("a candidate got lost")
			}
			most := compute.Resources{}
			for _, c := range p.Listed {
				most = most.Max(c.Needs)
			}
			if !most.Equal(p.Most) {
				t.Fatalf("reserves %s for what may bring %s", p.Most, most)
			}
			rest = rest.Minus(most)
		}
		for class, n := range rest {
			if n < 0 {
				t.Fatalf("%s: %d too much is offered", class, -n)
			}
		}
		if was := open; was > slots && anyOpened(plan) {
			t.Fatalf("%d fetches for %d slots", was, slots)
		}
		if len(sessions) == 1 && sessions[0].Open == nil && slots > 0 && len(plan[0].Listed) == 0 {
			for _, c := range sessions[0].Candidates {
				if c.Needs.FitsIn(free) {
					t.Fatalf("%s fits, and nothing is fetched", c.Queue)
				}
			}
		}
	})
}

func anyOpened(plan []Planned) bool {
	return slices.ContainsFunc(plan, func(p Planned) bool { return len(p.Listed) > 0 })
}

// Two brokers, and room for what is large in one session only: both sessions' queues are
// fetched again and again, though never at once. What is left out once is not left
// out for ever by those that need less.
func TestSessionsTakeTurns(t *testing.T) {
	nodes := Room{free: compute.Resources{compute.VCPU: 6}, nodes: []node{
		{id: 0, free: compute.Resources{compute.VCPU: 4}}, {id: 1, free: compute.Resources{compute.VCPU: 2}},
	}}
	for name, c := range map[string]struct {
		room         Room
		small, large compute.Resources
	}{
		"the only device": {
			Room{free: compute.Resources{compute.VCPU: 8, "CUSTOM_PCI": 1}}, compute.Resources{compute.VCPU: 1},
			compute.Resources{compute.VCPU: 1, "CUSTOM_PCI": 1},
		},
		"the larger node": {nodes, compute.Resources{compute.VCPU: 2}, compute.Resources{compute.VCPU: 4}},
		"the only card": {
			Terms{Devices: rules()}.Offer(compute.Inventory{}, nil, card(1, 2, 0)).Room(),
			compute.Resources{partClass: 1}, compute.Resources{wholeClass: 1},
		},
	} {
		t.Run(name, func(t *testing.T) { takeTurns(t, c.room, c.small, c.large) })
	}
}

func takeTurns(t *testing.T, room Room, small, large compute.Resources) {
	l := NewSampler("h", compute.Spread)
	var queues [2][]compute.Queue
	for i := range queues {
		for size, needs := range map[string]compute.Resources{"small": small, "large": large} {
			queues[i] = append(
				queues[i],
				compute.Queue{Name: compute.QueueName(fmt.Sprintf("session%d-%s", i, size)), Resources: needs},
			)
		}
	}
	var open [2]Planned
	last := map[compute.QueueName]int{}
	for round := range 60 {
		done := round % 2 // the fetch in this session ends
		open[done] = Planned{}
		var sessions []Session
		for i := range queues {
			var session Session
			if open[i].Most != nil {
				session.Open = &open[i].Reserved
			}
			for _, c := range l.sampleAll(queues[i], 0, epochZero) {
				if !slices.Contains(listed(open[i].Listed), c.Queue) {
					session.Candidates = append(session.Candidates, c)
				}
			}
			sessions = append(sessions, session)
		}
		for i, p := range Plan(room, sessions, 4) {
			l.Planned(p.Listed, p.Left)
			if len(p.Listed) > 0 {
				open[i] = p
			}
		}
		for _, p := range open {
			for _, c := range p.Listed {
				last[c.Queue] = round
			}
		}
		for i := range queues {
			for _, q := range queues[i] {
				if round > 8 && round-last[q.Name] > 7 {
					t.Fatalf("round %d: %s was last fetched in round %d", round, q.Name, last[q.Name])
				}
			}
		}
	}
}

// Three brokers: two sessions with small work, in which fetches end in turn, do not keep the host's whole room from a
// third, in which work lies.
func TestWhatNeedsAllTakesTurns(t *testing.T) {
	l := NewSampler("h", compute.Spread)
	room := Room{free: compute.Resources{compute.VCPU: 4}}
	queues := []compute.Queue{
		{Name: "a", Resources: compute.Resources{compute.VCPU: 1}},
		{Name: "b", Resources: compute.Resources{compute.VCPU: 1}},
		{Name: "all", Resources: compute.Resources{compute.VCPU: 4}},
	}
	l.Advise(compute.Advice{About: []compute.QueueAdvice{{Queue: "all", Depth: 1, Eligible: 1}}}, epochZero)
	open := make([]Planned, len(queues))
	times := map[compute.QueueName]int{}
	for round := range 60 {
		open[round%2], open[2] = Planned{}, Planned{} // these fetches end
		var sessions []Session
		for i, q := range queues {
			session := Session{}
			if open[i].Most != nil {
				session.Open = &open[i].Reserved
			} else {
				session.Candidates = l.sampleAll([]compute.Queue{q}, 0, epochZero)
			}
			sessions = append(sessions, session)
		}
		for i, p := range Plan(room, sessions, 4) {
			l.Planned(p.Listed, p.Left)
			if len(p.Listed) > 0 {
				open[i] = p
				times[p.Listed[0].Queue]++
			}
		}
	}
	for _, q := range queues {
		if times[q.Name] < 10 {
			t.Errorf("%s was fetched %d times in 60 rounds: %v", q.Name, times[q.Name], times)
		}
	}
}

func TestGuard(t *testing.T) {
	var g Guard
	now := epochZero
	fail := func() { g = g.Failed("no disk", 30*time.Second, now) }
	fail()
	fail()
	if g.Quarantined(now) {
		t.Error("quarantined after two failures")
	}
	fail()
	if !g.Quarantined(now) || g.Reason != "no disk" {
		t.Errorf("after three failures: %+v", g)
	}
	fail() // was under way
	if !g.Quarantined(now.Add(29*time.Second)) || g.Quarantined(now.Add(30*time.Second)) {
		t.Errorf("after three failures: %+v", g)
	}
	for _, want := range []time.Duration{time.Minute, 2 * time.Minute} {
		now = g.Until
		fail()
		if got := g.Until.Sub(now); got != want {
			t.Errorf("the next quarantine lasts %s, want %s", got, want)
		}
	}
	for range 20 {
		now = g.Until
		fail()
	}
	if got := g.Until.Sub(now); got != mostQuarantine {
		t.Errorf("it grows to %s, want %s", got, mostQuarantine)
	}
	if g = g.Succeeded(); g != (Guard{}) {
		t.Errorf("a success leaves %+v", g)
	}
}

// Work that was said to lie somewhere and did not come is not waited for again, until
// newer work lies there or an epoch ends; where the host has sampled the queue, it waits.
func TestWorkThatDoesNotComeIsNotWaitedFor(t *testing.T) {
	said := epochZero.Add(time.Hour) // by a clock that is not the host's
	deep := func(oldest time.Time) compute.Advice {
		a := advice(3, 1<<30, 1<<30)
		a.At, a.Full = said, false
		for i := range a.About {
			a.About[i].Oldest = oldest
		}
		return a
	}
	l := NewSampler("h", compute.Spread)
	l.Advise(deep(said.Add(-time.Second)), epochZero)
	sampled := func(at time.Time) (n int) {
		for _, c := range l.sampleAll(many(3), 0.5, at) {
			if !c.Extra || !c.Deep {
				t.Errorf("%s is sampled as %+v", c.Queue, c)
			}
			n++
		}
		return n
	}
	now := epochZero.Add(time.Second)
	if n := sampled(now); n != 3 {
		t.Fatalf("%d of 3 deep queues are sampled", n)
	}
	l.Refute("q000", now)
	if n := sampled(now); n != 2 {
		t.Errorf("%d queues, want the other 2", n)
	}
	l.Advise(deep(said), now)
	if n := sampled(now); n != 2 {
		t.Errorf("%d queues after the same was said again, want 2", n)
	}
	if n := sampled(now.Add(Epoch)); n != 3 {
		t.Errorf("%d queues when it has sampled anew, want 3", n)
	}
	l.Refute("q000", now)
	l.Advise(deep(said.Add(time.Millisecond)), now)
	if n := sampled(now); n != 3 {
		t.Errorf("%d queues with newer work, want 3", n)
	}
	l.Refute("q000", now)
	l.Advise(advice(3, 1, 1<<30), now)
	if all := l.sampleAll(many(3), 0.5, now); len(all) != 3 {
		t.Errorf("%d queues that are its by lot, want 3", len(all))
	}
}

// A quarantine that was written under a clock that was wrong then lasts no longer than one that begins now.
func TestAGuardUnderAnotherClock(t *testing.T) {
	now := time.Now()
	for until, want := range map[time.Duration]time.Duration{
		365 * 24 * time.Hour: 30 * time.Minute, 20 * time.Minute: 20 * time.Minute, -time.Hour: -time.Hour,
	} {
		got := Guard{Until: now.Add(until).Round(0)}.Restored(now).Until
		if left := got.Sub(now).Round(time.Millisecond); left != want {
			t.Errorf("%s is %s", until, left)
		}
		if want > 0 && !strings.Contains(got.String(), " m=") { // the other clock may be set meanwhile
			t.Errorf("%s goes by the clock that may be set", until)
		}
	}
}
