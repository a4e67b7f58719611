// SPDX-License-Identifier: Apache-2.0

//go:build !race

// With the race detector pools forget at random, so that what is allocated says nothing.

package api

import (
	"runtime"
	"testing"
)

// TestWorkDoesNotGrowWithQueues counts the bytes that a request and a record
// allocate: with a hundred times the queues and hosts they are the same but for a
// little. A pass over all of them that collects anything shows.
func TestWorkDoesNotGrowWithQueues(t *testing.T) {
	few, many := newWide(t, 200, 10), newWide(t, 20_000, 1000)
	compare := func(what string, small, large func()) {
		a, b := allocates(small), allocates(large)
		t.Logf("%-24s %7d bytes, %7d with 20,000 queues", what, a, b)
		if b > a+a/4+1024 {
			t.Errorf("%s: %d bytes with 200 queues and 10 hosts, %d with 20,000 and 1,000", what, a, b)
		}
	}
	for what, path := range few.asked() {
		compare(what, func() { few.get(path) }, func() { many.get(path) })
	}
	large := many.taken()
	for what, small := range few.taken() {
		compare(what, small, large[what])
	}
}

// allocates is how many bytes a call allocates once everything is warm: the least
// of some, so that nothing else that happens counts.
func allocates(f func()) uint64 {
	least := ^uint64(0)
	var before, after runtime.MemStats
	for range 5 {
		f()
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}
