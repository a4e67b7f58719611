// SPDX-License-Identifier: Apache-2.0

package events

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

var roomy = Bounds{Bytes: 1 << 20, Kept: 100, Listeners: 10, OfCaller: 10}

// entry is a record at an offset, of an instance that is named by a number.
func entry(p int32, offset int64, number int) Entry {
	at := Place{p, offset, noon.Add(time.Duration(offset) * time.Second)}
	return Entry{Place: at, Event: &Event{
		Place: at, Project: compute.Project(fmt.Sprintf("p%d", p)), ID: compute.InstanceID(fmt.Sprint(number)),
	}}
}

func listen(t testing.TB, l *Log, w Wish) *Listener {
	t.Helper()
	out, err := l.Listen(w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.Close)
	return out
}

// told is what comes until there is no more.
func told(l *Listener) (out []string) {
	for {
		switch i := l.Next(); i.Kind {
		case Nothing:
			return out
		case Change:
			out = append(out, fmt.Sprintf("%d:%d", i.Event.Partition, i.Event.Offset))
		case Gap:
			out = append(out, "gap to "+l.At().String())
		case Foreign:
			out = append(out, "foreign, to "+l.At().String())
		case Slow:
			return append(out, "slow at "+l.At().String())
		case Stopped:
			return append(out, "stopped at "+l.At().String())
		}
	}
}

