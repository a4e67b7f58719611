// SPDX-License-Identifier: Apache-2.0

package size

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

func TestQuantiles(t *testing.T) {
	const ms = int64(time.Millisecond)
	var all []int64
	for n := range int64(100) {
		all = append(all, (n*37%100+1)*ms) // 1 to 100 ms, in no order
	}
	for _, c := range []struct {
		all  []int64
		want Quantiles
	}{{all, Quantiles{51, 91, 100, 100}}, {[]int64{7 * ms}, Quantiles{7, 7, 7, 7}}, {nil, Quantiles{}}} {
		if got := quantiles(slices.Clone(c.all)); got != c.want {
			t.Errorf("of %d: %+v, want %+v", len(c.all), got, c.want)
		}
	}
}

// What comes closest to its limit, and not what is largest, is the busiest.
func TestBusiest(t *testing.T) {
	limits := Limits{Busy: 0.5, Handles: 100, Partitions: 1000}
	for want, r := range map[string]Result{
		"": {},
		"processors of a broker that leads advice and hosts": {
			Brokers: []Broker{{Busy: 0.4}, {Busy: 0.39, Handles: 70, Partitions: 700}},
		},
		"processors of a broker":                          {Brokers: []Broker{{Busy: 0.3}, {Busy: 0.4, Partitions: 790}}},
		"handles of a broker":                             {Brokers: []Broker{{Busy: 0.4}, {Handles: 90, Partitions: 890}}},
		"handles of a broker that leads advice and hosts": {Brokers: []Broker{{Handles: 90}, {Busy: 0.4}}},
		"partitions of a broker":                          {Brokers: []Broker{{Handles: 90}, {Partitions: 990}}},
		"a conductor": {
			Brokers: []Broker{{Busy: 0.4}}, Conductors: []Conductor{{Busy: 0.1}, {Busy: 0.41}},
		},
	} {
		if got := r.busiest(limits); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A host has what is asked for and a quarter more, and room for a machine of each size in each slot; or what it is said
// to have.
func TestSizeOfAHost(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want int
	}{
		{Options{Requests: 100, Hosts: 10, Sizes: []int{1}, Slots: 1}, 13},      // 12.5
		{Options{Requests: 80, Hosts: 10, Sizes: []int{1}, Slots: 1}, 10},       // 10, exactly
		{Options{Requests: 100, Hosts: 10, Sizes: []int{1, 3}, Slots: 2}, 25},   // of two in the mean
		{Options{Requests: 10, Hosts: 10, Sizes: []int{1, 8, 2}, Slots: 1}, 8},  // the largest
		{Options{Requests: 10, Hosts: 10, Sizes: []int{1, 8, 2}, Slots: 4}, 32}, // in each slot
		{Options{Requests: 100, Hosts: 1, Sizes: []int{1}, Slots: 1, HostSize: 1}, 1},
	} {
		if got := c.o.size(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.o, got, c.want)
		}
	}
}

