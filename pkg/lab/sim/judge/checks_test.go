// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckEnded(t *testing.T) {
	// placed has the last work placed then, which failed at these times before.
	placed := func(r *Recording, at schedule.Seconds, failed ...schedule.Seconds) {
		r.Awaited, r.Placed, r.Settled = "vm-1 is queued", moment(at), moment(at+10)
		i := r.Log[0].Instance
		for _, at := range failed {
			i.Failures = append(i.Failures, compute.Failure{Host: "host-1"})
			r.logged(at, i)
		}
	}
	clone := func(r *Recording) {
		r.Clones = append(r.Clones, Cloned{Of: "host-1", From: moment(10), To: moment(59)})
	}
	crowdOf := func(n int, change func(*compute.Instance)) func(r *Recording) {
		return func(r *Recording) {
			r.Schedule.World.Share = 1
			for n := range n {
				i := r.Log[0].Instance
				i.ID, i.State = compute.InstanceID(fmt.Sprint("other-", n)), compute.StateQueued
				i.Boot.Name = string(i.ID)
				change(&i)
				r.logged(5, i)
			}
		}
	}
	another := func(r *Recording, at schedule.Seconds) { // is given notice
		a, i := r.Asks[0], r.Log[len(r.Log)-1].Instance
		a.Name, a.ID, i.ID, i.Boot.Name = "vm-2", "vm-2", "vm-2", "vm-2"
		r.Asks = append(r.Asks, a)
		i.GiveNotice(&compute.Notice{At: moment(at), Until: moment(at).Add(grace), Queue: "m1.small.priority-high"})
		r.logged(at, i)
	}
	// awaits has it be another instance, which waits there, that is awaited until 179, while vm-1 had notice until 90.
	awaits := func(q, whole compute.QueueName) func(r *Recording) {
		return func(r *Recording) {
			noticed(r, 70, 70)
			placed(r, 179)
			i := r.Log[0].Instance
			i.ID, i.Boot.Name, i.Queue = "vm-3", "vm-3", q
			i.Boot.Rules = compute.RulesOf("", compute.Set{ID: "vm-3", Size: 2, Whole: whole}, compute.PriorityNormal)
			r.logged(5, i)
			r.Awaited = "vm-3 is queued"
		}
	}
	// restored has turns that are too large, the last at 90, in a world that lets agents speak of another's machines.
	restored := func(disk string, bytes int) func(r *Recording) {
		return func(r *Recording) {
			r.Schedule.World.TurnBytes = bytes
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultWipe, Who: "host-1", Disk: disk}}
			r.Owners = append(r.Owners, Owned{Seen: moment(5)}, Owned{Seen: moment(90)})
		}
	}
	crowd := crowdOf(2, asIs)
	sees(t, checkEnded, map[string]func(*Recording){
		"right: within 90 s of the calm":                             func(r *Recording) { placed(r, 149) },
		"I6: 1m31s after everything was up and well: vm-1 is queued": func(r *Recording) { placed(r, 151) },
		"right: one instance, read in 0.6 s at most": func(r *Recording) {
			r.Schedule.World.Sips, r.Schedule.World.Latency = true, 0.1
			placed(r, 150.5)
		},
		"I6: 1m31s after everything": func(r *Recording) {
			r.Schedule.World.Sips, r.Schedule.World.Latency = true, 0.1
			placed(r, 150.7)
		},
		"I6: 1m31s after everything was": func(r *Recording) { // what one fetch brings is all that there is
			r.Schedule.World.Latency = 0.3
			placed(r, 150.7)
		},
		"right: a clone's host takes nothing until 119": func(r *Recording) { clone(r); placed(r, 208) },
		"I6: 1m31s": func(r *Recording) { clone(r); placed(r, 210) },
		"right: a host that was wiped beside its clone is believed from 719": func(r *Recording) {
			clone(r)
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultWipe, Who: "host-1"}}
			placed(r, 808)
		},
		"I6: 1m31s after": func(r *Recording) {
			clone(r)
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultWipe, Who: "host-2"}}
			placed(r, 210)
		},
		"right: two attempts failed, 1 + 14 s and 2 + 14 s":    func(r *Recording) { placed(r, 180, 100, 110) },
		"right: two others keep it in the conductor, 5 + 10 s": func(r *Recording) { placed(r, 164); crowd(r) },
		"I6: 1m46s": func(r *Recording) { placed(r, 166); crowd(r) },
		"right: eight others, 5 + 10 + 20 + 40 s":        func(r *Recording) { placed(r, 224); crowdOf(8, asIs)(r) },
		"right: 13 others, 5 + 10 + 20 + 40 + 60 + 60 s": func(r *Recording) { placed(r, 344); crowdOf(13, asIs)(r) },
		"I6: 4m46s": func(r *Recording) { placed(r, 346); crowdOf(13, asIs)(r) },
		"I6: 1m32s": func(r *Recording) { // they were there before
			placed(r, 152)
			crowd(r)
			for _, w := range r.Log[len(r.Log)-2:] {
				w.Instance.State = compute.StateDeleted
				r.logged(50, w.Instance)
			}
		},
		"I6: 1m33s": func(r *Recording) { // they are placeholders
			placed(r, 153)
			crowdOf(2, func(i *compute.Instance) { i.Boot.AsPlaceholder(compute.Placeholder{Of: "r"}) })(r)
		},
		"I6: 1m34s": func(r *Recording) { // they take some
			placed(r, 154)
			crowdOf(2, func(i *compute.Instance) { i.Boot.Reserving("r") })(r)
		},
		"I6: 1m35s": func(r *Recording) { // only one host may have it
			placed(r, 155)
			crowd(r)
			i := r.Log[0].Instance
			i.Boot.Host = "host-1"
			r.logged(61, i)
		},
		"right: a guest had until 90, and the next notice may be given until 100": func(r *Recording) {
			noticed(r, 70, 70)
			placed(r, 179)
		},
		"I6: 2m1s": func(r *Recording) { noticed(r, 70, 70); placed(r, 181) },
		"right: one until 70 and one until 95, with 10 s each": func(r *Recording) {
			noticed(r, 50, 50)
			another(r, 75)
			placed(r, 194)
		},
		"I6: 2m16s": func(r *Recording) { noticed(r, 50, 50); another(r, 75); placed(r, 196) },
		"right: it waits in the queue of the notice": awaits("m1.small.priority-high", ""),
		"right: its set waits whole there":           awaits("m1.small", "m1.small.priority-high"),
		"I6: 1m59s":                                  awaits("m1.small", ""),
		"I6: 1m59s after":                            awaits("m1.small.priority-high", "m1.large"),
		"right: no instance is awaited": func(r *Recording) {
			awaits("m1.small", "")(r)
			r.Awaited = "host-1 is down"
		},
		"I6: 1m40s": func(r *Recording) { // the notice comes later
			noticed(r, 170, 170)
			placed(r, 160)
		},
		"I6: 2m2s": func(r *Recording) { placed(r, 182, 100, 110) },
		"right: a partition was restored at 90, and listens": func(r *Recording) {
			restored("claimed", 4096)(r)
			placed(r, 179)
		},
		"I6: 2m1s after":                 func(r *Recording) { restored("claimed", 4096)(r); placed(r, 181) },
		"right: it was taken over at 90": func(r *Recording) { restored("claimed", 0)(r); placed(r, 179) },
		"I6: 1m59s after everything": func(r *Recording) { // another partition
			restored("claimed", 4096)(r)
			r.Owners[1].Partition = 1
			placed(r, 179)
		},
		"I6: 1m59s after everything was": func(r *Recording) { // no journal is lost
			restored("claimed", 4096)(r)
			r.Schedule.Faults = nil
			placed(r, 179)
		},
		"I6: 2m0s": func(r *Recording) { placed(r, 180, 50, 110) }, // the first before the calm
	})
}

