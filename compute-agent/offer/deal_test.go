package offer

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

// A host gets as many queues as their chances add up to, one more or less; all that are certain.
func TestAsManyAreDealt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chances := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(0, 1), rapid.Just(1.0)), 0, 200).Draw(t, "chances")
		d, sum, n := NewDeal(rapid.Uint64().Draw(t, "lot")), 0.0, 0
		for _, c := range chances {
			sum += c
			got := d.Next(c)
			if c == 1 && !got {
				t.Fatal("one that is certain was not dealt")
			}
			if c == 0 && got {
				t.Fatal("one that cannot be was dealt")
			}
			if got {
				n++
			}
		}
		if math.Abs(float64(n)-sum) > 1+1e-9 {
			t.Fatalf("%d dealt, chances are %v together", n, sum)
		}
	})
}

// Over many lots each is dealt with its chance.
func TestDealtByChance(t *testing.T) {
	chances := []float64{0.5, 0.01, 1, 0.3, 0.3, 0.99}
	const lots = 100_000
	got := make([]int, len(chances))
	for i := range uint64(lots) {
		d := NewDeal(hash("lot", "", i))
		for q, c := range chances {
			if d.Next(c) {
				got[q]++
			}
		}
	}
	for q, c := range chances {
		if off := math.Abs(float64(got[q]) - c*lots); off > 5*math.Sqrt(c*(1-c)*lots) {
			t.Errorf("dealt %d of %d times, its chance is %v", got[q], lots, c)
		}
	}
}

// Hosts wait on as many queues, and on each queue as many hosts as if each had drawn for itself.
func TestHostsWaitOnAsMany(t *testing.T) {
	const hosts, queues = 1000, 150 // 1.2 queues a host
	least, most := queues, 0
	waiters := map[compute.QueueName]int{}
	beside := map[compute.QueueName]int{} // what those who wait on the first wait on too
	for h := range hosts {
		l := NewLots(compute.HostID(fmt.Sprint("h", h)), Spread)
		l.Hear(advice(queues, hosts, 0), epochZero)
		got := l.draws(many(queues), 0.5, epochZero.Add(time.Second))
		least, most = min(least, len(got)), max(most, len(got))
		first := slices.ContainsFunc(got, func(c Candidate) bool { return c.Queue == "q000" })
		for _, c := range got {
			waiters[c.Queue]++
			if first && c.Queue != "q000" {
				beside[c.Queue]++
			}
		}
	}
	if least != 1 || most != 2 {
		t.Errorf("hosts wait on %d to %d queues, want 1 or 2", least, most)
	}
	squares := 0.0
	for _, q := range many(queues) {
		squares += math.Pow(float64(waiters[q.Name])-8, 2)
		if beside[q.Name] > 2 {
			t.Errorf("%d who wait on q000 wait on %s too", beside[q.Name], q.Name)
		}
	}
	if variance := squares / queues; variance < 5 || variance > 12 {
		t.Errorf("the variance of waiters is %.1f, want about 8", variance)
	}
}

// What a host takes does not deal it other queues: those it waits on would lose it as soon as
// work comes into them.
func TestABuildDealsNothingElse(t *testing.T) {
	names := func(cs []Candidate) (out []compute.QueueName) {
		for _, c := range cs {
			out = append(out, c.Queue)
		}
		slices.Sort(out)
		return out
	}
	for h := range 50 {
		l := NewLots(compute.HostID(fmt.Sprint("h", h)), Spread)
		l.Hear(advice(100, 100, 0), epochZero)
		l.List(many(100))
		room := Room{free: compute.Resources{compute.VCPU: 1}}
		now := epochZero
		before := names(l.Wait(room, 0.1, now))
		after := names(l.Wait(room, 0.9, now))
		if !slices.Equal(before, after) {
			t.Fatalf("fuller, it waits on %v instead of %v", after, before)
		}
		if turned := l.Wait(room, 0.9, l.Turns(now)); 2*len(turned) > len(before) {
			t.Errorf("when the lots have turned it waits on %d queues, on %d when it was empty", len(turned), len(before))
		}
	}
}
