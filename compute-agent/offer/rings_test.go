// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// rung writes down what a host should fetch, so long after epochZero: what it looks at,
// and in brackets what it waits on.
func (r *Rings) rung(after time.Duration) string {
	var out []string
	r.Listed(epochZero.Add(after), func(q compute.QueueName, look bool) {
		if look {
			out = append(out, string(q))
		} else {
			out = append(out, "("+string(q)+")")
		}
	})
	return strings.Join(out, " ")
}

func TestRings(t *testing.T) {
	const second = time.Second
	look := func(q string) func(*Rings, time.Time) {
		return func(r *Rings, now time.Time) { r.Ring(compute.Look{Queue: compute.QueueName(q)}, true, now) }
	}
	hold := func(q string, d time.Duration) func(*Rings, time.Time) {
		return func(r *Rings, now time.Time) { r.Ring(compute.Look{Queue: compute.QueueName(q), Hold: d}, true, now) }
	}
	looked := func(q string) func(*Rings, time.Time) {
		return func(r *Rings, _ time.Time) { r.Looked(compute.QueueName(q)) }
	}
	forget := func(q string) func(*Rings, time.Time) {
		return func(r *Rings, _ time.Time) { r.Forget(compute.QueueName(q)) }
	}
	type step struct {
		at   time.Duration
		do   func(*Rings, time.Time) // nil: time passes
		want string
	}
	for name, steps := range map[string][]step{
		"nothing":             {{0, nil, ""}, {0, looked("a"), ""}, {0, forget("a"), ""}},
		"a look, by name":     {{0, look("b"), "b"}, {0, look("a"), "a b"}},
		"a look that is owed": {{0, look("a"), "a"}, {owed - 1, nil, "a"}, {owed, nil, ""}},
		"rung again":          {{0, look("a"), "a"}, {30 * second, look("a"), "a"}, {owed + second, nil, "a"}},
		"looked at":           {{0, look("a"), "a"}, {1, looked("a"), ""}, {2, look("a"), "a"}},
		"looked at another":   {{0, look("a"), "a"}, {0, look("b"), "a b"}, {1, looked("a"), "b"}},
		"a hold":              {{0, hold("a", 9*second), "(a)"}, {8 * second, nil, "(a)"}, {9 * second, nil, ""}},
		"a hold that goes on": {
			{0, hold("a", 15*second), "(a)"},
			{13 * second, hold("a", 15*second), "(a)"}, {27 * second, nil, "(a)"},
		},
		"held, a ring asks for no look": {
			{0, hold("a", 15*second), "(a)"}, {1, look("a"), "(a)"}, {15 * second, nil, ""},
		},
		"not held any more": {{0, hold("a", 15*second), "(a)"}, {15 * second, look("a"), "a"}},
		"a hold does not end a look": {
			{0, look("a"), "a"}, {1, hold("a", 15*second), "a"}, {2, looked("a"), "(a)"},
		},
		"looked at and held": {{0, hold("a", 15*second), "(a)"}, {1, looked("a"), "(a)"}},
		"a queue that is gone": {
			{0, hold("a", 15*second), "(a)"}, {0, look("b"), "(a) b"}, {1, forget("a"), "b"}, {1, forget("b"), ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r Rings
			for i, s := range steps {
				if s.do != nil {
					s.do(&r, epochZero.Add(s.at))
				}
				if got := r.rung(s.at); got != s.want {
					t.Fatalf("after step %d it fetches %q, and not %q", i, got, s.want)
				}
			}
		})
	}
}

func TestRingsThatAreOverAreForgotten(t *testing.T) {
	var r Rings
	for i := range 1000 {
		r.Ring(compute.Look{Queue: compute.QueueName(fmt.Sprint(i))}, true, epochZero)
	}
	r.rung(owed)
	if len(r.by) != 0 {
		t.Errorf("%d rings are remembered", len(r.by))
	}
}

// A host is rung as long as advice says so, and comes.
func TestAHostIsRungWhileAdviceComes(t *testing.T) {
	l := NewSampler("h", compute.Spread)
	rung := func(after time.Duration, want bool) {
		t.Helper()
		if got := l.Rung(epochZero.Add(after)); got != want {
			t.Errorf("after %s the host is rung: %t", after, got)
		}
	}
	advise := func(after time.Duration, rings bool) {
		now := epochZero.Add(after)
		l.Advise(compute.Advice{At: now, Rings: rings}, now)
	}
	rung(0, false)
	advise(0, true)
	rung(compute.RingsLast-1, true)
	rung(compute.RingsLast, false)
	advise(40*time.Second, true)
	rung(41*time.Second, true)
	advise(42*time.Second, false) // a queue manager of before that knows no rings was elected
	rung(43*time.Second, false)
}

