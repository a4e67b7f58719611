// SPDX-License-Identifier: Apache-2.0

package mixed

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

func TestArrivals(t *testing.T) {
	l := DefaultLoad()
	l.For, l.Grouped = 20*time.Hour, 0.3
	all := l.Arrivals()
	if !slices.Equal(all, l.Arrivals()) {
		t.Error("equal loads have other arrivals")
	}
	want := l.Rate() * l.Until().Seconds()
	n, sizes, classes, members, life := float64(len(all)), map[int]float64{}, map[compute.Priority]float64{}, 0.0, 0.0
	for i, a := range all {
		if a.At >= l.Until() || i > 0 && a.At < all[i-1].At {
			t.Fatalf("arrival %d comes at %s, after one at %s", i, a.At, all[i-1].At)
		}
		sizes[a.Size]++
		classes[a.Priority]++
		if a.Group != "" {
			members++
		}
		life += a.Life.Seconds() / l.Life.Seconds()
	}
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 0.03*want+0.005 {
			t.Errorf("%s: %v, want about %v", what, got, want)
		}
	}
	near("boots", n/want, 1)
	near("life", life/n, 1)
	near("members", members/n, 0.3)
	near("high", classes[compute.PriorityHigh]/n, 0.1)
	near("low", classes[compute.PriorityLow]/n, 0.1)
	for i := range l.Sizes {
		near("a size", sizes[i]/n, 0.25)
	}
	l.Seed = 2
	if slices.Equal(all, l.Arrivals()) {
		t.Error("another seed has the same arrivals")
	}
}

// A group is whole: its members come at once, are of one project, size and class, and end on their own.
func TestGroupsComeWhole(t *testing.T) {
	l := DefaultLoad()
	l.Grouped, l.GroupOf, l.Projects, l.For = 1, 4, 2, time.Hour
	all := l.Arrivals()
	if len(all)%4 != 0 {
		t.Fatalf("%d members in groups of 4", len(all))
	}
	groups := map[compute.GroupKey]bool{}
	for i := 0; i < len(all); i += 4 {
		first := all[i]
		key := compute.GroupKey{Project: compute.Project(rune('a' + first.Project)), Name: first.Group}
		if first.Group == "" || groups[key] {
			t.Errorf("the group %v comes twice or has no name", key)
		}
		groups[key] = true
		for _, a := range all[i+1 : i+4] {
			if a.Life == first.Life {
				t.Error("two members live equally long")
			}
			if a.Life = first.Life; a != first {
				t.Errorf("one group has %+v and %+v", first, a)
			}
		}
	}
}

// Names of groups are used again before a project has more than it may have.
func TestFewNamesOfGroups(t *testing.T) {
	l := DefaultLoad()
	l.Grouped, l.GroupOf, l.Projects, l.For = 1, 1, 1, time.Hour
	names := map[compute.GroupName]bool{}
	for _, a := range l.Arrivals() {
		names[a.Group] = true
	}
	if len(names) != mostGroups || mostGroups > compute.MaxGroups {
		t.Errorf("%d names of groups", len(names))
	}
}

func TestRate(t *testing.T) {
	l := DefaultLoad() // 160 processors, 3.75 each for a minute, 95 % of them used
	if got := l.Rate(); math.Abs(got-0.95*160/3.75/60) > 1e-9 {
		t.Errorf("rate %v", got)
	}
	if l.From() != 3*time.Minute || l.Until() != 8*time.Minute {
		t.Errorf("measured from %s to %s", l.From(), l.Until())
	}
}

func TestLoadsThatAreRefused(t *testing.T) {
	if err := DefaultLoad().Check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(*Load)
		want   string
	}{
		{func(l *Load) { l.Sizes = nil }, "sizes"},
		{func(l *Load) { l.Sizes = []int{1, 17} }, "give 1 to 16"},
		{func(l *Load) { l.Sizes = []int{2, 2} }, "each size once"},
		{func(l *Load) { l.GroupOf = 11 }, "group-of"},
		{func(l *Load) { l.Fill = 0 }, "fill"},
		{func(l *Load) { l.High, l.Low = 0.6, 0.6 }, "priorities"},
		{func(l *Load) { l.High = math.NaN() }, "priorities"},
		{func(l *Load) { l.Life, l.Hosts = 10*time.Millisecond, 10_000 }, "shorter time"},
		{func(l *Load) { l.For = 0 }, "for"},
	} {
		l := DefaultLoad()
		c.change(&l)
		if err := l.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want something of %q", l, err, c.want)
		}
	}
	l := DefaultLoad()
	l.Hosts, l.Grouped = 1, 0
	if err := l.Check(); err != nil {
		t.Errorf("one host and no groups: %v", err)
	}
}

