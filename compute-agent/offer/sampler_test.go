// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

var plenty = Room{free: compute.Resources{compute.VCPU: 1}}

// told is a host of very many that was told about n queues, and waits on none by lot.
func told(n int, depth uint64) *Sampler {
	l := NewSampler("h", compute.Spread)
	l.List(many(n))
	l.Advise(advice(n, 1<<30, depth), epochZero)
	return l
}

// A full advice says all there is: what it does not name is not known any more.
func TestFullAdviceForgetsTheRest(t *testing.T) {
	for _, again := range []bool{false, true} {
		l := told(3, 0)
		if got := l.Sample(plenty, 0.5, epochZero); len(got) != 0 {
			t.Fatalf("it waits on %v", listed(got))
		}
		l.Advise(advice(1, 1<<30, 0), epochZero)
		if again { // from what is remembered
			l.List(many(3))
		}
		if got := inOrder(l.Sample(plenty, 0.5, epochZero)); !slices.Equal(got, []compute.QueueName{"q001", "q002"}) {
			t.Errorf("listed again %t: it waits on %v", again, got)
		}
	}
}

// A queue that is gone leaves nothing; one made anew under its name is one of which nothing is known.
func TestForgetLeavesNothing(t *testing.T) {
	l := told(2, 1<<40)
	l.Planned(nil, []Candidate{{Queue: "q001"}})
	l.Refute("q001", epochZero)
	l.Forget("q001")
	if _, known := l.about["q001"]; known || len(l.skipped)+len(l.refuted) != 0 || len(l.deep) != 1 {
		t.Errorf("left are %v, %v, %v, %v", l.about, l.skipped, l.refuted, l.deep)
	}
	sampled := l.Sample(plenty, 0.5, epochZero)
	i := slices.IndexFunc(sampled, func(c Candidate) bool { return c.Queue == "q001" })
	if i < 0 || sampled[i].Deep || sampled[i].Extra {
		t.Errorf("it waits on %+v", sampled)
	}
}

// What is sampled says why, and nothing that is not so.
func TestWhatIsSampled(t *testing.T) {
	l := NewSampler("h", compute.Spread)
	l.List(many(1))
	since := epochZero.Add(-time.Minute)
	l.Advise(compute.Advice{At: epochZero, About: []compute.QueueAdvice{{Queue: "q000", Eligible: 1, Depth: 1,
		Oldest: since}}}, epochZero)
	sampled := func(deep bool, oldest time.Time) {
		t.Helper()
		got := l.Sample(plenty, 0.5, epochZero)
		if len(got) != 1 || got[0].Deep != deep || !got[0].Oldest.Equal(oldest) || got[0].Extra ||
			!got[0].Since.Equal(oldest) {
			t.Errorf("%+v", got)
		}
	}
	sampled(true, since)
	l.Refute("q000", epochZero)
	sampled(false, time.Time{})
	l.Advise(compute.Advice{At: epochZero, About: []compute.QueueAdvice{{Queue: "q000", Eligible: 1}}}, epochZero)
	sampled(false, time.Time{})
	if got := l.Sample(Room{free: compute.Resources{}}, 0.5, epochZero); len(got) != 0 {
		t.Errorf("without room it waits on %+v", got)
	}
}

// One build is work, too.
func TestOneBuildIsPolledFor(t *testing.T) {
	l := NewSampler("h", compute.Spread)
	l.Advise(advice(1, 1000, 1), epochZero)
	if got := l.shortPoll(0, every, every); len(got) != 1 {
		t.Errorf("pollsFor at %v", got)
	}
}

// Where work lies in many queues, a host waits on others of them each time.
func TestExtrasRotate(t *testing.T) {
	l := told(50, 1<<40)
	seen := map[compute.QueueName]bool{}
	for e := range 40 {
		now := epochZero.Add(time.Duration(e) * Epoch)
		l.Advise(advice(50, 1<<30, 1<<40), now)
		sampled := l.Sample(plenty, 0.5, now)
		if len(sampled) != MostExtra {
			t.Fatalf("it waits on %v", listed(sampled))
		}
		for _, c := range sampled {
			seen[c.Queue] = true
		}
	}
	if len(seen) < 40 {
		t.Errorf("in 40 epochs it waited on %d of 50 queues", len(seen))
	}
	var is []int
	for own := range 6 {
		is = append(is, Extra(own))
	}
	if diff := cmp.Diff([]int{4, 3, 2, 1, 1, 1}, is); diff != "" {
		t.Error(diff)
	}
}

