// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// bouts are the times in which something goes wrong. Nobody need wait for the
// end of one that can do no more harm.
type bouts struct {
	mu   sync.Mutex
	open []bout
}

type bout struct {
	ends  time.Time
	spent func() bool // says that it is over before; nil: it lasts
}

// lasts notes that something goes wrong from now on.
func (w *play) lasts(d schedule.Seconds, spent func() bool) {
	w.bouts.mu.Lock()
	defer w.bouts.mu.Unlock()
	w.bouts.open = append(w.bouts.open, bout{time.Now().Add(d.Duration()), spent})
}

// troubled says whether anything still goes wrong.
func (w *play) troubled() bool {
	w.bouts.mu.Lock()
	defer w.bouts.mu.Unlock()
	for _, b := range w.bouts.open {
		if time.Now().Before(b.ends) && (b.spent == nil || !b.spent()) {
			return true
		}
	}
	return false
}

// laid are faults of which it shows only at the end whether they took place: an error
// for the next call, which may never have come.
type laid struct {
	mu   sync.Mutex
	open []lay
}

type lay struct {
	fault schedule.Fault
	came  func() bool
}

func (l *laid) lay(f schedule.Fault, came func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, lay{f, came})
}

// came are those that took place.
func (l *laid) came() []schedule.Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []schedule.Fault
	for _, x := range l.open {
		if x.came() {
			all = append(all, x.fault)
		}
	}
	return all
}
