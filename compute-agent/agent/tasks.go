// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
)

// tasks are what the agent does, one task for each instance that it has anything of.
type tasks map[compute.InstanceID]*task.Task

// free is how many of these slots no build has; open fetches are not counted.
func (ts tasks) free(slots int) int {
	for _, t := range ts {
		if hasSlot(*t) {
			slots--
		}
	}
	return slots
}

// hasSlot says whether a build is one of the few that are made at once.
func hasSlot(t task.Task) bool {
	return t.Busy == task.BusyPreparing || t.Stage == task.Preparing || t.Stage == task.Claiming && !t.Answered
}

// claiming says whether an answer to a claim may still come.
func (ts tasks) claiming() bool {
	for _, t := range ts {
		if t.Stage == task.Claiming {
			return true
		}
	}
	return false
}

// count is how many machines there are, and how many are being made.
func (ts tasks) count() (machines, building uint32) {
	for _, t := range ts {
		if t.Building() {
			building++
		} else {
			machines++
		}
	}
	return machines, building
}