// The bounds of options: what is at them is taken, what is beyond is refused.
func TestBoundsOfOptions(t *testing.T) {
	half := 500 * time.Millisecond
	for _, c := range []struct {
		name   string // of the field that is refused; empty: it is taken
		change func(*Options)
	}{
		{"", func(*Options) {}},
		{"hosts", func(o *Options) { o.Hosts = 0 }}, {"", func(o *Options) { o.Hosts = 1 }},
		{"requests", func(o *Options) { o.Requests = 0 }}, {"", func(o *Options) { o.Requests = 1 }},
		{"rate", func(o *Options) { o.Rate = -1 }}, {"rate", func(o *Options) { o.Rate = 1e6 + 1 }},
		{"queues", func(o *Options) { o.Queues = 0 }}, {"partitions", func(o *Options) { o.Partitions, o.Conductors = 0, 0 }},
		{"projects", func(o *Options) { o.Projects = 0 }}, {"brokers", func(o *Options) { o.Brokers = 0 }},
		{"processors", func(o *Options) { o.Processors = 0 }}, {"replication", func(o *Options) { o.Replication = 0 }},
		{"", func(o *Options) { o.Brokers, o.Replication = 1, 1 }}, {"conductors", func(o *Options) { o.Conductors = 0 }},
		{"", func(o *Options) { o.Conductors, o.Partitions = 1, 1 }}, {"conductors", func(o *Options) { o.Conductors = 13 }},
		{"host-size", func(o *Options) { o.HostSize = -1 }}, {"slots", func(o *Options) { o.Slots = 0 }},
		{"fetch-wait", func(o *Options) { o.Wait = 0 }}, {"advice-pace", func(o *Options) { o.Pace = 0 }},
		{"beacon", func(o *Options) { o.Beacon = half }}, {"", func(o *Options) { o.Beacon = 2 * half }},
		{"prepare-time", func(o *Options) { o.Prepare = -1 }}, {"launch-time", func(o *Options) { o.Launch = -1 }},
		{"life", func(o *Options) { o.Life = -1 }}, {"save-after", func(o *Options) { o.Savings.After = -1 }},
		{"save-for", func(o *Options) { o.Savings.For = half }}, {"save-share", func(o *Options) { o.Savings.Share = 0 }},
		{"hop", func(o *Options) { o.Hop = -1 }}, {"hop", func(o *Options) { o.Hop = 3 * half }},
		{"", func(o *Options) { o.Hop = half }}, {"busy", func(o *Options) { o.Limits.Busy = 0 }},
		{"busy", func(o *Options) { o.Limits.Busy = 1.1 }}, {"", func(o *Options) { o.Limits.Busy = 1 }},
		{"handles", func(o *Options) { o.Limits.Handles = 0 }},
		{"partitions-limit", func(o *Options) { o.Limits.Partitions = 0 }},
		{"", func(o *Options) { o.Hosts, o.Queues = 10_000, maxPairs/10_000 }},
		{"queues", func(o *Options) { o.Hosts, o.Queues = 10_000, maxPairs/10_000+1 }},
		{"sizes", func(o *Options) { o.Sizes = []int{1, 0} }}, {"sizes", func(o *Options) { o.Sizes = nil }},
		{"sizes", func(o *Options) { o.HostSize, o.Sizes = 4, []int{4, 5} }},
		{"", func(o *Options) { o.HostSize, o.Sizes = 4, []int{4} }},
		{"", func(o *Options) { o.Sizes = []int{4} }}, {"sizes", func(o *Options) { o.HostSize, o.Sizes = 1, []int{2} }},
		{"cost", func(o *Options) { o.Costs.Decide = time.Second + 1 }},
		{"", func(o *Options) { o.Costs.Decide = time.Second }},
		{"cost", func(o *Options) { o.Costs.Wake = -1 }},
	} {
		o := DefaultOptions()
		c.change(&o)
		var field string
		err := o.Check()
		if e := (*compute.Error)(nil); errors.As(err, &e) {
			field = e.Field
		}
		if field != c.name || (err == nil) != (c.name == "") {
			t.Errorf("%q, want %q: %v", field, c.name, err)
		}
	}
	o := DefaultOptions()
	o.Hosts, o.Queues = 100_000, 10_000
	if err := o.Check(); err == nil || !strings.Contains(err.Error(), "give at most 1000 with 100000 hosts") {
		t.Error(err)
	}
	if o := DefaultOptions(); o.Savings.After != 0 || o.Burst != 1 {
		t.Errorf("by default hosts save after %s, and %d are due at once", o.Savings.After, o.Burst)
	}
}

// What is foreseen happens in the order of its time, and of what is due at once what was foreseen first.
func TestAgenda(t *testing.T) {
	var g agenda
	var want []event
	for n := range uint64(500) {
		at := int64(n * 7919 % 37)
		g.add(at, kind(n%5), int32(n), int32(n+1))
		want = append(want, event{at, n + 1, int32(n), int32(n + 1), kind(n % 5)})
	}
	slices.SortFunc(want, func(a, b event) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return int(a.seq) - int(b.seq)
	})
	for n := range want {
		if got := g.next(); got != want[n] {
			t.Fatalf("the %dth is %+v, want %+v", n, got, want[n])
		}
	}
	if len(g.events) != 0 {
		t.Errorf("%d are left", len(g.events))
	}
}

