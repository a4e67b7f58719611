// SPDX-License-Identifier: Apache-2.0

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
func TestAsManyAreChosen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chances := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(0, 1), rapid.Just(1.0)), 0, 200).Draw(t, "chances")
		d, sum, n := NewSystematic(rapid.Uint64().Draw(t, "lot")), 0.0, 0
		for _, c := range chances {
			sum += c
			got := d.Next(c)
			if c == 1 && !got {
				t.Fatal("one that is certain was not sampled")
			}
			if c == 0 && got {
				t.Fatal("one that cannot be was sampled")
			}
			if got {
				n++
			}
		}
		if math.Abs(float64(n)-sum) > 1+1e-9 {
			t.Fatalf("%d sampled, chances are %v together", n, sum)
		}
	})
}

// Over many samples each is sampled with its chance.
func TestChosenByChance(t *testing.T) {
	chances := []float64{0.5, 0.01, 1, 0.3, 0.3, 0.99}
	const samples = 100_000
	got := make([]int, len(chances))
	for i := range uint64(samples) {
		d := NewSystematic(hash("lot", "", i))
		for q, c := range chances {
			if d.Next(c) {
				got[q]++
			}
		}
	}
	for q, c := range chances {
		if off := math.Abs(float64(got[q]) - c*samples); off > 5*math.Sqrt(c*(1-c)*samples) {
			t.Errorf("sampled %d of %d times, its chance is %v", got[q], samples, c)
		}
	}
}

// Hosts wait on as many queues, and on each queue as many hosts as if each had sampled by itself.
func TestHostsWaitOnAsMany(t *testing.T) {
	const hosts, queues = 1000, 300 // 2.4 queues a host
	least, most := queues, 0
	waiters := map[compute.QueueName]int{}
	beside := map[compute.QueueName]int{} // what hosts that wait on the first wait on too
	for h := range hosts {
		l := NewSampler(compute.HostID(fmt.Sprint("h", h)), compute.Spread)
		l.Advise(advice(queues, hosts, 0), epochZero)
		got := l.sampleAll(many(queues), 0.5, epochZero.Add(time.Second))
		least, most = min(least, len(got)), max(most, len(got))
		first := slices.ContainsFunc(got, func(c Candidate) bool { return c.Queue == "q000" })
		for _, c := range got {
			waiters[c.Queue]++
			if first && c.Queue != "q000" {
				beside[c.Queue]++
			}
		}
	}
	if least != 2 || most != 3 {
		t.Errorf("hosts wait on %d to %d queues, want 2 or 3", least, most)
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

// What a host takes does not choose it other queues: those it waits on would lose it as soon as
// work comes into them.
func TestABuildChangesNoSample(t *testing.T) {
	for h := range 50 {
		l := NewSampler(compute.HostID(fmt.Sprint("h", h)), compute.Spread)
		l.Advise(advice(100, 100, 0), epochZero)
		l.List(many(100))
		room := Room{free: compute.Resources{compute.VCPU: 1}}
		now := epochZero
		before := inOrder(l.Sample(room, 0.1, now))
		after := inOrder(l.Sample(room, 0.9, now))
		if !slices.Equal(before, after) {
			t.Fatalf("fuller, it waits on %v instead of %v", after, before)
		}
		if renewed := l.Sample(room, 0.9, l.NextEpoch(now)); 2*len(renewed) > len(before) {
			t.Errorf(
				"when it has sampled anew it waits on %d queues, on %d when it was empty", len(renewed), len(before),
			)
		}
	}
}

func inOrder(cs []Candidate) []compute.QueueName {
	out := listed(cs)
	slices.Sort(out)
	return out
}

// What is told of one queue chooses no others for a host: all hosts hear of it at once.
func TestAdviceChangesOneQueue(t *testing.T) {
	const hosts, queues = 1000, 100
	other := compute.Queue{Name: "other", Resources: compute.Resources{compute.VCPU: 1}}
	about := func(q compute.QueueName, waiters uint32) compute.Advice {
		return compute.Advice{About: []compute.QueueAdvice{{Queue: q, Eligible: hosts, Waiters: waiters}}}
	}
	for _, c := range []struct {
		when    string
		before  uint32 // hosts that should wait on q003 when all are sampled
		happen  func(*Sampler)
		of      compute.QueueName // which alone may be another's then
		want    float64           // hosts that wait on it
		renewed float64           // and when hosts have sampled anew
	}{
		{"more comes into one", 8, func(l *Sampler) { l.Advise(about("q003", 40), epochZero) }, "q003", 40, 40},
		{
			"more comes, and no more", 8,
			func(l *Sampler) { l.Advise(about("q003", 40), epochZero); l.Advise(about("q003", 8), epochZero) },
			"q003", 8, 8,
		},
		{"less comes into one", 80, func(l *Sampler) { l.Advise(about("q003", 20), epochZero) }, "q003", 20, 20},
		{"hosts fell silent", 8, func(l *Sampler) { l.Advise(advice(queues, hosts-100, 0), epochZero) }, "", 0, 0},
		{"one is opened", 8, func(l *Sampler) {
			l.List(append(many(queues), other))
			l.Advise(about(other.Name, 0), epochZero)
		}, other.Name, 8, 8},
	} {
		waiting, renewed := 0, 0
		for h := range hosts {
			l := NewSampler(compute.HostID(fmt.Sprint("h", h)), compute.Spread)
			l.Advise(advice(queues, hosts, 0), epochZero)
			l.Advise(about("q003", c.before), epochZero)
			before := inOrder(l.sampleAll(many(queues), 0.5, epochZero))
			c.happen(l)
			room := Room{free: compute.Resources{compute.VCPU: 1}}
			after := inOrder(l.Sample(room, 0.5, epochZero))
			for _, q := range before {
				if q != c.of && !slices.Contains(after, q) {
					t.Fatalf("%s: h%d waits on %v instead of %v", c.when, h, after, before)
				}
			}
			if len(after) > len(before)+1 && c.of != "" {
				t.Fatalf("%s: h%d waits on %v instead of %v", c.when, h, after, before)
			}
			if slices.Contains(after, c.of) {
				waiting++
			}
			if slices.Contains(inOrder(l.Sample(room, 0.5, l.NextEpoch(epochZero))), c.of) {
				renewed++
			}
		}
		near := func(got int, want float64) bool { return math.Abs(float64(got)-want) <= 5*math.Sqrt(want) }
		if !near(waiting, c.want) || !near(renewed, c.renewed) {
			t.Errorf(
				"%s: %d hosts wait on %s, want about %v, and %d when hosts have sampled anew, want about %v", c.when,
				waiting, c.of, c.want, renewed, c.renewed,
			)
		}
	}
}

// Work brings as many as should wait, also where many do without it.
func TestWorkBringsAsManyAsShould(t *testing.T) {
	const hosts = 4000
	for _, depth := range []uint64{0, 1, 4, 10} {
		waiting := 0
		for h := range hosts {
			l := NewSampler(compute.HostID(fmt.Sprint("h", h)), compute.Spread)
			l.Advise(
				compute.Advice{About: []compute.QueueAdvice{{Queue: "q000", Eligible: 20, Depth: depth}}}, epochZero,
			)
			waiting += len(l.sampleAll(many(1), 0.5, epochZero))
		}
		want := float64(8+depth) / 20
		if off := math.Abs(float64(waiting) - want*hosts); off > 5*math.Sqrt(want*(1-want)*hosts) {
			t.Errorf("with %d in it %d of %d hosts wait, want %v of them", depth, waiting, hosts, want)
		}
	}
}