func TestCheckInvented(t *testing.T) {
	logged := func(change func(*Written)) func(*Recording) { return func(r *Recording) { change(&r.Log[0]) } }
	// twice has another instance of that name be in the log, of a boot whose id its client was not told.
	twice := func(change func(*compute.Instance)) func(*Recording) {
		return func(r *Recording) {
			i := r.Log[0].Instance
			i.ID, r.Asks[0].ID = "vm-9", ""
			change(&i)
			r.logged(5, i)
		}
	}
	sees(t, checkInvented, map[string]func(*Recording){
		`nobody asked for 0b6e7a52-3c57-5b2e-9f5e-1c1f6a3f0a01 of red as "vm-2"`: logged(func(w *Written) {
			w.Instance.Boot.Name = "vm-2"
		}),
		`of blue as "vm-1"`:            logged(func(w *Written) { w.Instance.Project = "blue" }),
		`nobody asked for vm-9 of red`: logged(func(w *Written) { w.Instance.ID = "vm-9" }),
		"right: it is a tombstone":     logged(func(w *Written) { w.Removed, w.Instance.Boot.Name = true, "" }),
		"right: it was deleted before its boot came": logged(func(w *Written) {
			w.Instance.State, w.Instance.Boot.Name = compute.StateDeleted, ""
		}),
		`as ""`: logged(func(w *Written) { w.Instance.Boot.Name = "" }),
		"right: that is checkReserved's": logged(func(w *Written) {
			w.Instance.Project, w.Instance.Boot.Name = schedule.Reserving, "room-1-1"
		}),
		"vm-1 was asked for once and is there twice: 0b6e7a52-3c57-5b2e-9f5e-1c1f6a3f0a01 and vm-9": twice(asIs),
		"right: the other one has a name of its own": twice(func(i *compute.Instance) {
			i.State, i.Boot.Name = compute.StateDeleted, ""
		}),
	})
}

