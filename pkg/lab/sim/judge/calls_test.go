// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckCalls(t *testing.T) {
	calls := func(h compute.HostID, at schedule.Seconds, n int) func(*Recording) {
		return func(r *Recording) {
			for range n {
				r.Fetches[h] = append(r.Fetches[h], moment(at))
			}
		}
	}
	alone := func(call func(*Recording)) func(*Recording) {
		return func(r *Recording) {
			r.Schedule.World.Hosts = r.Schedule.World.Hosts[1:]
			call(r)
		}
	}
	// ended has work end at 20 s that has waited since 5 s.
	ended := func(n int, call func(*Recording)) func(*Recording) {
		return func(r *Recording) {
			for w := range n {
				i := compute.Instance{ID: compute.InstanceID(fmt.Sprint("ended-", w)), State: compute.StateQueued}
				r.Log = append(r.Log, Written{Seen: moment(5), Instance: i})
				i.State = compute.StateError
				r.Log = append(r.Log, Written{Seen: moment(20), Instance: i})
			}
			call(r)
		}
	}
	// refused has what waited claimed by a host, and that denied by a rule of its group.
	refused := func(call func(*Recording)) func(*Recording) {
		return alone(func(r *Recording) {
			r.Claims = append(r.Claims, Claimed{moment(0.4), compute.Report{
				Instance: madeID, Attempt: 1, Host: "host-3", Claim: "c0",
			}})
			r.Denials = append(r.Denials, Denied{moment(0.5), "host-3", compute.Command{
				Claim: "c0", Reason: &compute.Reason{Code: compute.GroupRule},
			}})
			call(r)
		})
	}
	// doubled has what was claimed published once more before.
	doubled := func(call func(*Recording)) func(*Recording) {
		return alone(func(r *Recording) {
			again := r.Builds[0]
			again.Seen, again.Deadline = moment(2.6), moment(70)
			r.Builds = append(r.Builds, again)
			call(r)
		})
	}
	sees(t, checkCalls, map[string]func(*Recording){
		"right: nothing waits":                             calls("host-2", 50, mostCalls),
		"host-2 asked for work 16 times":                   calls("host-2", 50, mostCalls+1),
		"right: vm-1 came into a queue, and is not for it": alone(calls("host-2", 2.5, mostCalls+3*2+2)),
		"host-2 asked for work 24 times":                   alone(calls("host-2", 2.5, mostCalls+3*2+3)),
		"right: it was claimed, and lies there again":      refused(calls("host-2", 2.5, mostCalls+3*2+2)),
		"right: a copy of it lies there":                   doubled(calls("host-2", 50, mostCalls+3*2)),
		"host-2 asked for work 22 times":                   doubled(calls("host-2", 50, mostCalls+3*2+1)),
		"right: another host walks there too":              calls("host-2", 2.5, mostCalls+2*3*2+2),
		"host-2 asked for work 30 times":                   calls("host-2", 2.5, mostCalls+2*3*2+3),
		"right: what ended in queues is dropped":           ended(5, calls("host-2", 100, mostCalls+5*2)),
		"host-2 asked for work 26 times":                   ended(5, calls("host-2", 100, mostCalls+5*2+1)),
		"right: over more time than a call may last, twice as many": func(r *Recording) {
			calls("host-2", 50, mostCalls)(r)
			calls("host-2", 60, mostCalls)(r)
		},
	})
}

// vm-1, which avoids host-2, waits in m1.small from 2 s to 3 s: until 5 s a host may be rung for it.
func TestCheckRung(t *testing.T) {
	rung := func(at schedule.Seconds, h compute.HostID, l compute.Look) func(*Recording) {
		return func(r *Recording) { r.Rings = append(r.Rings, Rung{moment(at), h, l}) }
	}
	small, large := compute.Look{Queue: "m1.small"}, compute.Look{Queue: "m1.large"}
	// whole has it wait for its set, which is offered in m1.large as one.
	whole := func(ring func(*Recording)) func(*Recording) {
		return func(r *Recording) {
			set := compute.Set{ID: madeID, Size: 2, Whole: "m1.large"}
			r.Log[0].Instance.Boot.Rules = compute.RulesOf("", set, compute.PriorityNormal)
			ring(r)
		}
	}
	sees(t, checkRung, map[string]func(*Recording){
		"right: it waits": rung(2.5, "host-1", small),
		"host-1 is rung for m1.large, and nothing waits there": rung(2.5, "host-1", large),
		"host-2 is rung for m1.small, and nothing waits there": rung(2.5, "host-2", small),
		"right: the queue manager has not heard of its claim":  rung(4.9, "host-1", small),
		"host-1 is rung for m1.small, and nothing waits":       rung(5.1, "host-1", small),
		"right: a network delays what it hears": func(r *Recording) {
			rung(5.1, "host-1", small)(r)
			r.Schedule.World.Latency = 0.01
		},
		"right: room is held for what may come":  rung(2.5, "host-1", compute.Look{Queue: "m1.large", Hold: time.Second}),
		"right: room need not be saved any more": rung(2.5, "host-1", compute.Look{Queue: "m1.large", Spend: true}),
		"right: it was before the beginning":     rung(-1, "host-1", large),
		"right: something is wrong": func(r *Recording) {
			rung(2.5, "host-1", large)(r)
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultKill, Who: "queues-1"}}
		},
		"right: its set waits there whole": whole(rung(2.5, "host-1", large)),
		"host-1 is rung for m1.small, and": whole(rung(2.5, "host-1", small)),
	})
}