// polling is a host that was rung, told of work in all of n queues but the first.
func polling(n int) *Sampler {
	l := NewSampler("h", compute.Spread)
	news := advice(n, 1000, 5)
	news.At, news.Rings, news.About[0].Depth = epochZero, true, 0
	for i := range news.About {
		news.About[i].Oldest = epochZero.Add(-time.Second)
	}
	l.Advise(news, epochZero)
	return l
}

func (l *Sampler) shortPoll(after time.Duration, fits, ours func(compute.QueueName) bool) (out []compute.QueueName) {
	room := Room{free: compute.Resources{compute.VCPU: 1}}
	needs := func(q compute.QueueName) (compute.Resources, compute.Priority, bool) {
		if !fits(q) {
			return compute.Resources{compute.VCPU: 2}, compute.PriorityNormal, ours(q)
		}
		return compute.Resources{compute.VCPU: 1}, compute.PriorityNormal, ours(q)
	}
	for _, c := range l.ShortPolls(room, epochZero.Add(after), needs) {
		if !c.Deep || !c.Extra || c.Rung {
			panic(fmt.Sprintf("%+v", c))
		}
		out = append(out, c.Queue)
	}
	slices.Sort(out)
	return out
}

func every(compute.QueueName) bool { return true }

func TestShortPolls(t *testing.T) {
	q := func(some ...int) (out []compute.QueueName) {
		for _, i := range some {
			out = append(out, many(i + 1)[i].Name)
		}
		return out
	}
	l := polling(4)
	expect := func(why string, after time.Duration, want []compute.QueueName) {
		t.Helper()
		if got := l.shortPoll(after, every, every); !slices.Equal(got, want) {
			t.Errorf("%s: the host polls %v, and not %v", why, got, want)
		}
	}
	epoch := l.NextEpoch(epochZero).Sub(epochZero)
	expect("when it begins", 0, q(1, 2, 3))
	expect("once", pollsFor, nil)
	expect("an epoch", epoch, q(1, 2, 3))
	expect("for a moment", epoch+pollsFor-1, q(1, 2, 3))
	expect("no longer", epoch+pollsFor, nil)
	l.Freed(epochZero.Add(epoch + 5*time.Second))
	expect("when room appeared", epoch+5*time.Second, q(1, 2, 3))
	expect("for a moment", epoch+6*time.Second, nil)

	epoch += Epoch
	l.Refute(q(2)[0], epochZero.Add(epoch))
	expect("where nothing was found", epoch, q(1, 3))
	l.Forget(q(1)[0])
	expect("a queue that is gone", epoch, q(3))
	gone := advice(4, 1000, 0)
	gone.About, gone.Full = gone.About[3:], false
	l.Advise(gone, epochZero)
	expect("where no work lies any more", epoch, nil)
	newer := advice(4, 1000, 5)
	newer.At, newer.Full = epochZero.Add(epoch), false
	for i := range newer.About {
		newer.About[i].Oldest = epochZero.Add(epoch)
	}
	l.Advise(newer, epochZero.Add(epoch))
	expect("where newer work lies", epoch, q(0, 1, 2, 3))
	fits := func(n compute.QueueName) bool { return n != q(1)[0] }
	ours := func(n compute.QueueName) bool { return n != q(2)[0] }
	if got := l.shortPoll(epoch, fits, ours); !slices.Equal(got, q(0, 3)) {
		t.Errorf("the host pollsFor at %v", got)
	}
	l.Advise(compute.Advice{Full: true, Rings: true}, epochZero)
	expect("where all was told, and nothing of it", epoch, nil)
}

// A host pollsFor at few queues, at others each time, and hosts at others than their
// neighbours.
func TestShortPollsAreFew(t *testing.T) {
	seen := map[compute.QueueName]bool{}
	l := polling(100)
	for e := range 60 {
		got := l.shortPoll(l.NextEpoch(epochZero).Sub(epochZero)+time.Duration(e)*Epoch, every, every)
		if len(got) != MostExtra {
			t.Fatalf("the host pollsFor at %d queues", len(got))
		}
		for _, q := range got {
			seen[q] = true
		}
	}
	if len(seen) < 80 {
		t.Errorf("in 60 epochs it polled %d of 99 queues", len(seen))
	}
}

