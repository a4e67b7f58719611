// SPDX-License-Identifier: Apache-2.0

package size

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
)

func quiet(Progress) error { return nil }

func run(t interface{ Fatal(...any) }, o Options) Result {
	r, err := Run(o, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// small is a cell of any kind that runs in no time.
func small(t *rapid.T) Options {
	o := DefaultOptions()
	o.Seed = rapid.Uint64().Draw(t, "seed")
	o.Hosts = rapid.IntRange(1, 60).Draw(t, "hosts")
	o.Requests = rapid.IntRange(1, 300).Draw(t, "requests")
	o.Rate = rapid.SampledFrom([]float64{0, 20, 200, 2000}).Draw(t, "rate")
	o.Queues = rapid.IntRange(1, 30).Draw(t, "queues")
	o.Brokers = rapid.IntRange(1, 4).Draw(t, "brokers")
	o.Replication = 1
	o.Conductors = rapid.IntRange(1, 4).Draw(t, "conductors")
	o.Slots = rapid.IntRange(1, 4).Draw(t, "slots")
	o.Sizes = rapid.SampledFrom([][]int{{1}, {1, 2, 4}, {4, 1}}).Draw(t, "sizes")
	o.HostSize = rapid.SampledFrom([]int{0, 4, 7}).Draw(t, "host size")
	o.Prepare = rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "prepare")
	o.Waiters = rapid.SampledFrom([]int{0, 0, 8}).Draw(t, "waiters")
	return o
}

// Each request is granted once or has no room; no host has more than it has room for.
// What was taken from a host's room is what was granted to it, added up in a way that
// has nothing to do with rooms.
func TestEachOnceAndNoneAboveItsRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := fresh(small(t))
		w.begin()
		if err := w.run(quiet); err != nil {
			t.Fatal(err)
		}
		on, granted := make([]int, len(w.hosts)), 0
		for _, i := range w.instances {
			if i.host >= 0 {
				on[i.host] += w.o.Sizes[int(i.queue)%len(w.o.Sizes)]
				granted++
			}
		}
		if w.doubled > 0 || granted != w.granted || w.granted != w.active {
			t.Fatalf("%d doubled, %d granted, counted %d, %d active", w.doubled, granted, w.granted, w.active)
		}
		left := 0
		for h, used := range on {
			free := w.hosts[h].room.Free()[compute.VCPU]
			if used > w.o.size() || free != int64(w.o.size()-used) {
				t.Fatalf("host %d of %d has machines for %d, and says that %d are free", h, w.o.size(), used, free)
			}
			left += int(free)
		}
		// What is left fits no host.
		for i, x := range w.instances {
			for h := range w.hosts {
				if x.host < 0 && w.o.Waiters == 0 && w.hosts[h].room.Fits(w.queues[x.queue].needs) {
					t.Fatalf("%d was left, and has room on host %d; %d free in all", i, h, left)
				}
			}
		}
		for i := range w.instances {
			if x := w.instances[i]; x.host >= 0 && x.granted < x.accepted {
				t.Fatalf("%d was granted before it was accepted", i)
			}
		}
	})
}

func TestTheSameOptionsGiveTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := small(t)
		if a, b := run(t, o), run(t, o); !reflect.DeepEqual(a, b) {
			t.Fatalf("once %+v\nthen %+v", a, b)
		}
	})
	o := DefaultOptions()
	a := run(t, o)
	o.Seed++
	if b := run(t, o); reflect.DeepEqual(a, b) {
		t.Error("the seed changes nothing")
	}
}

