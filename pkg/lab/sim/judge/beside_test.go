// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckBeside(t *testing.T) {
	away := func(r *Recording, topic string, partition int32, until schedule.Seconds) *Recording {
		f := schedule.Fault{Kind: schedule.FaultLeaderless, Topic: topic, Partition: partition, For: until}
		r.Schedule.Faults = append(r.Schedule.Faults, f)
		r.AddLeaderless(Leaderless{topic, partition, moment(0), moment(until)})
		return r
	}
	late := func(r *Recording) {
		r.Asks[0].Answered, r.Asks[0].Load.Own = moment(17), "id"
	}
	last := func(r *Recording, was compute.State) {
		r.Log[len(r.Log)-1].Seen = moment(20)
		r.Log[len(r.Log)-2].Instance.State = was
	}
	waits := func(r *Recording, deadline schedule.Seconds) {
		r.Log = r.Log[:1]
		r.Log[0].Instance.Deadline = moment(deadline)
	}
	sees(t, checkBeside, map[string]func(*Recording){
		"right: all is in time":                  func(r *Recording) { away(r, "requests", 1, 60) },
		"beside: boot of vm-1, asked at 1":       func(r *Recording) { late(away(r, "requests", 1, 60)) },
		"right: its own partition has none":      func(r *Recording) { late(away(r, "requests", 0, 60)) },
		"right: it had a leader again meanwhile": func(r *Recording) { late(away(r, "requests", 1, 10)) },
		"right: something else went wrong, too": func(r *Recording) {
			late(away(r, "requests", 1, 60))
			r.Schedule.Faults = append(r.Schedule.Faults, schedule.Fault{Kind: schedule.FaultKill})
		},
		"right: nobody repeats it": func(r *Recording) {
			late(away(r, "requests", 1, 60))
			r.Asks[0].Load.Own = ""
		},
		"beside: vm-1 is starting since 3": func(r *Recording) { last(away(r, "reports", 1, 60), compute.StateStarting) },
		"beside: vm-1 is deleting since 3": func(r *Recording) { last(away(r, "reports", 1, 60), compute.StateDeleting) },
		"right: its partition was taken over before": func(r *Recording) {
			last(away(r, "reports", 1, 60), compute.StateStarting)
			r.Owners = append(r.Owners, Owned{Seen: moment(2), Partition: 0})
		},
		"right: its partition is taken over meanwhile": func(r *Recording) {
			last(away(r, "reports", 1, 60), compute.StateDeleting)
			r.Owners = append(r.Owners, Owned{Seen: moment(10), Partition: 0})
		},
		"beside: vm-1 is deleting since 3.0": func(r *Recording) {
			last(away(r, "reports", 1, 60), compute.StateDeleting)
			r.Owners = append(r.Owners, Owned{Seen: moment(10), Partition: 1}, Owned{Seen: moment(19), Partition: 0})
		},
		"right: an answer that a network delays": func(r *Recording) {
			late(away(r, "requests", 1, 60))
			r.Schedule.World.Latency = 0.05
		},
		"right: a host that a network delays": func(r *Recording) {
			last(away(r, "reports", 1, 60), compute.StateStarting)
			r.Schedule.World.Latency = 0.05
		},
		"beside: vm-1 is starting since 3.0": func(r *Recording) {
			last(away(r, "reports", 1, 60), compute.StateStarting)
			r.Schedule.World.Latency = 0.02
		},
		"beside: vm-1 is starting since 3.00": func(r *Recording) {
			last(away(r, "reports", 1, 60), compute.StateStarting)
			r.Log[len(r.Log)-1].Seen, r.Schedule.World.Latency = moment(50), 0.05
		},
		"right: reports are read one by one": func(r *Recording) {
			last(away(r, "reports", 1, 60), compute.StateStarting)
			r.Log[len(r.Log)-1].Seen, r.Schedule.World.Latency, r.Schedule.World.Sips = moment(50), 0.05, true
		},
		"beside: vm-1 waits until 120.000s, and its deadline was over at 20": func(r *Recording) {
			waits(away(r, "reports", 1, 60), 20)
		},
		"right: its deadline is over in time, or the partition had a leader then": func(r *Recording) {
			waits(away(r, "reports", 1, 60), 46)
		},
		"right: its deadline is over, of the partition": func(r *Recording) { waits(away(r, "reports", 0, 60), 20) },
		"right: its deadline is over, and its partition is taken over": func(r *Recording) {
			waits(away(r, "reports", 1, 60), 20)
			r.Owners = append(r.Owners, Owned{Seen: moment(19), Partition: 0})
		},
		"right: starting, of the partition": func(r *Recording) { last(away(r, "reports", 0, 60), compute.StateStarting) },
		"right: it is queued for long":      func(r *Recording) { last(away(r, "reports", 1, 60), compute.StateQueued) },
	})
}
