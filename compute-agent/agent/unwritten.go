// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/compute"
)

// unwritten is what has changed and the journal does not have yet. What something waits for (urgent) is written at
// the end of the iteration, the rest within a while: each write costs the disk the same, however much is in it.
// What is on the disk is so always all that was decided up to some moment, the stream's position included.
type unwritten struct {
	journal  Journal
	metrics  *Metrics
	within   time.Duration  // how long what nothing waits for stays unwritten
	change   journal.Change // what is not about tasks
	urgent   bool
	by       time.Time                   // when it is written at the latest; zero: there is nothing to write
	tasks    map[compute.InstanceID]bool // that changed
	forgot   map[compute.InstanceID]bool
	position int64 // of the stream, that the journal has or is to have
	passed   int64 // up to where only words follow that mean nothing later: written down with what is written anyway
}

func newUnwritten(o *Options, position int64) unwritten {
	return unwritten{
		journal: o.Journal, metrics: o.Metrics, within: o.Timing.Note, position: position,
		tasks: map[compute.InstanceID]bool{}, forgot: map[compute.InstanceID]bool{},
	}
}

// forget has a task that is over taken out of the journal.
func (u *unwritten) forget(id compute.InstanceID) {
	delete(u.tasks, id)
	u.forgot[id] = true
}

// readUpTo has the position in the stream written: everything before it is acted upon.
func (u *unwritten) readUpTo(next int64) { u.change.Position, u.position, u.passed = &next, next, next }

// readPassed has the position moved behind what has passed, or the next start might find that it was removed unread.
func (u *unwritten) readPassed() {
	if u.passed > u.position {
		u.readUpTo(u.passed)
	}
}

// write brings everything that changed to the disk, if some of it is urgent, or if the rest has waited long
// enough.
func (u *unwritten) write(all tasks, now time.Time) error {
	if u.change.Empty() && len(u.tasks) == 0 && len(u.forgot) == 0 {
		return nil
	}
	if u.by.IsZero() {
		u.by = now.Add(u.within)
	}
	if !u.urgent && now.Before(u.by) {
		return nil
	}
	u.readPassed()
	for id := range u.tasks {
		if t, ok := all[id]; ok {
			u.change.Put = append(u.change.Put, remember(*t))
		}
	}
	for id := range u.forgot {
		if _, again := all[id]; !again {
			u.change.Forget = append(u.change.Forget, id)
		}
	}
	began := time.Now()
	if err := u.journal.Write(u.change); err != nil {
		return err
	}
	u.metrics.wrote(began)
	u.change, u.urgent, u.by = journal.Change{}, false, time.Time{}
	clear(u.tasks)
	clear(u.forgot)
	return nil
}
