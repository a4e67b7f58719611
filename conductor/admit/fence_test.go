// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

// A process that may write requests may invent hosts. Of those not more are kept than there is room for; a host that
// has something here keeps its epoch, and so do those that were fenced last.
func TestInventedHostsAreBounded(t *testing.T) {
	const most = 6
	rapid.Check(t, func(r *rapid.T) {
		opts := Defaults()
		opts.MaxFences = most
		s, view, now := New(opts), catalog(), time.Unix(1e9, 0)
		hear := func(in Input) { s.Step(in, view, now) }
		here := map[compute.HostID]compute.FenceEpoch{}
		for i := range rapid.IntRange(0, 3).Draw(r, "hosts with an instance") {
			id := compute.HostID(fmt.Sprintf("h%d", i))
			inst := long(fmt.Sprint(i))
			hear(Requested{Request: compute.Request{
				Op: compute.OpBoot, Project: "p", Instance: inst, At: now, Boot: &compute.Boot{Flavor: "m1.small", Host: id},
			}})
			here[id] = 0
		}
		var last compute.HostID
		for range rapid.IntRange(0, 60).Draw(r, "fences") {
			id := compute.HostID(rapid.SampledFrom([]string{"h0", "h1", "h2", "x"}).Draw(r, "host"))
			if id == "x" {
				id = compute.HostID(fmt.Sprintf("x%d", rapid.IntRange(0, 1000).Draw(r, "invented")))
			}
			before, beforeOfLast := s.fences.epoch(id, now), s.fences.epoch(last, now)
			epoch := compute.FenceEpoch(rapid.IntRange(0, 9).Draw(r, "epoch"))
			hear(Requested{Request: compute.Request{Op: compute.OpFence, Host: id, Fence: epoch}})
			if got := s.fences.epoch(id, now); got != max(before, epoch) {
				r.Fatalf("%s was fenced under %d and %d, and has %d", id, before, epoch, got)
			}
			if got := s.fences.epoch(last, now); last != id && got != beforeOfLast {
				r.Fatalf("%s was fenced just before %s, and has %d instead of %d", last, id, got, beforeOfLast)
			}
			last = id
			if was, ok := here[id]; ok {
				here[id] = max(was, epoch)
			}
			for id, want := range here {
				if got := s.fences.epoch(id, now); got != want {
					r.Fatalf("%s, which has an instance, has epoch %d, not %d", id, got, want)
				}
			}
			if n := len(s.fences.of); n > most+len(here)+1 {
				r.Fatalf("%d fences are kept", n)
			}
		}
	})
}

// As many epochs are kept as there may be, then the older half of those that nothing needs goes; never the one that was
// just heard, and none of a host that has something here.
func TestOldFencesGo(t *testing.T) {
	ids := func(f fences) (out []string) {
		for id := range f.of {
			out = append(out, string(id))
		}
		slices.Sort(out)
		return out
	}
	never := func(compute.HostID) bool { return false }
	for _, c := range []struct {
		most int
		kept func(compute.HostID) bool
		want string
	}{
		{4, never, "abcd"}, {3, never, "cd"}, {2, never, "cd"}, {1, never, "d"},
		{1, func(id compute.HostID) bool { return id != "d" }, "abcd"},
		{3, func(id compute.HostID) bool { return id == "a" }, "acd"},
	} {
		f := newFences(c.most)
		for i, id := range []compute.HostID{"b", "a", "c", "d"} {
			f.note(id, compute.FenceEpoch(i+1), time.Time{}, c.kept)
		}
		if got := strings.Join(ids(f), ""); got != c.want {
			t.Errorf("of at most %d the epochs of %s are kept, want %s", c.most, got, c.want)
		}
	}
}
