// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckTaken(t *testing.T) {
	again := func(r *Recording) {
		b := r.Builds[0]
		b.Seen, b.Avoid, b.Image = moment(128), nil, "image-1"
		r.Builds[0] = b
		r.Builds[0].Seen = moment(8)
		r.Builds = append(r.Builds, b)
	}
	sees(t, checkTaken, map[string]func(*Recording){
		"attempt 1 of vm-1 is in m1.small since 8.000s, and is put there again": again,
		"and is put there again": func(r *Recording) {
			again(r)
			r.Schedule.World.Bad = []schedule.BadImage{{Image: "image-2", Host: "host-1"}}
		},
		"right: a host where its image failed leaves it to others": func(r *Recording) {
			again(r)
			r.Schedule.World.Bad = []schedule.BadImage{{Image: "image-1", Host: "host-1"}}
		},
		"right: it avoids a host": func(r *Recording) {
			again(r)
			r.Builds[0].Avoid = []compute.HostID{"host-2"}
			r.Builds[1].Avoid = r.Builds[0].Avoid
		},
	})
}

// A class other than normal may wait for a queue manager that reads what was written while it was away.
func TestCheckPublished(t *testing.T) {
	// never has vm-1 wait for a time, in a queue that it never comes into.
	never := func(until schedule.Seconds, p compute.Priority, sips bool) func(*Recording) {
		return func(r *Recording) {
			r.Schedule.World.Sips, r.Schedule.World.Latency = sips, 0.1
			i := r.Log[0].Instance
			i.Boot.Rules = &compute.PlacementRules{Priority: p}
			r.Log, r.Builds = r.Log[:0], nil
			r.logged(2, i)
			i.State = compute.StateDeleted
			r.logged(until, i)
		}
	}
	sees(t, checkPublished, map[string]func(*Recording){
		"right: its end comes first":             never(70, compute.PriorityNormal, false),
		"came into the queue at never":           never(100, compute.PriorityNormal, true),
		"right: its tier is not made yet":        never(100, compute.PriorityHigh, true),
		"and attempt 1 came into the queue at":   never(100, compute.PriorityHigh, false),
		"attempt 1 came into the queue at never": never(300, compute.PriorityHigh, true),
		"right: nobody knows whether it is there": func(r *Recording) {
			never(90, compute.PriorityNormal, false)(r)
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultCode, Key: "Produce", Code: "UNKNOWN_SERVER_ERROR"}}
		},
		"came into the queue at nev": func(r *Recording) {
			never(90, compute.PriorityNormal, false)(r)
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultCode, Key: "Produce", Code: "NOT_LEADER_OR_FOLLOWER"}}
		},
		"right: its tier was being made": func(r *Recording) {
			never(90, compute.PriorityHigh, false)(r)
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultKill, Who: "queues-1"}}
		},
		"came into the queue at ": func(r *Recording) {
			never(90, compute.PriorityNormal, false)(r)
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultKill, Who: "queues-1"}}
		},
	})
}

func TestCheckTimers(t *testing.T) {
	claimed := func(r *Recording, detail string) {
		r.endsAt(61, compute.Reason{Code: compute.DeadlineExceeded, Detail: detail})
		id := r.Log[0].Instance.ID
		r.Claims = []Claimed{{moment(50), compute.Report{Instance: id, Attempt: 1, Claim: "late", Host: "host-1"}}}
	}
	ruled := func(faults ...schedule.Fault) func(*Recording) {
		return func(r *Recording) {
			r.Asks[0].Load.Boot.Rules = &compute.PlacementRules{Group: "web"}
			r.Schedule.Faults = faults
			claimed(r, "unclaimed for 1m0s: GroupRule (group web: its rule is not known yet)")
		}
	}
	cut := schedule.Fault{Kind: schedule.FaultLink, Who: "conductor-1", At: 40, For: 30}
	sees(t, checkTimers, map[string]func(*Recording){
		"host-1 had claimed it at 50.000s":                            func(r *Recording) { claimed(r, "unclaimed for 1m0s") },
		"and host-1 had claimed it":                                   ruled(),
		"right: its host may not have heard that the rule forbids it": ruled(cut),
		"right: its host heard that the rule forbids it": func(r *Recording) {
			ruled()(r)
			why := &compute.Reason{Code: compute.GroupRule}
			r.Denials = []Denied{{Command: compute.Command{Claim: "late", Reason: why}}}
		},
		"host-1 had claimed it": func(r *Recording) {
			ruled(cut)(r)
			r.Log[1].Instance.Reason.Detail = "unclaimed for 1m0s"
		},
		"right: the rule of a group that was made late may not be known": func(r *Recording) {
			r.Schedule.World.LateAt = 20
			ruled(cut)(r)
			r.Log[1].Instance.Reason.Detail = "unclaimed for 1m0s"
		},
	})
}
