// SPDX-License-Identifier: Apache-2.0

package admit

// heap is a binary heap whose items know where they are in it, so that any of
// them can be moved or taken out in O(log n).
type heap[T any] struct {
	items []T
	less  func(a, b T) bool
	index func(T) *int32 // where the item keeps its index + 1; 0: it is in no heap
}

// top is the least item. The heap must not be empty.
func (h *heap[T]) top() T { return h.items[0] }

// fix puts an item in, or moves it to where it belongs now.
func (h *heap[T]) fix(item T) {
	i := int(*h.index(item)) - 1
	if i < 0 {
		i = len(h.items)
		h.items = append(h.items, item)
		*h.index(item) = int32(i + 1)
	}
	h.down(h.up(i))
}

// remove takes an item out; one that is not in changes nothing.
func (h *heap[T]) remove(item T) {
	i := int(*h.index(item)) - 1
	if i < 0 {
		return
	}
	last := len(h.items) - 1
	h.swap(i, last)
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	*h.index(item) = 0
	if i < last {
		h.down(h.up(i))
	}
}

func (h *heap[T]) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	*h.index(h.items[i]), *h.index(h.items[j]) = int32(i+1), int32(j+1)
}

func (h *heap[T]) up(i int) int {
	for i > 0 && h.less(h.items[i], h.items[(i-1)/2]) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	return i
}

func (h *heap[T]) down(i int) {
	for {
		least := i
		for _, child := range [...]int{2*i + 1, 2*i + 2} {
			if child < len(h.items) && h.less(h.items[child], h.items[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}