// More of what is busy makes it no slower: a tenth is left for chance.
func TestMoreIsNotSlower(t *testing.T) {
	base := DefaultOptions()
	base.Brokers, base.Replication, base.Processors, base.Requests, base.Conductors = 2, 1, 1, 6_000, 1
	for name, more := range map[string]func(*Options, int){
		"hosts": func(o *Options, n int) {
			o.Hosts, o.Prepare, o.Processors = 50*n, 500*time.Millisecond, 8 // builds are what takes the time
		},
		"processors": func(o *Options, n int) { o.Requests, o.Processors = 20_000, float64(n)/2 },
		"brokers":    func(o *Options, n int) { o.Requests, o.Brokers = 20_000, n },
		"slots":      func(o *Options, n int) { o.Hosts, o.Slots, o.Prepare = 50, n, 500*time.Millisecond },
	} {
		var last Result
		for i, n := range []int{1, 2, 4} {
			o := base
			more(&o, n)
			r := run(t, o)
			if r.Left > 0 || i > 0 && r.Seconds > 1.1*last.Seconds {
				t.Errorf("%s ×%d: %.1f s, before %.1f s; %d left", name, n, r.Seconds, last.Seconds, r.Left)
			}
			if i == 2 && r.Seconds > 0.8*run(t, func() Options { o := base; more(&o, 1); return o }()).Seconds {
				t.Errorf("%s: four times as many change nothing: %.1f s", name, r.Seconds)
			}
			last = r
		}
	}
}

// free of all costs, with no chance in it but sampling.
func free(m Mode) Options {
	o := DefaultOptions()
	o.Mode, o.Costs, o.Hop, o.Journal, o.Brokers, o.Replication = m, Costs{}, 0, 0, 1, 1
	o.Conductors, o.Partitions, o.Hosts, o.Queues = 1, 1, 1, 1
	o.Waiters = 1
	return o
}

// A host with one slot builds one after the other: ten in ten seconds.
func TestOneHostOneSlot(t *testing.T) {
	o := free(Floor)
	o.Requests, o.Slots, o.Prepare = 10, 1, time.Second
	if r := run(t, o); r.Seconds != 10 || r.GrantedMS.Max != 10_000 || r.GrantedMS.P50 != 6000 {
		t.Errorf("%.3f s, %+v", r.Seconds, r.GrantedMS)
	}
	o.Slots = 2
	if r := run(t, o); r.Seconds != 5 {
		t.Errorf("two slots: %.3f s", r.Seconds)
	}
	o.Hosts, o.Waiters = 5, 5
	if r := run(t, o); r.Seconds != 1 {
		t.Errorf("five hosts: %.3f s", r.Seconds)
	}
}

