// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// receiveWhole decides what becomes of a set that is offered whole: this host takes all of it that is not here yet,
// or nothing. Each part is a task of its own from then on. All are in the journal with one write, before anything is
// done for one; they are prepared as many at a time as there are slots, and none waits for another to be answered.
func (l *loop) receiveWhole(b compute.Build, ref wire.WorkRef, reserved compute.Place) {
	now := time.Now()
	missing, renew, why := l.notHere(b)
	if why != "" {
		l.debug("work is left to others", b, why)
		l.release(ref, false, now)
		return
	}
	if len(missing) == 0 {
		l.keepLocked(ref, renew)
		return
	}
	needs := make([]compute.Resources, len(missing))
	for i, part := range missing {
		needs[i] = part.Resources
	}
	places, fits := l.fetches.Beside(l.room()).AllocateAll(needs, reserved)
	if !l.taken(b, ref, fits, now) {
		return
	}
	made := l.tookFor(b.Queue)
	for i, part := range missing {
		l.beginTask(part, false, places[i])
		if i > 0 {
			l.tasks.stands(part.Instance, "", 0)
		} else {
			l.tasks.stands(part.Instance, b.Queue, made)
		}
		renew = append(renew, part.Instance)
	}
	l.keepLocked(ref, renew)
}

// notHere are the parts of a set that this host has nothing of, and those that it is building; why says that it
// cannot take the rest now.
func (l *loop) notHere(b compute.Build) (missing []compute.Build, building []compute.InstanceID, why string) {
	for _, part := range b.Parts {
		t := l.tasks[part.Instance]
		if t == nil {
			missing = append(missing, part)
			continue
		}
		switch how, says := known(*t, part); how {
		case wire.AckRelease:
			return nil, nil, fmt.Sprintf("%s: %s", part.Instance, says)
		case wire.AckRenew:
			building = append(building, part.Instance)
		}
	}
	return missing, building, ""
}

// keepLocked keeps a record as that of what is being built of it. Of one of which nothing is, all has an answer.
func (l *loop) keepLocked(ref wire.WorkRef, building []compute.InstanceID) {
	if len(building) == 0 {
		l.o.Puller.Ack(ref, wire.AckAccept)
		return
	}
	l.refs.add(ref, building...)
}

// checkParts refuses a set that is not what it says that it is: a host that believed the sum would run more than it
// has.
func checkParts(b compute.Build) error {
	sum, seen := compute.Resources{}, map[compute.InstanceID]bool{}
	for _, part := range b.Parts {
		if err := checkBuild(part); err != nil {
			return fmt.Errorf("part %s: %w", part.Instance, err)
		}
		if part.Project != b.Project || seen[part.Instance] {
			return compute.Invalid("parts", string(part.Instance), "give each instance of the project once")
		}
		seen[part.Instance] = true
		sum.Add(part.Resources)
	}
	if len(b.Parts) > 0 && !sum.FitsIn(b.Resources) {
		return compute.Invalid("resources", b.Resources.String(), "its parts need "+sum.String())
	}
	return nil
}
