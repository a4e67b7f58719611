// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type weight struct {
	n     int
	place int32
}

// TestHeap moves things in, about and out; the top is always the least of them.
func TestHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := heap[*weight]{
			less: func(a, b *weight) bool { return a.n < b.n }, index: func(w *weight) *int32 { return &w.place },
		}
		all := make([]weight, rapid.SampledFrom([]int{8, 40}).Draw(t, "items"))
		in := map[*weight]bool{}
		for range rapid.IntRange(1, 10*len(all)).Draw(t, "steps") {
			w := &all[rapid.IntRange(0, len(all)-1).Draw(t, "which")]
			if rapid.IntRange(0, 2).Draw(t, "remove") == 0 {
				h.remove(w)
				delete(in, w)
			} else {
				w.n = rapid.IntRange(0, 20).Draw(t, "weight")
				h.fix(w)
				in[w] = true
			}
			sameHeap(t, &h, in)
		}
	})
}

func sameHeap(t *rapid.T, h *heap[*weight], in map[*weight]bool) {
	if len(h.items) != len(in) {
		t.Fatalf("%d items, want %d", len(h.items), len(in))
	}
	for i, w := range h.items {
		if !in[w] || w.place != int32(i+1) {
			t.Fatalf("item %d says it is at %d", i, w.place-1)
		}
		if i > 0 && h.less(w, h.items[(i-1)/2]) {
			t.Fatalf("%d lies below %d", w.n, h.items[(i-1)/2].n)
		}
	}
	if len(in) > 0 && h.top().n != slices.MinFunc(h.items, func(a, b *weight) int { return a.n - b.n }).n {
		t.Fatalf("the top is %d of %v", h.top().n, h.items)
	}
}