func want(t *testing.T, l *Listener, want ...string) {
	t.Helper()
	if got := told(l); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

func TestAListenerHearsWhatComes(t *testing.T) {
	l := NewLog("", roomy, 2)
	l.Take([]Entry{entry(0, 0, 0), entry(1, 5, 1)})
	now, all := listen(t, l, Wish{}), listen(t, l, Wish{From: ID{Positions: Positions{0: 0, 1: 0}}})
	recent := listen(t, l, Wish{Since: noon.Add(3 * time.Second)})
	one := listen(t, l, Wish{From: ID{Positions: Positions{1: 5, 7: 1}}, Partitions: []int32{1}, Wanted: Wanted{Project: "p1"}})
	want(t, now)
	l.Take([]Entry{entry(0, 3, 2)})
	<-now.Wait()
	want(t, now, "0:3")
	want(t, all, "0:0", "1:5", "0:3")
	want(t, recent, "1:5", "0:3")
	want(t, one, "1:5")
	if at := all.At().String() + " " + one.At().String(); at != "0:4,1:6 1:6" {
		t.Error(at)
	}
	l.Stop()
	<-one.Wait()
	want(t, one, "stopped at 1:6")
	if _, err := l.Listen(Wish{}); compute.KindOf(err) != compute.KindUnavailable {
		t.Errorf("listens to a node that stops: %v", err)
	}
}

func TestGapsAreTold(t *testing.T) {
	l := NewLog("", Bounds{Bytes: 1 << 20, Kept: 2, Listeners: 10, OfCaller: 10}, 2)
	begin := Positions{0: 0, 1: 0}
	slow, other := listen(t, l, Wish{From: ID{Positions: begin}}), listen(t, l, Wish{From: ID{Positions: begin}, Partitions: []int32{1}})
	l.Take([]Entry{entry(0, 0, 0)})
	want(t, slow, "0:0")
	want(t, other)
	l.Take([]Entry{entry(0, 1, 0), entry(0, 2, 0), entry(0, 3, 0), entry(1, 0, 1)})
	want(t, slow, "slow at 0:1,1:0")
	want(t, other, "1:0")
	want(t, listen(t, l, Wish{From: slow.At()}), "gap to 0:3,1:0", "0:3", "1:0")
	want(t, listen(t, l, Wish{Since: noon.Add(time.Second)}), "gap to 0:3,1:0", "0:3")
	want(t, listen(t, l, Wish{Since: noon.Add(3 * time.Second)}), "0:3")

	live := listen(t, l, Wish{})
	missing := entry(0, 9, 0)
	missing.Missing = true
	l.Take([]Entry{missing, {Place: Place{1, 4, noon}}})
	want(t, live, "gap to 0:9,1:5", "0:9")
	want(t, listen(t, l, Wish{From: ID{Positions: Positions{0: 99, 1: 5}}}), "foreign, to 0:10,1:5")
	l.Forget(noon.Add(3 * time.Second))
	want(t, listen(t, l, Wish{From: ID{Positions: Positions{0: 0, 1: 5}}}), "gap to 0:9,1:5", "0:9")
	l.Forget(noon.Add(10 * time.Second))
	want(t, listen(t, l, Wish{From: ID{Positions: Positions{0: 9, 1: 5}}}), "gap to 0:10,1:5")
	if l.Ahead(ID{Positions: Positions{0: 10, 1: 5, 7: 9}}) || !l.Ahead(ID{Positions: Positions{0: 11, 1: 5}}) {
		t.Error("what is ahead")
	}
	if _, err := l.Listen(Wish{From: ID{Positions: Positions{0: 1}}}); compute.KindOf(err) != compute.KindInvalid {
		t.Errorf("goes on without a position in partition 1: %v", err)
	}
}

// A listener that begins with what comes is too slow as soon as something of that is forgotten, though it has taken
// nothing yet: were it told of a gap, it would get the present anew, and be as slow with that, again and again.
func TestSlowFromTheBeginning(t *testing.T) {
	l := NewLog("", Bounds{Bytes: 1 << 20, Kept: 2, Listeners: 10, OfCaller: 10}, 1)
	late := listen(t, l, Wish{})
	l.Take([]Entry{entry(0, 0, 0), entry(0, 1, 0), entry(0, 2, 0)})
	want(t, late, "slow at 0:0")
	want(t, listen(t, l, Wish{From: late.At()}), "gap to 0:1", "0:1", "0:2")
}

// Long texts take more memory: then fewer events are kept, and the others are a gap.
func TestEventsAreBoundedByTheirTexts(t *testing.T) {
	l := NewLog("", Bounds{Kept: 100, Bytes: 10_000, Listeners: 10, OfCaller: 10}, 1)
	for offset := range int64(5) {
		e := entry(0, offset, 0)
		e.Event.Reason = &compute.Reason{Detail: strings.Repeat("x", 4000)}
		l.Take([]Entry{e})
	}
	begin := Wish{From: ID{Positions: Positions{0: 0}}}
	want(t, listen(t, l, begin), "gap to 0:3", "0:3", "0:4")
	for offset := int64(5); offset < 30; offset++ {
		l.Take([]Entry{entry(0, offset, 0)})
	}
	if first := told(listen(t, l, begin))[0]; first != "gap to 0:11" {
		t.Error(first)
	}
	huge := entry(0, 30, 0)
	huge.Event.Answer = &compute.PowerAnswer{Failed: strings.Repeat("x", 20_000)}
	l.Take([]Entry{huge})
	want(t, listen(t, l, begin), "gap to 0:30", "0:30")
	l.Take([]Entry{entry(0, 31, 0)})
	want(t, listen(t, l, begin), "gap to 0:31", "0:31")
}

// Offsets of another log are none of this one, whatever they are: a listener that comes with them is told so.
func TestAnIDOfAnotherLog(t *testing.T) {
	before, l := NewLog("old", roomy, 2), NewLog("new", roomy, 1)
	before.Take([]Entry{entry(0, 0, 0), entry(1, 0, 0)})
	l.Take([]Entry{entry(0, 0, 0), entry(0, 1, 1), entry(0, 2, 2)})
	begin := listen(t, before, Wish{From: ID{"old", Positions{0: 0, 1: 0}}})
	want(t, begin, "0:0", "1:0")
	from, err := ParseID(begin.At().String())
	if err != nil || from.String() != "0:1,1:1@old" || l.Ahead(from) {
		t.Fatalf("%v %v", from, err)
	}
	again := listen(t, l, Wish{From: from})
	want(t, again, "foreign, to 0:3@new")
	l.Take([]Entry{entry(0, 3, 3)})
	want(t, again, "0:3")
	for _, id := range []ID{{"", Positions{0: 1}}, {"old", Positions{0: 9}}, {"new", Positions{0: 9}}} {
		want(t, listen(t, l, Wish{From: id}), "foreign, to 0:4@new")
	}
	want(t, listen(t, l, Wish{From: ID{"new", Positions{0: 3}}}), "0:3")
}

// A listener that begins anew does so where there is no place for another one, too.
func TestRenew(t *testing.T) {
	l := NewLog("", Bounds{Bytes: 1 << 20, Kept: 2, Listeners: 1, OfCaller: 1}, 1)
	a := listen(t, l, Wish{Caller: "a", From: ID{Positions: Positions{0: 0}}})
	l.Take([]Entry{entry(0, 0, 0), entry(0, 1, 0), entry(0, 2, 0)})
	if k := a.Next().Kind; k != Gap {
		t.Fatalf("told %d", k)
	}
	if a.Renew(); l.Listeners() != 1 {
		t.Errorf("%d listeners", l.Listeners())
	}
	want(t, a)
	l.Take([]Entry{entry(0, 3, 0)})
	want(t, a, "0:3")
	a.Renew()
	l.Take([]Entry{entry(0, 4, 0), entry(0, 5, 0), entry(0, 6, 0)})
	want(t, a, "slow at 0:4")
	a.Renew()
	l.Stop()
	want(t, a, "stopped at 0:7")
}

func TestListenersAreBounded(t *testing.T) {
	l := NewLog("", Bounds{Bytes: 1 << 20, Kept: 1, Listeners: 3, OfCaller: 2}, 1)
	a := listen(t, l, Wish{Caller: "a"})
	listen(t, l, Wish{Caller: "a"})
	_, err := l.Listen(Wish{Caller: "a"})
	refused, _ := err.(*compute.Error)
	if refused == nil || refused.Kind != compute.KindUnavailable || refused.Value != "3" ||
		refused.Message != "2 of them are yours, and one caller may have no more" {
		t.Errorf("a third of one caller: %v", err)
	}
	listen(t, l, Wish{Caller: "b"})
	if _, err := l.Listen(Wish{Caller: "b"}); compute.KindOf(err) != compute.KindUnavailable {
		t.Errorf("a fourth: %v", err)
	}
	a.Close()
	a.Close()
	listen(t, l, Wish{Caller: "a"})
	if n := l.Listeners(); n != 3 {
		t.Errorf("%d listeners", n)
	}
}

// node is a log that reads the same partitions as others, at its own pace and in its own order.
type node struct {
	*Log
	read []int64 // of each partition
}

func (n *node) reads(written [][]Entry, p int) {
	n.Take([]Entry{written[p][n.read[p]]})
	n.read[p]++
}

// Wherever a listener is cut off, at whichever node it goes on, whatever its filter: it hears each change that passes
// once, in the order of each partition, but for those that are below the position to which it was told of a gap.
func TestResume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const partitions = 3
		written := make([][]Entry, partitions)
		for p := range written {
			offset := int64(0)
			for range rapid.IntRange(0, 30).Draw(t, "records") {
				offset += rapid.Int64Range(1, 3).Draw(t, "offset") // markers and takeovers lie between
				written[p] = append(written[p], entry(int32(p), offset, rapid.IntRange(0, 3).Draw(t, "instance")))
			}
		}
		var nodes []*node
		for range 2 {
			kept := rapid.SampledFrom([]int{1, 5, 200}).Draw(t, "kept")
			b := Bounds{Bytes: 1 << 20, Kept: kept, Listeners: 1, OfCaller: 1}
			nodes = append(nodes, &node{NewLog("", b, partitions), make([]int64, partitions)})
		}
		w := Wish{From: ID{Positions: Positions{0: 0, 1: 0, 2: 0}}}
		if rapid.Bool().Draw(t, "of an instance") {
			w.Wanted.Instance = "1"
		}
		if rapid.Bool().Draw(t, "of a project") {
			w.Wanted.Project, w.Partitions = "p1", []int32{1}
		}
		heard, gaps := map[Place]int{}, Positions{}
		last := make([]int64, partitions)
		hear := func(l *Listener, most int) bool {
			for range most {
				switch i := l.Next(); i.Kind {
				case Nothing:
					return true
				case Change:
					if heard[i.Event.Place]++; i.Event.Offset < last[i.Event.Partition] {
						t.Fatalf("%v comes late", i.Event.Place)
					}
					last[i.Event.Partition] = i.Event.Offset
				case Gap:
					for p, to := range l.At().Positions {
						gaps[p] = to
					}
				case Slow:
					return false
				case Foreign, Stopped:
					t.Fatalf("told %d", i.Kind)
				}
			}
			return true
		}
		session := func(n *node, chunks int) {
			for n.Ahead(w.From) { // as a node does that catches up
				for p := range written {
					if int(n.read[p]) < len(written[p]) {
						n.reads(written, p)
					}
				}
			}
			l, err := n.Listen(w)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			for ok := true; ok && chunks > 0; chunks-- {
				for range rapid.IntRange(0, 8).Draw(t, "reads") {
					if p := rapid.IntRange(0, partitions-1).Draw(t, "of"); int(n.read[p]) < len(written[p]) {
						n.reads(written, p)
					}
				}
				ok = hear(l, rapid.IntRange(0, 10).Draw(t, "hears"))
			}
			from, err := ParseID(l.At().String())
			if err != nil {
				t.Fatal(err)
			}
			w.From = from
		}
		for range rapid.IntRange(1, 6).Draw(t, "cuts") {
			session(nodes[rapid.IntRange(0, 1).Draw(t, "node")], rapid.IntRange(0, 4).Draw(t, "chunks"))
		}
		for p := range written { // the end: all is read, and told to one that is never slow
			for int(nodes[0].read[p]) < len(written[p]) {
				nodes[0].reads(written, p)
			}
		}
		l, err := nodes[0].Listen(w)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		hear(l, 1000)
		for p := range written {
			for _, e := range written[p] {
				n, passes := heard[e.Place], w.Wanted.Takes(e.Event)
				switch {
				case n > 1, n == 1 && !passes:
					t.Errorf("%v was told %d times", e.Place, n)
				case n == 0 && passes && e.Offset >= gaps[e.Partition]:
					t.Errorf("%v was not told, and no gap: %v", e.Place, gaps)
				}
			}
		}
	})
}