func TestFillOver(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	changes := []Change{
		{at(0), 4}, {at(5), 4}, // 8 of 8 when it begins
		{at(11), -8}, {at(13), 4}, {at(15), 4}, // nothing for two seconds, then half, then all again
		{at(20), -8}, // when it is over
	}
	got := FillOver(changes, at(10), at(20), 8)
	if want := (Fill{Mean: 0.7, P10: 0}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	// 8 for one second, 0 for two, 4 for two, 8 for 15.
	if got, want := FillOver(changes[:5], at(10), at(30), 8), (Fill{Mean: 0.85, P10: 0}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := FillOver(changes[:5], at(10), at(40), 8), (Fill{Mean: 0.9, P10: 0.5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := FillOver(nil, at(10), at(20), 8); got != (Fill{}) {
		t.Errorf("nothing ran: %+v", got)
	}
}

func TestOffered(t *testing.T) {
	l := Load{Hosts: 1, HostSize: 8, Sizes: []int{2, 4}, Life: time.Second, Warmup: 10, For: 10 * time.Second}
	got := l.Offered([]Arrival{
		{At: 0, Size: 0, Life: time.Minute},              // 2 all the time
		{At: 15 * time.Second, Size: 1, Life: time.Hour}, // 4 for half of it
		{At: time.Second, Size: 1, Life: time.Second},    // over before
	})
	if want := (Fill{Mean: 0.5, P10: 0.25}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestSumUp(t *testing.T) {
	var waits []Wait
	for i := range 100 { // 0.01 s to 1 s
		waits = append(waits, Wait{Size: 1, Measured: true, Took: time.Duration(i+1) * 10 * time.Millisecond})
	}
	waits = append(waits,
		Wait{Size: 8, Priority: compute.PriorityHigh, Measured: true, Took: -time.Millisecond},
		Wait{Size: 8, Priority: compute.PriorityLow, Member: true, Measured: true, Took: time.Minute, Waits: true},
		Wait{Size: 8, Priority: compute.PriorityLow, Took: 2 * time.Minute, Waits: true}, // of the warm-up
	)
	got := SumUp(waits)
	one := Row{Size: 1, Boots: 100, P50: 0.5, P90: 0.9, P99: 0.99, Max: 1}
	eight := Row{Size: 8, Boots: 2, P90: 60, P99: 60, Max: 60, Waiting: 2, Oldest: 120}
	if diff := cmp.Diff([]Row{one, eight}, got.Sizes); diff != "" {
		t.Error("sizes (-want +got):", diff)
	}
	var classes []string
	for _, r := range got.Classes {
		classes = append(classes, r.Priority)
	}
	if diff := cmp.Diff([]string{"high", "normal", "low"}, classes); diff != "" {
		t.Error("classes (-want +got):", diff)
	}
	low := Row{Size: 8, Priority: "low", Boots: 1, P50: 60, P90: 60, P99: 60, Max: 60, Waiting: 2, Oldest: 120}
	if diff := cmp.Diff(low, got.Each[2]); len(got.Each) != 3 || diff != "" {
		t.Error("large ones of low priority (-want +got):", diff)
	}
	if got.Members == nil || got.Members.Boots != 1 || got.Alone.Boots != 101 || got.All.Boots != 102 {
		t.Errorf("members %+v, others %+v, all %+v", got.Members, got.Alone, got.All)
	}
	if got := SumUp(waits[:3]); got.Members != nil || got.Alone != nil {
		t.Error("there are no members, and they have a row")
	}
}

func TestLives(t *testing.T) {
	var l Lives[string]
	start := time.Unix(1000, 0)
	if !l.Next().IsZero() || l.Ended(start) != nil {
		t.Error("nothing lives, and something ends")
	}
	for i, name := range []string{"c", "a", "b", "d"} {
		l.Add(name, start.Add(time.Duration([]int{3, 1, 2, 4}[i])*time.Second))
	}
	if next := l.Next(); !next.Equal(start.Add(time.Second)) {
		t.Errorf("the next ends at %s", next)
	}
	if diff := cmp.Diff([]string{"a", "b"}, l.Ended(start.Add(2*time.Second))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"c", "d"}, l.All()); diff != "" || !l.Next().IsZero() {
		t.Error(diff)
	}
}
