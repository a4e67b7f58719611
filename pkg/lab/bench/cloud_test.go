// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/flavors/catalog"
	"github.com/berth-project/berth/pkg/compute"
)

// someOptions draws a run that can be planned.
func someOptions(t *rapid.T) Options {
	return Options{
		Hosts:  rapid.IntRange(1, 30).Draw(t, "hosts"),
		Queues: rapid.IntRange(1, 40).Draw(t, "queues"),
		Count:  rapid.IntRange(1, 300).Draw(t, "count"),
		Warmup: rapid.IntRange(0, 100).Draw(t, "warmup"),
	}.WithDefaults()
}

// What a plan offers is what a catalog makes of it: as many queues as asked for,
// of the same names, each of which fits some host.
func TestPlanMakesTheQueuesAskedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := someOptions(t)
		c, _, _, err := plan(o)
		if err != nil {
			t.Fatal(err)
		}
		offered := map[compute.QueueName]compute.Queue{}
		for _, q := range permute(t, c) {
			offered[q.Name] = q
		}
		if len(c.queues) != o.Queues || len(offered) != o.Queues {
			t.Fatalf("%d queues, %d offered, want %d", len(c.queues), len(offered), o.Queues)
		}
		weights := 0.0
		for _, q := range c.queues {
			weights += q.weight
			if !fitsSome(c, offered[q.name]) {
				t.Errorf("%s fits no host", q.name)
			}
		}
		if math.Abs(weights-1) > 1e-9 {
			t.Errorf("the weights are %v together", weights)
		}
	})
}

// permute has a catalog of the product make the queues.
func permute(t *rapid.T, c *cloud) []compute.Queue {
	offered := catalog.New(catalog.DefaultLimits())
	for _, a := range c.axes {
		ch, err := offered.AddCapability(a)
		if err != nil {
			t.Fatal(err)
		}
		offered = offered.Apply(ch)
	}
	for _, f := range c.flavors {
		ch, err := offered.AddFlavor(f)
		if err != nil {
			t.Fatal(err)
		}
		offered = offered.Apply(ch)
	}
	var queues []compute.Queue
	for _, f := range c.flavors {
		queues = append(queues, offered.Permutations(f.Name)...)
	}
	return queues
}

func fitsSome(c *cloud, q compute.Queue) bool {
	for _, h := range c.hosts {
		if takes(h, q) && q.Resources.FitsIn(h.Inventory.Totals) {
			return true
		}
	}
	return false
}

func takes(h benchHost, q compute.Queue) bool {
	traits := map[compute.Trait]bool{}
	for _, t := range h.Inventory.Traits {
		traits[t] = true
	}
	return q.Accepts(traits)
}

// However hosts take the work, the last boot still finds room: those that may go
// anywhere go where they do most harm, to whatever host is nearest to full.
func TestPlanHasRoomForAllBoots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := someOptions(t)
		c, warmup, measured, err := plan(o)
		if err != nil {
			t.Fatal(err)
		}
		offered := map[compute.QueueName]compute.Queue{}
		for _, q := range permute(t, c) {
			offered[q.Name] = q
		}
		for _, boots := range [][]int{warmup, measured} {
			f := o.fleet()
			c.hosts = nil
			c.newHosts(f, o.Hosts*c.needs(f, boots)) // not one more
			free := make([]compute.Resources, len(c.hosts))
			for i, h := range c.hosts {
				free[i] = h.Inventory.Totals.Clone()
			}
			order := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0)).Perm(len(boots))
			for _, i := range order {
				q := offered[c.queues[boots[i]].name]
				worst := -1
				for h := range c.hosts {
					if takes(c.hosts[h], q) && q.Resources.FitsIn(free[h]) &&
						(worst < 0 || len(c.hosts[h].Inventory.Traits) > len(c.hosts[worst].Inventory.Traits) ||
							free[h][compute.VCPU] < free[worst][compute.VCPU]) {
						worst = h
					}
				}
				if worst < 0 {
					t.Fatalf("no host has room for one more of %s", q.Name)
				}
				free[worst] = free[worst].Minus(q.Resources)
			}
		}
	})
}

func TestPlanRefusesHostsThatAreTooSmall(t *testing.T) {
	o := Options{Hosts: 10, HostSize: 5, Count: 1000}.WithDefaults()
	_, _, _, err := plan(o)
	var e *compute.Error
	if !errors.As(err, &e) || e.Field != "host-size" || e.Value != "5" || !strings.Contains(e.Remedy, "--host-size ") {
		t.Fatalf("got %v, want the flag, its value and what to do", err)
	}
	o.Churn = true
	if _, _, _, err := plan(o.resolved()); err != nil {
		t.Errorf("with churn: %v", err)
	}
}