// A thousand listen, some of which are slow, while more comes than is kept, as fast as it can: whoever appends waits for
// nobody, and each hears all in order, but for what it is told that it was too slow for.
func TestSlowListenersHoldNobodyUp(t *testing.T) {
	const listeners, changes, kept = 1000, 3000, 256
	l := NewLog("", Bounds{Bytes: 1 << 20, Kept: kept, Listeners: listeners, OfCaller: listeners}, 1)
	var all sync.WaitGroup
	release := make(chan struct{})
	var late atomic.Int64 // how often one was too slow
	for n := range listeners {
		at := listen(t, l, Wish{Caller: fmt.Sprint(n)})
		all.Go(func() {
			if n%100 == 7 { // it hears nothing until all is over
				<-release
			}
			next := int64(0)
			for next < changes {
				switch i := at.Next(); i.Kind {
				case Change:
					if i.Event.Offset != next {
						t.Errorf("listener %d hears %d, and %d was the next", n, i.Event.Offset, next)
						return
					}
					next++
				case Nothing:
					<-at.Wait()
				case Slow:
					late.Add(1)
					from := at.At()
					at.Close()
					again, err := l.Listen(Wish{From: from, Caller: fmt.Sprint(n)})
					if err != nil {
						t.Error(err)
						return
					}
					defer again.Close()
					at = again
				case Gap:
					if to := at.At().Positions[0]; to > next {
						next = to
					}
				default:
					t.Errorf("listener %d was told %d after %d changes", n, i.Kind, next)
					return
				}
			}
		})
	}
	for n := range int64(changes) {
		l.Take([]Entry{entry(0, n, 0)})
	}
	close(release)
	all.Wait()
	if late.Load() < listeners/100 {
		t.Errorf("%d were too slow, and %d took nothing", late.Load(), listeners/100)
	}
}
