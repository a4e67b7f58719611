// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// A limit counts 8 s after its change was answered, and later only for a conductor that could not hear of it.
func TestLimitsInForce(t *testing.T) {
	link := func(who string, at, length schedule.Seconds) []schedule.Fault {
		return []schedule.Fault{{Kind: schedule.FaultLink, Who: who, At: at, For: length}}
	}
	broker := func(kind, key string) []schedule.Fault {
		return []schedule.Fault{{Kind: kind, Key: key, Who: "broker", At: 1, For: 60}}
	}
	slow := func(who string, by schedule.Seconds) []schedule.Fault {
		return []schedule.Fault{{Kind: schedule.FaultSlow, Who: who, By: by, At: 1, For: 60}}
	}
	for name, x := range map[string]struct {
		decided schedule.Seconds
		faults  []schedule.Fault
		limits  int // how many may be in force
	}{
		"at once":                             {5, nil, 2},
		"later":                               {20, nil, 1},
		"while a conductor is cut":            {20, link("conductor-1", 1, 60), 2},
		"after a conductor was cut":           {90, link("conductor-1", 1, 60), 1},
		"cut long after the change":           {40, link("conductor-1", 15, 60), 1},
		"while a broker is away":              {20, broker(schedule.FaultNode, ""), 2},
		"while one tells of old leaders":      {20, broker(schedule.FaultLeaders, schedule.Stale), 2},
		"while one tells of old coordinators": {20, broker(schedule.FaultCoordinators, schedule.Stale), 2},
		"while there are other leaders":       {20, broker(schedule.FaultLeaders, ""), 1},
		"after a broker was away":             {90, broker(schedule.FaultNode, ""), 1},
		"while another process is so":         {20, link("queue-manager-1", 1, 60), 1},
		"while a conductor is very slow":      {20, slow("conductor-1", 1), 2},
		"after a conductor was very slow":     {90, slow("conductor-1", 1), 1},
		"while a conductor is a little slow":  {20, slow("conductor-1", 0.49), 1},
		"while it is just so slow":            {20, slow("conductor-1", 0.5), 2},
		"long after the change":               {40, slow("conductor-1", 0.5), 1},
		"while a host is very slow":           {20, slow("host-1", 1), 1},
	} {
		r := made()
		r.Schedule.Faults = x.faults
		r.Asks = append(r.Asks, Ask{
			Load:  schedule.Load{Op: schedule.LoadQuota, Project: "red", Limits: compute.Resources{compute.VCPU: 9}},
			Began: moment(1), Answered: moment(2), OK: true,
		})
		if got := r.limitsAt("red", moment(x.decided), moment(x.decided)); len(got) != x.limits {
			t.Errorf("%s: %d limits may be in force, %d were expected: %v", name, len(got), x.limits, got)
		}
	}
}

// Of two limits that were asked for at one time nobody knows which came last: one of the two is asked for again and again
// until it is answered.
func TestLimitsAskedForAtOneTime(t *testing.T) {
	set := func(n int64, began, answered schedule.Seconds) Ask {
		l := schedule.Load{Op: schedule.LoadQuota, Project: "red", Limits: compute.Resources{compute.VCPU: n}}
		return Ask{Load: l, Began: moment(began), Answered: moment(answered), OK: true}
	}
	for name, x := range map[string]struct {
		second Ask
		limits int
	}{
		"at one time": {set(3, 5, 5.1), 2}, "one after the other": {set(3, 13, 13.1), 1},
	} {
		r := made()
		r.Asks = append(r.Asks, set(1, 1, 12), x.second)
		if got := r.limitsAt("red", moment(40), moment(40)); len(got) != x.limits {
			t.Errorf("%s: %d limits may be in force, %d were expected: %v", name, len(got), x.limits, got)
		}
	}
}