// A station stands still now and then, and one of half a processor takes twice as long.
func TestStationThatPauses(t *testing.T) {
	s := station{processors: 1, pause: 10, between: 100}
	var got []int64
	for range 4 {
		got = append(got, s.do(0, 50))
	}
	got = append(got, s.do(1000, 40))
	if diff := cmp.Diff([]int64{50, 110, 160, 220, 1040}, got); diff != "" {
		t.Error(diff)
	}
	never, half := station{processors: 1, pause: 10}, station{processors: 0.5}
	if a, b := never.do(0, 50), half.do(0, 50); a != 50 || b != 100 {
		t.Errorf("without pauses %d, on half a processor %d", a, b)
	}
	if s.idle(1039) || !s.idle(1040) {
		t.Error("when it is idle")
	}
}

// Work is spread about its mean, and never more than eight times that.
func TestSpread(t *testing.T) {
	c, sum, most, small := chance(1), 0.0, 0.0, 0
	const times = 100_000
	for range times {
		x := c.spread(time.Second) / float64(time.Second)
		if sum, most = sum+x, max(most, x); x < math.Ln2 {
			small++
		}
	}
	if math.Abs(sum/times-1) > 0.02 || most > 8 || most < 7 || math.Abs(float64(small)/times-0.5) > 0.01 {
		t.Errorf("the mean is %v, the most %v, below the median are %d", sum/times, most, small)
	}
}

// Ten boots of a second each: a conductor decides three inputs of each, and what it is asked is counted.
func TestResultOfTenBoots(t *testing.T) {
	o := free(Floor)
	o.Requests, o.Slots, o.Prepare, o.Costs.Decide = 10, 1, time.Second, 10*time.Millisecond
	r := run(t, o)
	if r.Granted != 10 || math.Abs(r.Seconds-10.2) > 0.2 || math.Abs(r.BootsPerS*r.Seconds-10) > 1e-6 ||
		r.CPUPerBoot != 30 {
		t.Errorf("%d in %.3f s, %.3f/s, %.3f ms each", r.Granted, r.Seconds, r.BootsPerS, r.CPUPerBoot)
	}
	sum := 0.0
	for _, n := range r.PerBoot {
		sum += n
	}
	if math.Abs(sum-r.AllPerBoot) > 1e-9 || sum < 10 {
		t.Errorf("%v requests a boot, in all %v", r.PerBoot, r.AllPerBoot)
	}
	if len(r.Brokers) != 1 || len(r.Conductors) != 1 || math.Abs(r.Conductors[0].Busy-0.029) > 0.002 ||
		math.Abs(r.Conductors[0].Turns-0.029) > 0.003 || r.Busiest == "" {
		t.Errorf("%+v, %+v: %s", r.Brokers, r.Conductors, r.Busiest)
	}
}

// What goes on before the first request is told for each second, and of each broker as a part of its processors.
func TestResultOfIdleHosts(t *testing.T) {
	o := DefaultOptions()
	o.Hosts, o.Queues, o.Requests, o.Rate, o.Brokers, o.Replication, o.Processors = 100, 10, 10, 1, 1, 1, 2
	o.Costs = Costs{Standing: 100 * time.Millisecond}
	r := run(t, o)
	if beacons := r.Idle["beacon"]; math.Abs(beacons-100/15.0) > 1.5 {
		t.Errorf("%v beacons a second", beacons)
	}
	if b := r.Brokers[0]; math.Abs(b.Idle-0.05) > 0.002 || math.Abs(b.Busy-0.05) > 0.002 {
		t.Errorf("%+v", b)
	}
	if _, some := r.Idle["request"]; some {
		t.Errorf("%v", r.Idle)
	}
}