func TestTheSameRunIsPlannedTheSame(t *testing.T) {
	o := Options{}.WithDefaults()
	c, _, first, err := plan(o)
	if err != nil {
		t.Fatal(err)
	}
	_, _, second, err := plan(o)
	if err != nil {
		t.Fatal(err)
	}
	share := 0.0
	for i := range first {
		if first[i] != second[i] {
			t.Fatalf("boot %d goes to queue %d, then to %d", i, first[i], second[i])
		}
		if q := c.queues[first[i]]; q.class == onA100 || q.class == onH100 {
			share++
		}
	}
	if share /= float64(len(first)); share < 0.10 || share > 0.20 {
		t.Errorf("%.0f %% of the boots want a GPU, want about 15 %%", 100*share)
	}
}

func TestFewHostsHaveNoGPUs(t *testing.T) {
	for _, c := range []struct {
		o    Options
		gpus int
	}{
		{Options{Hosts: 4}, 0}, {Options{Hosts: 5}, 1}, {Options{Hosts: 100}, 20},
		{Options{Hosts: 100, NoGPUs: true}, 0}, {Options{Hosts: 100, Fill: 0.9}, 0},
	} {
		if f := c.o.fleet(); f.gpus() != c.gpus || f.hosts() != c.o.Hosts {
			t.Errorf("%+v: %d hosts, of which %d have GPUs; want %d", c.o, f.hosts(), f.gpus(), c.gpus)
		}
	}
}

// With the measured boots hosts are as full as was asked, or less by what one
// machine cannot be split into, and all have about the same room.
func TestPlanFillsHosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{
			Hosts: rapid.IntRange(1, 50).Draw(t, "hosts"), Queues: rapid.IntRange(1, 20).Draw(t, "queues"),
			Fill: rapid.Float64Range(0.05, 1).Draw(t, "fill"),
		}
		o.Count = o.Hosts + rapid.IntRange(0, 1000).Draw(t, "more")
		c, _, measured, err := plan(o.WithDefaults())
		if err != nil {
			t.Fatal(err)
		}
		room, least, most := 0, c.size, 0
		for _, h := range c.hosts {
			n := int(h.Inventory.Totals[compute.VCPU])
			room, least, most = room+n, min(least, n), max(most, n)
		}
		n := float64(len(measured))
		if n > float64(room) || n/float64(room) > o.Fill+1e-6 || n/(float64(room)-1) < o.Fill-1e-6 {
			t.Errorf("%v boots in room for %d are not %v", n, room, o.Fill)
		}
		if least < 1 || most-least > 1 || most != c.size {
			t.Errorf("hosts have room for %d to %d machines, said is %d", least, most, c.size)
		}
	})
	for count, room := range map[int]int{21: 30, 42: 60, 84: 120, 22: 32} { // 21 / 0.7 is more than 30 to a processor
		if got, err := (Options{Hosts: 3, Count: count, Fill: 0.7}).room(); got != room || err != nil {
			t.Errorf("%d boots get room for %d (%v), want %d", count, got, err, room)
		}
	}
	_, _, _, err := plan(Options{Hosts: 10, Count: 8, Fill: 0.9}.WithDefaults())
	var e *compute.Error
	if !errors.As(err, &e) || e.Field != "count" || !strings.Contains(e.Remedy, "--count 9") {
		t.Errorf("got %v, want the flag and what to do", err)
	}
}

func TestSkewedDemand(t *testing.T) {
	o := Options{Hosts: 20, Count: 10_000, Skew: 0.8}.WithDefaults()
	c, _, measured, err := plan(o)
	if err != nil {
		t.Fatal(err)
	}
	plain, _, _, err := plan(Options{Hosts: 20}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	first, sum := 0.0, 0.0
	for _, q := range measured {
		if q == 0 {
			first++
		}
	}
	for i, q := range c.queues {
		sum += q.weight
		if was := plain.queues[i].weight / plain.queues[1].weight; i > 0 &&
			math.Abs(q.weight/c.queues[1].weight-was) > 1e-9 {
			t.Errorf("queue %d has %v of queue 1's share, and without skew %v", i, q.weight/c.queues[1].weight, was)
		}
	}
	if share := first / float64(len(measured)); math.Abs(share-0.8) > 0.02 || math.Abs(sum-1) > 1e-9 {
		t.Errorf("the first queue gets %v of the boots, all together %v", share, sum)
	}
}