// A host that is held on a queue, and has no open fetch of it, looks when it is rung.
func TestAHeldHostThatDoesNotWaitLooks(t *testing.T) {
	for _, waits := range []bool{true, false} {
		var r Rings
		r.Ring(compute.Look{Queue: "q", Hold: 15 * time.Second}, false, epochZero)
		r.Ring(compute.Look{Queue: "q"}, waits, epochZero)
		r.Listed(epochZero, func(_ compute.QueueName, look bool) {
			if look == waits {
				t.Errorf("waits %v: looks %v", waits, look)
			}
		})
	}
}

// What a host was rung for is fetched before all else, however often that was left out.
func TestRingsComeFirst(t *testing.T) {
	list := []Candidate{
		{Queue: "left out", Skipped: 100}, {Queue: "deep", Deep: true}, {Queue: "held", Held: true},
		{Queue: "rung", Rung: true},
	}
	slices.SortFunc(list, Candidate.before)
	if !list[0].Called() || !list[1].Called() || list[2].Queue != "left out" {
		t.Errorf("%+v", list)
	}
}

// A ring says that hosts are rung, before any advice does.
func TestARingSaysThatHostsAreRung(t *testing.T) {
	l := NewSampler("h", compute.Spread)
	if l.Rung(epochZero) {
		t.Error("nobody has rung")
	}
	l.NoteRing(epochZero)
	if !l.Rung(epochZero.Add(compute.RingsLast-1)) || l.Rung(epochZero.Add(compute.RingsLast)) {
		t.Error("a ring counts as long as advice does")
	}
}

// What a queue manager that is gone said last is as old as it is, however late it is read.
func TestAdviceThatIsReadLateIsOld(t *testing.T) {
	l := NewSampler("h", compute.Spread)
	skew := -3 * time.Hour // of the queue manager's clock
	advise := func(said, now time.Duration) {
		l.Advise(compute.Advice{At: epochZero.Add(said + skew), Rings: true}, epochZero.Add(now))
	}
	rung := func(at time.Duration, want bool) {
		t.Helper()
		if got := l.Rung(epochZero.Add(at)); got != want {
			t.Errorf("at %s: rung %v", at, got)
		}
	}
	advise(0, 0)
	for said := 5 * time.Second; said <= 40*time.Second; said += 5 * time.Second {
		advise(said, 40*time.Second)
	}
	rung(40*time.Second+compute.RingsLast-1, true)
	advise(45*time.Second, 80*time.Second) // and then it was gone
	rung(45*time.Second+compute.RingsLast-1, true)
	rung(45*time.Second+compute.RingsLast, false)
	skew = time.Hour // another one
	advise(100*time.Second, 120*time.Second)
	rung(120*time.Second+compute.RingsLast-1, true)
}

// Since when work waits by what rings say: as the ring says, or since it; where the host waits for work, since now; and
// not at all once the ring is over.
func TestSinceWhenByRings(t *testing.T) {
	const second = time.Second
	old := epochZero.Add(-time.Hour)
	for _, c := range []struct {
		what string
		look compute.Look
		at   time.Duration
		want time.Time
	}{
		{"a look", compute.Look{}, 9 * second, epochZero},
		{"a look at what is old", compute.Look{Oldest: old}, 9 * second, old},
		{"a look that is over", compute.Look{Oldest: old}, owed, time.Time{}},
		{"a hold", compute.Look{Hold: 15 * second}, 9 * second, epochZero.Add(9 * second)},
		{"a hold for what is old", compute.Look{Hold: 15 * second, Oldest: old}, 9 * second, old},
		{"a hold that is over", compute.Look{Hold: 15 * second, Oldest: old}, 15 * second, time.Time{}},
	} {
		var r Rings
		c.look.Queue = "q"
		r.Ring(c.look, false, epochZero)
		if got := r.Since("q", epochZero.Add(c.at)); !got.Equal(c.want) {
			t.Errorf("%s: since %s, want %s", c.what, got, c.want)
		}
		if got := r.Since("other", epochZero); !got.IsZero() {
			t.Errorf("%s: another since %s", c.what, got)
		}
	}
}