// What was fetched was not left out.
func TestFetchedIsNotLeftOut(t *testing.T) {
	l := told(2, 0)
	c := Candidate{Queue: "q000"}
	for want := 1; want < 4; want++ {
		c.Skipped = l.Skipped(c.Queue)
		if l.Planned(nil, []Candidate{c}); l.Skipped(c.Queue) != want {
			t.Errorf("left out %d times, want %d", l.Skipped(c.Queue), want)
		}
	}
	if l.Planned([]Candidate{c}, nil); l.Skipped(c.Queue) != 0 || len(l.skipped) != 0 {
		t.Errorf("fetched, and left out %d times", l.Skipped(c.Queue))
	}
}

// A doubt ends with its time, and is forgotten then.
func TestRefutedEnds(t *testing.T) {
	l := told(1, 1<<40)
	l.Refute("q000", epochZero)
	if got := l.Sample(plenty, 0.5, epochZero.Add(Epoch)); len(got) != 1 || len(l.refuted) != 0 {
		t.Errorf("it waits on %v, in doubt are %v", got, l.refuted)
	}
}

// Where no host is said to be eligible, a host that finds that it is waits.
func TestChancesWhereNobodyIs(t *testing.T) {
	if own, all := Share(0).Chances(compute.QueueAdvice{}); own != 1 || all != 1 {
		t.Errorf("%v, %v", own, all)
	}
	if own, all := Share(1000).Chances(compute.QueueAdvice{Depth: 3}); own != 1 || all != 1 {
		t.Errorf("%v, %v", own, all)
	}
}

// Hosts do not all change over at once.
func TestHostsTurnAtOtherTimes(t *testing.T) {
	seen := map[time.Time]bool{}
	for h := range 100 {
		seen[NewSampler(compute.HostID(fmt.Sprint("h", h)), compute.Spread).NextEpoch(epochZero)] = true
	}
	if len(seen) < 99 {
		t.Errorf("100 hosts sample anew at %d moments", len(seen))
	}
}

// Of several pieces of advice that are read at once, each is as old as it is; of another queue manager with a clock
// that is behind, none is old.
func TestAdviceThatIsReadAtOnce(t *testing.T) {
	l := NewSampler("h", compute.Spread)
	advise := func(said, now time.Duration) {
		l.Advise(compute.Advice{At: epochZero.Add(said), Rings: true}, epochZero.Add(now))
	}
	const late = 2 * compute.RingsLast
	advise(0, 0)
	advise(time.Second, late)
	advise(2*time.Second, late)
	if l.Rung(epochZero.Add(late)) {
		t.Error("it was read late, and counts as new")
	}
	advise(-time.Hour, late+10*time.Second)
	if !l.Rung(epochZero.Add(late + 10*time.Second)) {
		t.Error("what another queue manager said counts as old")
	}
}

// Names are told apart, and every bit of a hash depends on every bit of the number.
func TestHash(t *testing.T) {
	if hash("ab", "c", 0) == hash("a", "bc", 0) {
		t.Error("two names are as one")
	}
	const samples = 400
	var flips [64][64]int
	for i := range uint64(samples) {
		h := hash("h", "q", i*i)
		for in := range 64 {
			changed := h ^ hash("h", "q", i*i^1<<in)
			for out := range 64 {
				flips[in][out] += int(changed >> out & 1)
			}
		}
	}
	for in := range 64 {
		for out, n := range flips[in] {
			if n < samples/4 || n > samples*3/4 {
				t.Fatalf("bit %d changes bit %d in %d of %d", in, out, n, samples)
			}
		}
	}
}

// Only queues of which something is known are shared out among hosts.
func TestShareIsOfWhatIsKnown(t *testing.T) {
	l := NewSampler("h", compute.Spread)
	l.List(many(10))
	l.Advise(advice(2, 8, 0), epochZero)
	if l.Sample(plenty, 0.5, epochZero); l.share != 2 {
		t.Errorf("it would wait on %v queues, want 2", l.share)
	}
	l.Advise(advice(9, 8, 0), epochZero)
	l.Advise(advice(3, 8, 0), epochZero) // which is all
	l.Sample(plenty, 0.5, epochZero)
	l.Forget("q001")
	if l.Sample(plenty, 0.5, epochZero); l.share != 2 {
		t.Errorf("it would wait on %v queues, want 2 still", l.share)
	}
}

