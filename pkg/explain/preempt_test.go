// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// A machine that has notice is told by which host, for which queue and class, until when, and what becomes of it.
func TestNoticeIsTold(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for then, becomes := range map[compute.Afterwards]string{compute.ThenDelete: "deleted", compute.ThenRequeue: "built anew"} {
		i := &compute.Instance{State: compute.StateActive, Host: "h1", ActiveAt: now, Power: compute.PowerRunning}
		i.Boot.Preempt(compute.Preemptible{Then: then})
		i.GiveNotice(&compute.Notice{
			At: now, Until: now.Add(time.Minute), Host: "h1", Queue: "m1.large.priority-high", Class: compute.PriorityHigh,
		})
		told := Tell(Facts{Now: now, Instance: i, Name: func(compute.HostID) compute.HostID { return "host-x" }})
		if !strings.Contains(told.Summary, "host-x") || strings.Contains(told.Summary, "h1") ||
			!strings.Contains(told.Summary, "priority high in queue m1.large") {
			t.Errorf("%s", told.Summary)
		}
		if len(told.Next) != 2 || !told.Next[0].At.Equal(now.Add(time.Minute)) || !strings.Contains(told.Next[1].What, becomes) {
			t.Errorf("%s: %+v", then, told.Next)
		}
	}
}
