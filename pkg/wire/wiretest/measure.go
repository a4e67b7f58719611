// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Many is how many instances a test shall make: BERTH_MILLION of them, or few.
func Many(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("BERTH_MILLION"))
	if err != nil {
		return 20_000
	}
	return n
}

// Heap is what is reachable, in bytes.
func Heap() uint64 {
	runtime.GC()
	runtime.GC() // what the first made free
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Watch adds up time and processor time: of this process in all, so with its
// share of collecting garbage.
type Watch struct{ Time, CPU time.Duration }

// Run does f on the watch.
func (w *Watch) Run(f func()) {
	began, used := time.Now(), cpu()
	f()
	w.Time += time.Since(began)
	w.CPU += cpu() - used
}

func (w *Watch) String() string {
	return fmt.Sprintf("%.1f s (%.1f s of processors)", w.Time.Seconds(), w.CPU.Seconds())
}

func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Took is how long one call takes: the median of some.
func Took(times int, f func()) time.Duration {
	var all []time.Duration
	for range times {
		began := time.Now()
		f()
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
