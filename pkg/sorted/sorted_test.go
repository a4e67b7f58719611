// SPDX-License-Identifier: Apache-2.0

package sorted

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestIsASortedSlice: whatever is done, the list is what a slice would be that is
// sorted each time.
func TestIsASortedSlice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l, model := New(cmp.Compare[int]), []int{}
		to := rapid.SampledFrom([]int{20, 5000}).Draw(rt, "to")
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			from := rapid.IntRange(0, to).Draw(rt, "from")
			some := rapid.SampledFrom([]int{1, 700}).Draw(rt, "some")
			for x := from; x < from+some; x++ {
				at, in := slices.BinarySearch(model, x)
				switch add := rapid.Bool().Draw(rt, "add") || some > 1; {
				case add && !in:
					model = slices.Insert(model, at, x)
					fallthrough
				case add:
					l.Add(x)
				case in:
					model = slices.Delete(model, at, at+1)
					fallthrough
				default:
					l.Remove(x)
				}
			}
			if drop := rapid.IntRange(0, 600).Draw(rt, "drop"); some == 1 {
				for _, x := range model[:min(drop, len(model))] {
					l.Remove(x)
				}
				model = slices.Delete(model, 0, min(drop, len(model)))
			}
			same(rt, l, model, from)
		}
	})
}

func same(t *rapid.T, l *List[int], model []int, from int) {
	if got := slices.Collect(l.From(nil)); !slices.Equal(got, model) || l.Len() != len(model) {
		t.Fatalf("%d: %v, want %v", l.Len(), got, model)
	}
	at, _ := slices.BinarySearch(model, from)
	before := func(x int) bool { return x < from }
	if n := l.Count(before); n != at {
		t.Fatalf("%d before %d, want %d", n, from, at)
	}
	if got := slices.Collect(l.From(before)); !slices.Equal(got, model[at:]) {
		t.Fatalf("from %d: %v, want %v", from, got, model[at:])
	}
	for range l.From(nil) {
		break
	}
	if first, ok := l.First(); ok != (len(model) > 0) || ok && first != model[0] {
		t.Fatalf("the first of %v: %d, %t", model, first, ok)
	}
	for _, run := range l.runs {
		if len(run) == 0 || len(run) > most {
			t.Fatalf("a run of %d", len(run))
		}
	}
}

func TestNilIsEmpty(t *testing.T) {
	var l *List[int]
	if _, ok := l.First(); ok || l.Len() != 0 || l.Count(func(int) bool { return true }) != 0 || len(slices.Collect(l.From(nil))) != 0 {
		t.Error("not empty")
	}
}
