// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
)

// startPinned takes the work that was offered to this host alone, or says why
// not. What only has to wait for fetches to end or a slot waits, and its share
// is kept from other fetches. What would soon have to go again waits, too.
func (l *loop) startPinned(now time.Time) {
	if !l.stream.caughtUp || l.twins.why != "" {
		return
	}
	l.fetches.Pinned(func(b compute.Build) bool {
		if l.pinnedOver(b, now) {
			return true
		}
		state, _ := l.state(now)
		if state != compute.HostEnabled || l.tasks.free(l.o.Slots) <= l.fetches.Open() || l.tasks[b.Instance] != nil {
			return false
		}
		place, fits := l.placeFor(b)
		if !fits {
			return false
		}
		l.beginTask(b, true, place)
		return true
	})
}

// pinnedOver says whether there is nothing to wait for.
func (l *loop) pinnedOver(b compute.Build, now time.Time) bool {
	t, known := l.tasks[b.Instance]
	if known && t.Project == b.Project && (t.Attempt > b.Attempt || t.Attempt == b.Attempt && !undone(*t)) {
		return true
	}
	why, closed := "", l.closed(b, now)
	state, reason := l.state(now)
	switch {
	case known && t.Project != b.Project:
		why = "an instance of another project with this id is here"
	case l.stopping, l.late(b):
		return true
	case state != compute.HostEnabled && !l.outwaits(b, state):
		why = strings.TrimSuffix(fmt.Sprintf("the host is %s: %s", state, reason), ": ") // operators may give none
	case checkBuild(b) != nil:
		why = checkBuild(b).Error()
	case !accepts(b, l.view.traits):
		why = fmt.Sprintf("the host lacks a trait, or has one that it must not: %v, not %v", b.Required, b.Forbidden)
	case b.In.ID != "": // without its key it fails here, and so counts: no other host is to have it
		why = l.tasks.noRoomIn(b)
	case closed != "":
		why = closed
	case l.waitsForRoom(b):
	case !l.room().Fits(b.Resources) && l.tasks[b.Instance] == nil:
		why = lacks(b.Resources, l.room())
	}
	if why == "" {
		return false
	}
	l.tellNotTaken(b, why)
	return true
}

// outwaits says whether work waits here until the host, which is not enabled, offers again. What has its room here does
// for a fault of the host: if it were refused, its placeholder would go, and that room be open to anybody. A member of
// a group that may be nowhere else does, for as long as its conductor says: refused, it would come again minutes after
// the host does. Whatever was said to a host that did not hear waits until it does: that costs nobody anything.
func (l *loop) outwaits(b compute.Build, state compute.HostState) bool {
	quarantined := state == compute.HostQuarantined
	return quarantined && l.hearing.deaf || b.Group != nil && l.mayWait(b) || b.In.ID != "" && quarantined
}

// mayWait says whether pinned work asks to wait here, and still may.
func (l *loop) mayWait(b compute.Build) bool { return l.clock.At(l.o.Now()).Before(b.WaitUntil) }

// tellNotTaken tells the conductor why work is not taken that no other host will look at now.
func (l *loop) tellNotTaken(b compute.Build, why string) {
	l.reports.tell(compute.Report{
		Op: compute.ReportPinned, Project: b.Project, Instance: b.Instance, Attempt: b.Attempt, Message: why,
		Trace: b.Trace,
	})
}

// undone says whether what was done for an attempt is given back: it was denied, or never answered. Offered again it is
// begun anew once nothing is left of that.
func undone(t task.Task) bool {
	return t.Stage == task.Ending && (t.End.How == task.EndReturned || t.End.How == task.EndQuiet)
}

// waitsForRoom says whether pinned work waits for machines here to end: it asks for that, and fits an empty host.
func (l *loop) waitsForRoom(b compute.Build) bool {
	return l.mayWait(b) && l.view.host.Room().Fits(b.Resources)
}

// lacks says why a machine has no room.
func lacks(needs compute.Resources, room offer.Room) string {
	free := cmp.Or(room.Free().String(), "nothing")
	if !needs.FitsIn(room.Free()) {
		return fmt.Sprintf("it needs %s, and %s is free", needs, free)
	}
	for class, most := range room.Largest() {
		if needs[class] > most {
			return fmt.Sprintf(
				"it needs %s, and one machine may have %s=%d at most now, of %s that is free",
				needs, class, most, free,
			)
		}
	}
	return fmt.Sprintf(
		"it needs %s, which no NUMA node, or no set of devices, has together, of %s that is free",
		needs, free,
	)
}