func TestCheckLog(t *testing.T) {
	logged := func(n int, change func(*compute.Instance)) func(*Recording) {
		return func(r *Recording) { change(&r.Log[n].Instance) }
	}
	// then has vm-1, which is active, become each of these, one after the other.
	then := func(changes ...func(*compute.Instance)) func(*Recording) {
		return func(r *Recording) {
			for n, change := range changes {
				i := r.Log[len(r.Log)-1].Instance
				change(&i)
				r.logged(schedule.Seconds(20+n), i)
			}
		}
	}
	to := func(s compute.State, a compute.Attempt) func(*compute.Instance) {
		return func(i *compute.Instance) { i.State, i.Attempt = s, a }
	}
	labelled := func(i *compute.Instance) { i.Boot.Metadata = map[string]string{"a": "c"} }
	failed, gone := to(compute.StateError, 1), to(compute.StateDeleted, 1)
	waits, waitsAgain := to(compute.StateQueued, 2), to(compute.StateQueued, 3)
	sees(t, checkLog, map[string]func(*Recording){
		"0b6e7a52-3c57-5b2e-9f5e-1c1f6a3f0a01 was removed": func(r *Recording) { r.Log[2].Removed = true },
		"vm-1: version 3 follows 1":                        func(r *Recording) { r.Log = append(r.Log[:1], r.Log[2:]...) },
		"vm-1: version 1 follows 1":                        logged(1, func(i *compute.Instance) { i.Version = 1 }),
		"vm-1: active attempt 1 follows none attempt 0":    logged(0, to(compute.StateActive, 1)),
		"vm-1: queued attempt 0 follows none attempt 0":    logged(0, to(compute.StateQueued, 0)),
		"vm-1: active attempt 1 follows queued attempt 1":  logged(1, to(compute.StateActive, 1)),
		"vm-1: starting attempt 2 follows queued attempt":  logged(1, to(compute.StateStarting, 2)),
		"vm-1: active attempt 0 follows starting attempt":  logged(2, to(compute.StateActive, 0)),
		"right: it waits for its second attempt":           then(waits),
		"vm-1: queued attempt 1 follows active attempt 1":  then(to(compute.StateQueued, 1)),
		"right: it fails, and is deleted":                  then(failed, gone),
		"vm-1: queued attempt 2 follows error attempt 1":   then(failed, waits),
		"vm-1: deleted attempt 1 follows active attempt 1": then(gone),
		"right: what failed gets another label":            then(failed, labelled),
		"vm-1: error attempt 1 follows error attempt 1":    then(failed, asIs),
		"vm-1: deleted attempt 1 follows deleted attempt":  then(failed, gone, labelled),
		"vm-1: queued attempt 3 follows queued attempt 2":  then(waits, waitsAgain),
		"right: its set gives back what it had, and tries again": func(r *Recording) {
			then(waits, waitsAgain)(r)
			r.Asks[0].Set = "set-1"
		},
		"right: its host held its placeholder no more": then(waits, func(i *compute.Instance) {
			i.Boot.Takes(compute.InPlaceholder{ID: "room-1-1"})
		}, func(i *compute.Instance) { waitsAgain(i); i.Boot.Takes(compute.InPlaceholder{}) }),
	})
}

func asIs(*compute.Instance) {}
