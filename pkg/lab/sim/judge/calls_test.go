// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

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
	sees(t, checkCalls, map[string]func(*Recording){
		"right: nothing waits":                             calls("host-2", 50, mostCalls),
		"host-2 asked for work 16 times":                   calls("host-2", 50, mostCalls+1),
		"right: vm-1 came into a queue, and is not for it": alone(calls("host-2", 2.5, mostCalls+3*2+2)),
		"host-2 asked for work 24 times":                   alone(calls("host-2", 2.5, mostCalls+3*2+3)),
		"right: another host walks there too":              calls("host-2", 2.5, mostCalls+2*3*2+2),
		"host-2 asked for work 30 times":                   calls("host-2", 2.5, mostCalls+2*3*2+3),
		"right: over more time than a call may last, twice as many": func(r *Recording) {
			calls("host-2", 50, mostCalls)(r)
			calls("host-2", 60, mostCalls)(r)
		},
	})
}
