// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"testing"
	"time"
)

// TestTakenInTheStory: a notice that was over for another reason did not have the machine queued again.
func TestTakenInTheStory(t *testing.T) {
	at := time.Unix(1000, 0)
	n := Notice{At: at, Until: at.Add(time.Minute), Then: "requeue", Over: at.Add(time.Second)}
	for _, taken := range []bool{false, true} {
		told := false
		n.Taken = taken
		for _, s := range LifeOf(Instance{State: "deleted", Notice: &n, EndedAt: at.Add(2 * time.Second)}) {
			told = told || s.What == StepTaken
		}
		if told != taken {
			t.Errorf("taken %v, told %v", taken, told)
		}
	}
}