// What a boot asks of brokers when it is alone: its request; request, claim and end read
// and written; build and grant; the next fetch, acknowledgement, two reports, the stream.
func TestRequestsOfOneBoot(t *testing.T) {
	o := free(Floor)
	o.Requests, o.Rate = 1, 1
	want := map[string]float64{
		"request": 1, "turn": 3, "write": 3, "effects": 2, "share fetch": 1, "ack": 1, "report": 2, "stream": 1,
		"read": 1,
	}
	if got := run(t, o).PerBoot; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Three processors and work of 1 ms: one takes 1 ms, and behind five others it takes 2.
func TestStation(t *testing.T) {
	s := station{processors: 3}
	if got := s.do(0, 1e6); got != 1e6 {
		t.Errorf("alone: %d", got)
	}
	for range 4 {
		s.do(0, 1e6)
	}
	if got := s.do(0, 1e6); math.Abs(float64(got)-2.67e6) > 0.01e6 || s.busy != 6e6 {
		t.Errorf("the sixth: %d, %v busy", got, s.busy)
	}
	if !s.idle(2e6) || s.idle(1.99e6) {
		t.Error("idle")
	}
}

// A record wakes all hosts that wait, and costs by how many they are and how much each lists.
func TestWoken(t *testing.T) {
	w := &world{o: DefaultOptions(), queues: []queue{{live: 17, listing: 34}}}
	one := float64(w.o.Costs.Woken)
	if got := w.wakes(0, 1); got != one*4*2 {
		t.Errorf("the first: %v", got/one)
	}
	if got := w.wakes(0, 1); got != one*math.Sqrt(15)*2 {
		t.Errorf("the second of a request: %v", got/one)
	}
	if got := w.wakes(0, 2); got != one*4*2 {
		t.Errorf("the next request: %v", got/one)
	}
}

// What is sampled here is what offer.Sampler samples of the same advice: as many queues, spread over
// hosts as evenly.
func TestSamplesLikeTheSampler(t *testing.T) {
	const hosts, queues = 400, 200
	for _, c := range []struct {
		eligible uint32
		depth    uint64
		used     int
	}{{2000, 0, 0}, {2000, 0, 8}, {2000, 300, 4}, {2000, 5000, 4}, {100, 0, 4}, {4, 0, 4}, {0, 0, 4}} {
		for _, weigher := range []compute.Weigher{compute.Spread, compute.Pack} {
			o := DefaultOptions()
			o.Hosts, o.Queues, o.HostSize, o.Weigher = hosts, queues, 10, weigher
			w := fresh(o)
			told := &bulletin{of: make([]news, queues)}
			advice := compute.Advice{Full: true}
			var list []compute.Queue
			for q := range w.queues {
				about := compute.QueueAdvice{
					Queue:    w.queues[q].name,
					Eligible: c.eligible,
					Depth:    c.depth,
					Oldest:   clock(0),
				}
				told.add(int32(q), about)
				advice.About = append(advice.About, about)
				list = append(list, compute.Queue{Name: w.queues[q].name, Resources: w.queues[q].needs})
			}
			told.weigh()
			var ours, theirs samples
			for h := range w.hosts {
				x := &w.hosts[h]
				x.advice = told
				x.room = x.room.Hold(compute.Resources{compute.VCPU: int64(c.used)}, compute.Place{})
				ours.add(w.sample(x))
				sampler := offer.NewSampler(x.id, weigher)
				sampler.List(list)
				sampler.Advise(advice, clock(0))
				theirs.add(sampler.Sample(x.room, offer.Used(w.inventory.Totals, x.room.Free()), clock(1)))
			}
			if !ours.like(theirs) {
				t.Errorf("%+v, weigher %s: %+v sampled, by offer.Sampler %+v", c, weigher, ours, theirs)
			}
		}
	}
}

// samples are what all hosts sample: queues, and their squares by host.
type samples struct{ queues, squares float64 }

func (d *samples) add(some []offer.Candidate) {
	n := float64(len(some))
	d.queues, d.squares = d.queues+n, d.squares+n*n
}

// like says whether both are the same but for chance.
func (d samples) like(e samples) bool {
	return math.Abs(d.queues-e.queues) <= 5*math.Sqrt(d.queues+e.queues)+1 &&
		math.Abs(d.squares-e.squares) <= max((d.squares+e.squares)/20, 5*math.Sqrt(d.squares+e.squares))+1
}

// What a host waits on is by chance on any of the brokers, and hosts that wait on one queue wait on
// different ones beside it.
func TestHostsWaitOnAnything(t *testing.T) {
	for _, c := range []struct {
		queues   int
		eligible uint32
	}{{100, 120}, {300, 1000}, {5000, 1000}} { // 10, 3.6 and 15 a host
		o := DefaultOptions()
		o.Hosts, o.Queues, o.Brokers = 1000, c.queues, 5
		hostsWaitOnAnything(t, fresh(o), c.eligible)
	}
}

func hostsWaitOnAnything(t *testing.T, w *world, eligible uint32) {
	t.Helper()
	told := &bulletin{of: make([]news, len(w.queues))}
	for q := range w.queues {
		told.add(int32(q), compute.QueueAdvice{Queue: w.queues[q].name, Eligible: eligible})
	}
	told.weigh()
	queues, brokers, among := 0.0, 0.0, 0
	beside := map[compute.QueueName]int{} // what hosts that wait on the first wait on too
	for h := range w.hosts {
		x := &w.hosts[h]
		x.advice = told
		some, on := w.sample(x), map[int32]bool{}
		first := slices.ContainsFunc(some, func(c offer.Candidate) bool { return w.at[c.Queue] == 0 })
		for _, c := range some {
			if on[w.queues[w.at[c.Queue]].broker] = true; first {
				beside[c.Queue]++
				among++
			}
		}
		queues, brokers = queues+float64(len(some)), brokers+float64(len(on))
	}
	n := float64(len(w.hosts))
	if want := 5 * (1 - math.Pow(0.8, queues/n)); math.Abs(brokers/n-want) > 0.15 {
		t.Errorf(
			"%d queues: %.2f a host are on %.2f brokers, by chance on %.2f",
			len(w.queues),
			queues/n,
			brokers/n,
			want,
		)
	}
	mean := float64(among) / float64(len(w.queues))
	for q, n := range beside {
		if w.at[q] != 0 && float64(n) > mean+5*math.Sqrt(mean)+2 {
			t.Errorf(
				"%d queues: of those who wait on the first %d wait on %s too, on another %.1f",
				len(w.queues),
				n,
				q,
				mean,
			)
		}
	}
}

// Each host comes by every queue once, and not all in the same order.
func TestEachHasAnOrder(t *testing.T) {
	for _, n := range []int{1, 2, 12, 97, 1000} {
		o := DefaultOptions()
		o.Hosts, o.Queues = 200, n
		w := fresh(o)
		orders := map[string]bool{}
		for h := range w.hosts {
			order, seen := make([]int32, n), make([]bool, n)
			for i := range order {
				order[i] = w.nth(&w.hosts[h], i)
				if seen[order[i]] {
					t.Fatalf("of %d queues one comes twice", n)
				}
				seen[order[i]] = true
			}
			orders[fmt.Sprint(order)] = true
		}
		if len(orders) < min(n*n/2, 100) {
			t.Errorf("of %d queues: %d orders only", n, len(orders))
		}
	}
}

func TestSayEndsIt(t *testing.T) {
	o, enough := DefaultOptions(), errors.New("enough")
	o.Requests = 200_000
	if _, err := Run(o, func(Progress) error { return enough }); !errors.Is(err, enough) {
		t.Error(err)
	}
}

// Work that needs a whole host, beside work that does not: what is left out comes first
// the next time, so all of it is taken. Without that memory some is not.
func TestWholeHostsTakeTurns(t *testing.T) {
	for seed := range uint64(30) {
		o := DefaultOptions()
		o.Seed, o.Hosts, o.HostSize, o.Brokers, o.Replication = seed, 1, 4, 2, 1
		o.Queues, o.Sizes, o.Requests, o.Slots = 4, []int{1, 2, 4}, 1, 2
		if r := run(t, o); r.Left > 0 {
			t.Errorf("seed %d: it was left", seed)
		}
	}
}

// By hand: three replicas on three brokers, so every broker has one of each partition.
func TestWhatABrokerHolds(t *testing.T) {
	o := DefaultOptions()
	o.Hosts, o.Queues, o.Partitions = 9000, 100, 12
	for b, want := range []Broker{
		{Connections: 27_000, Partitions: 9142, Handles: 27_000 + 2*9142 + 10_000},
		{Connections: 21_000, Partitions: 9142, Handles: 21_000 + 2*9142 + 10_000},
	} {
		if got := o.uses(b); got != want {
			t.Errorf("broker %d: %+v, want %+v", b, got, want)
		}
	}
}

// Cells: so many that each is within its limits, and one fewer would not be.
func TestDivide(t *testing.T) {
	o := DefaultOptions()
	o.Hosts, o.Requests, o.Brokers, o.Replication, o.Processors = 4000, 20_000, 1, 1, 1
	o.Limits.Handles, o.Limits.Partitions = 16_000, 3000
	c, err := Divide(o, 3000, quiet)
	if err != nil {
		t.Fatal(err)
	}
	// 5 × hosts + 2 × 142 + 10,000 ≤ 16,000; hosts + 142 ≤ 3,000
	if c.Handles != 4 || c.Partitions != 2 {
		t.Errorf("%d for handles, %d for partitions", c.Handles, c.Partitions)
	}
	if c.Processors < 2 || c.Needed != max(c.Processors, c.Handles) || c.Each == nil || c.Each.load() > o.Limits.Busy {
		t.Errorf("%+v", c)
	}
	if r := run(t, o.cell(c.Processors-1, 3000)); r.within(o.Limits) {
		t.Errorf("%d would do, said %d", c.Processors-1, c.Processors)
	}
	o.Limits.Partitions = 100 // the queues alone are more
	if c, err := Divide(o, 1000, quiet); err != nil || c.Partitions != 0 || c.Needed != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestRefused(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"hosts": func(o *Options) { o.Hosts = 0 }, "queues": func(o *Options) { o.Hosts, o.Queues = 200_000, 20_000 },
		"rate": func(o *Options) { o.Rate = math.NaN() }, "sizes": func(o *Options) { o.Sizes = nil },
		"cost": func(o *Options) { o.Costs.Request = -1 }, "replication": func(o *Options) { o.Replication = 4 },
	} {
		o := DefaultOptions()
		change(&o)
		var e *compute.Error
		if _, err := Run(o, quiet); !errors.As(err, &e) || compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%s: %v", name, fmt.Sprint(err))
		}
	}
}

