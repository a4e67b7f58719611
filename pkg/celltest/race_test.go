// SPDX-License-Identifier: Apache-2.0

//go:build race

package celltest

import (
	"runtime"
	"testing"
)

// raced says that the race detector watches: everything takes many times as long.
const raced = true

// alone gives a test one processor. All timers of a bubble share one context of
// the race detector, which ends the process when two processors use it at the
// same time (golang/go#78156). Races are found all the same: they need no two.
func alone(t *testing.T) {
	t.Helper()
	before := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}
