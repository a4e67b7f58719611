// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
)

// A call that waits for a slot and is interrupted ends at once, whatever has the slots.
func TestInterruptedWhileItWaits(t *testing.T) {
	var begun []compute.InstanceID
	c := newCalls(1, func(x *call) { begun = append(begun, x.id) })
	for n := range guestsPerSlot + 2 {
		c.start(&call{id: id(n), stage: task.Running, asks: true})
	}
	if len(begun) != guestsPerSlot {
		t.Fatalf("%d guests are asked at once", len(begun))
	}
	last := c.waiting[1]
	c.interrupt(last.id)
	if len(begun) != guestsPerSlot+1 || begun[guestsPerSlot] != last.id || len(c.waiting) != 1 {
		t.Errorf("begun are %v, and %d wait", begun, len(c.waiting))
	}
	c.ended(last)
	if c.guests.busy != guestsPerSlot {
		t.Errorf("%d slots are taken", c.guests.busy)
	}
}

// What was adopted while a poll is under way is not judged by that.
func TestAdoptedWhileAPollIsUnderWay(t *testing.T) {
	l := &loop{tasks: tasks{}, polls: polls{open: true, moved: map[compute.InstanceID]bool{}}}
	l.adopt(task.Adopted{Task: task.Task{Instance: id(1), Stage: task.Running}})
	if !l.polls.moved[id(1)] {
		t.Error("a poll that began before says that it is not there")
	}
}
