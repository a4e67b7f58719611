// SPDX-License-Identifier: Apache-2.0

package sorted

import (
	"cmp"
	"testing"

	"pgregory.net/rapid"
)

// pair is an item of which only a part is compared.
type pair struct{ key, value int }

// Of items that compare equal there is one, and it is the last that was added;
// whatever is removed in its name is it.
func TestOfEqualsTheLastStays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l, model := New(func(a, b pair) int { return cmp.Compare(a.key, b.key) }), map[int]int{}
		to := rapid.SampledFrom([]int{3, 50, 2000}).Draw(rt, "to")
		for i := range rapid.IntRange(1, 3*to).Draw(rt, "steps") {
			key := rapid.IntRange(0, to).Draw(rt, "key")
			if rapid.IntRange(0, 3).Draw(rt, "removes") == 0 {
				l.Remove(pair{key: key, value: -1})
				delete(model, key)
				continue
			}
			l.Add(pair{key, i})
			model[key] = i
		}
		seen := -1
		for p := range l.From(nil) {
			if want, in := model[p.key]; !in || p.value != want || p.key <= seen {
				rt.Fatalf("%+v behind key %d, want value %d, there: %t", p, seen, want, in)
			}
			seen = p.key
		}
		if l.Len() != len(model) {
			rt.Fatalf("%d, want %d", l.Len(), len(model))
		}
	})
}

// Whatever the order in which items come, there are few runs: what finding one costs
// depends on how many there are.
func TestRunsAreFew(t *testing.T) {
	const n = 20 * most
	for name, at := range map[string]func(i int) int{
		"rising":  func(i int) int { return i },
		"falling": func(i int) int { return -i },
		"mixed":   func(i int) int { return i * 7919 % n },
	} {
		l := New(cmp.Compare[int])
		for i := range n {
			l.Add(at(i))
		}
		if l.Len() != n || len(l.runs) > 2*n/most+1 {
			t.Errorf("%s: %d items in %d runs", name, l.Len(), len(l.runs))
		}
	}
}

// What comes in order leaves full runs behind: half as many as what comes mixed.
func TestInOrderRunsAreFull(t *testing.T) {
	l := New(cmp.Compare[int])
	for i := range 3 * most {
		l.Add(i)
	}
	if len(l.runs) != 3 {
		t.Errorf("%d runs, want 3", len(l.runs))
	}
}