// Packed hosts leave more of them empty, and more room for large machines, and no more
// or less room in all.
func TestPackLeavesRoomForLargeMachines(t *testing.T) {
	at := func(w compute.Weigher) Result {
		o := DefaultOptions()
		o.Hosts, o.HostSize, o.Queues, o.Sizes, o.Weigher = 300, 32, 12, []int{1, 2, 4, 8}, w
		o.Requests, o.Rate = 1000, 50 // 40 % of what there is
		return run(t, o)
	}
	spread, pack := at(compute.Spread), at(compute.Pack)
	for _, r := range []Result{spread, pack} {
		if r.Left > 0 || r.Used < 0.3 || r.Used > 0.5 || len(r.Room) != 4 || r.Room[0].Fits != r.Room[0].Enough {
			t.Fatalf("%d left, %v used, room %+v", r.Left, r.Used, r.Room)
		}
	}
	large := len(pack.Room) - 1
	if pack.Used != spread.Used || pack.Empty <= spread.Empty || pack.Room[large].Fits <= spread.Room[large].Fits {
		t.Errorf(
			"packed: %d empty, room %+v\nspread: %d empty, room %+v",
			pack.Empty,
			pack.Room,
			spread.Empty,
			spread.Room,
		)
	}
}

// With a life of machines hosts are as full as they are asked to be; where hosts save, the large come in.
func TestLargeAmongSmall(t *testing.T) {
	o := DefaultOptions()
	o.Hosts, o.HostSize, o.Queues, o.Sizes, o.Life = 30, 16, 4, []int{1, 2, 4, 8}, 2*time.Minute
	o.Rate, o.Requests = 0.95*30*16/(120*3.75), 4000
	longest := func(r Result) float64 { return r.Waits[len(r.Waits)-1].MS.P99 }
	none := run(t, o)
	o.Savings.After = 5 * time.Second
	some := run(t, o)
	if none.Saving != 0 || some.Saving == 0 || longest(some) > longest(none)/2 || some.Fill < none.Fill-0.01 {
		t.Errorf("without %.3f full, p99 of the large %.0f ms; with %.1f hosts that save %.3f, %.0f ms",
			none.Fill, longest(none), some.Saving, some.Fill, longest(some))
	}
	if len(some.Waits) != 4 || some.Left > 0 || some.Doubled > 0 {
		t.Errorf("%d sizes, %d left, %d doubled", len(some.Waits), some.Left, some.Doubled)
	}
}
