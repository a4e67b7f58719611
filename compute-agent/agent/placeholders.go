// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"

	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
)

// A placeholder of a reservation is a task as any other: it holds room, and its machine is a note on the disk. A task
// that says that it is in a placeholder (task.In) has the very room of that, so of the two only one counts: whichever
// of them goes first, nothing becomes free until the other one goes, too.

// taken are the placeholders, by attempt, whose room others here have.
func (ts tasks) taken() map[compute.InPlaceholder]bool {
	var taken map[compute.InPlaceholder]bool
	for _, t := range ts {
		if t.In.ID != "" {
			if taken == nil {
				taken = map[compute.InPlaceholder]bool{}
			}
			taken[t.In] = true
		}
	}
	return taken
}

// stays says whether a placeholder is here and does not end.
func (ts tasks) stays(in compute.InPlaceholder) bool {
	p := ts[in.ID]
	return p != nil && p.Placeholder && p.Attempt == in.Attempt && p.Stage != task.Ending
}

// noRoomIn is why work cannot have the room of its placeholder here; empty: it can, perhaps in a moment.
func (ts tasks) noRoomIn(b compute.Build) string {
	p := ts[b.In.ID]
	switch {
	case p == nil, !p.Placeholder, p.Project != b.Project, p.Attempt != b.In.Attempt, p.Stage != task.Running:
		return fmt.Sprintf("attempt %d of placeholder %s is not held here", b.In.Attempt, b.In.ID)
	case !p.Resources.Equal(b.Resources):
		return fmt.Sprintf("it needs %s, and placeholder %s holds %s", b.Resources, b.In.ID, p.Resources)
	}
	return ""
}

// placeFor is where work that was offered to this host alone has room, if it has.
func (l *loop) placeFor(b compute.Build) (compute.Place, bool) {
	if b.In.ID == "" {
		place, _, fits := l.fetches.RoomForPinned(b, l.room()).Allocate(b.Resources, compute.Place{})
		return place, fits
	}
	if l.tasks.noRoomIn(b) != "" || l.tasks.taken()[b.In] {
		return compute.Place{}, false // the one before has not left yet
	}
	return l.tasks[b.In.ID].Place, true
}

// giveUpPlaceholders has other hosts hold what is free of reservations, while this one is drained.
func (l *loop) giveUpPlaceholders() {
	if l.host.Desired.State != compute.HostDraining || !l.stream.caughtUp {
		return
	}
	taken := l.tasks.taken()
	for id, t := range l.tasks {
		if t.Placeholder && t.Stage == task.Running && !taken[compute.InPlaceholder{ID: id, Attempt: t.Attempt}] {
			l.step(id, task.Deleted{Attempt: t.Attempt, Claim: t.Claim})
		}
	}
}