// Advice of some queues leaves what is known of the others; and a list that is read again leaves the sample of an
// epoch.
func TestWhatIsNotNamedStays(t *testing.T) {
	l := told(2, 0)
	l.Advise(compute.Advice{About: []compute.QueueAdvice{{Queue: "q000", Eligible: 1 << 30}}}, epochZero)
	if got := l.Sample(plenty, 0.5, epochZero); len(got) != 0 {
		t.Errorf("it waits on %v", listed(got))
	}
	for h := range 50 {
		l := NewSampler(compute.HostID(fmt.Sprint("h", h)), compute.Spread)
		l.Advise(advice(100, 100, 0), epochZero)
		before := inOrder(l.sampleAll(many(100), 0.5, epochZero))
		all := many(101)
		slices.Reverse(all)
		l.List(all[1:])
		if after := inOrder(l.Sample(plenty, 0.5, epochZero)); !slices.Equal(before, after) {
			t.Errorf("h%d waits on %v, and then on %v", h, before, after)
		}
	}
}

// Work in a queue that full advice does not name is not known any more.
func TestFullAdviceForgetsWork(t *testing.T) {
	l := told(2, 1<<40)
	l.Advise(advice(1, 1<<30, 1<<40), epochZero)
	for _, c := range l.Sample(plenty, 0.5, epochZero) {
		if c.Deep != (c.Queue == "q000") {
			t.Errorf("%+v", c)
		}
	}
}

// How likely a host waits: as many hosts as should, but fewer where each would wait on more queues than it may, and two
// at least; with what lies there one more for each.
func TestChances(t *testing.T) {
	for _, c := range []struct {
		share     Share
		eligible  uint32
		depth     uint64
		own, both float64 // hosts
	}{
		{0, 1000, 0, 8, 8}, {0, 1000, 5, 8, 13}, {1, 1000, 5, 8, 13}, {3, 1000, 0, 8, 8}, {6, 1000, 0, 4, 4},
		{6, 1000, 5, 4, 13}, {30, 1000, 0, 2, 2}, {3, 4000, 0, 4, 4}, {6, 250, 0, 8, 8}, {0.5, 1_000_000, 0, 2, 2},
		{0, 4, 0, 4, 4}, {0, 9, 9, 8, 9},
	} {
		own, all := c.share.Chances(compute.QueueAdvice{Eligible: c.eligible, Depth: c.depth})
		if n := float64(c.eligible); math.Abs(own*n-c.own) > 1e-6 || math.Abs(all*n-c.both) > 1e-6 {
			t.Errorf("%+v: %v, %v hosts", c, own*n, all*n)
		}
	}
	var s Share
	s.Add(compute.QueueAdvice{Eligible: 16, Depth: 100})
	s.Add(compute.QueueAdvice{Eligible: 4})
	if s != 1.5 {
		t.Errorf("a host waits on %v queues", s)
	}
	for w, want := range map[compute.Weigher]float64{compute.Spread: 0.7, compute.Pack: 0.3} {
		if got := Chance(w, 0.5, 0.1); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", w, got, want)
		}
	}
}

// What is known of the work in a queue, and for how long.
func TestWhatIsKnownOfWork(t *testing.T) {
	l := NewSampler("h", compute.Spread)
	since := epochZero.Add(-time.Minute)
	l.Advise(compute.Advice{At: epochZero, About: []compute.QueueAdvice{
		{Queue: "late", Eligible: 1, Depth: 1, Oldest: since, Late: true}, {Queue: "soon", Eligible: 1, Depth: 2},
		{Queue: "none", Eligible: 1, Late: true},
	}}, epochZero)
	if !l.Late("late") || l.Late("soon") || l.Late("none") || l.Late("other") || !l.Oldest("late").Equal(since) {
		t.Error("which queues are late")
	}
	known, unknown := Lies{high, since, 1}, Lies{Priority: high}
	check := func(what string, q compute.QueueName, after time.Duration, want Lies) {
		t.Helper()
		if got := l.Lies(q, high, epochZero.Add(after)); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	check("work", "late", 0, known)
	check("no work", "none", 0, unknown)
	check("work that was known just now", "late", stale-1, known)
	check("work that was known", "late", stale, unknown)
	if l.Refuted("late", epochZero) {
		t.Error("it was not looked for yet")
	}
	l.Refute("late", epochZero)
	check("work that was looked for in vain", "late", 0, unknown)
	if !l.Refuted("late", epochZero.Add(Epoch-1)) || l.Refuted("late", epochZero.Add(Epoch)) ||
		l.Refuted("soon", epochZero) {
		t.Error("for how long it was")
	}
}

// Within an epoch a host that is rung polls the same queues each time.
func TestShortPollsStay(t *testing.T) {
	l := polling(100)
	want := l.shortPoll(0, every, every)
	for range 20 {
		if got := l.shortPoll(0, every, every); !slices.Equal(got, want) {
			t.Fatalf("it polls %v, and then %v", want, got)
		}
	}
}

// A queue that is told of in the middle of an epoch was not sampled: its chance decides.
func TestWhatIsToldLater(t *testing.T) {
	for eligible, want := range map[uint32]int{8: 1, 1 << 30: 0} {
		l := NewSampler("h", compute.Spread)
		l.List(many(1))
		if got := l.Sample(plenty, 0.5, epochZero); len(got) != 1 {
			t.Fatalf("where nothing is known it waits on %v", got)
		}
		l.Advise(advice(1, eligible, 0), epochZero)
		if got := l.Sample(plenty, 0.5, epochZero); len(got) != want {
			t.Errorf("of %d hosts: it waits on %v", eligible, got)
		}
	}
}

// Whatever the chance was with which a host sampled a queue, it waits with the chance of now.
func TestWaitsWithTheChanceOfNow(t *testing.T) {
	const samples = 20_000
	for _, w := range []compute.Weigher{compute.Spread, compute.Pack} {
		for _, c := range []struct{ sampled, now, used float64 }{{0.2, 0.6, 0.1}, {0.6, 0.2, 0.1}, {0.3, 0.5, 0.9},
			{0.5, 0.3, 0.9}, {0.4, 1, 0.5}, {0, 0.3, 0.5}} {
			waits := 0
			for i := range uint64(samples) {
				mine := fraction(hash("dealt", "", i)) < Chance(w, c.sampled, c.used)
				if Waits(w, mine, c.sampled, c.now, hash("now", "", i), c.used) {
					waits++
				}
			}
			want := Chance(w, c.now, c.used)
			if off := math.Abs(float64(waits) - want*samples); off > 5*math.Sqrt(want*(1-want)*samples)+1e-6 {
				t.Errorf("weigher %s, %+v: %d of %d wait, want %v of them", w, c, waits, samples, want)
			}
		}
		if got := Chance(w, 1, 0.5+float64(1-w)/2); got != 1 {
			t.Errorf("weigher %s keeps somebody away where all should wait: %v", w, got)
		}
	}
}

func TestUsed(t *testing.T) {
	for _, c := range []struct {
		totals, free compute.Resources
		want         float64
	}{
		{nil, nil, 0},
		{compute.Resources{compute.VCPU: 4, compute.MemoryMB: 10}, compute.Resources{compute.VCPU: 3,
			compute.MemoryMB: 5}, 0.5},
		{compute.Resources{compute.VCPU: 1}, compute.Resources{compute.VCPU: 0}, 1},
		{compute.Resources{compute.VCPU: 4}, compute.Resources{compute.VCPU: -4}, 1},
		{compute.Resources{compute.VCPU: 4}, compute.Resources{compute.VCPU: 4}, 0},
		{compute.Resources{compute.VCPU: 4}, compute.Resources{compute.VCPU: 6}, 0},
		{
			compute.Resources{compute.VCPU: 0, compute.DiskGB: 4},
			compute.Resources{compute.VCPU: -1, compute.DiskGB: 3}, 0.25,
		},
	} {
		if got := Used(c.totals, c.free); got != c.want {
			t.Errorf("%v of %v free: %v is used, want %v", c.free, c.totals, got, c.want)
		}
	}
}
