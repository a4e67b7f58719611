// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
)

// A placeholder is on one host, by a grant, and no longer than its record says, but that a loss of power does not end it.
func TestPlaceholdersAreOnOneHost(t *testing.T) {
	held := func(change func(*Recording)) func(*Recording) {
		return func(r *Recording) {
			placeholder(r)
			r.Log[len(r.Log)-1].Instance.Project = schedule.Reserving
			change(r)
		}
	}
	twice := func(r *Recording) {
		r.Machines = append(r.Machines, fake.Event{
			At: moment(30), Kind: fake.Launched, Host: "host-2", Instance: madeID, Attempt: 2,
		})
	}
	power := func(r *Recording) {
		r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultPower, Who: "host-1"}}
	}
	once := func(r *Recording) []Violation {
		return slices.DeleteFunc(r.Judge(), func(v Violation) bool { return v.Rule != "I2" })
	}
	sees(t, once, map[string]func(*Recording){
		"right: it is held": held(func(*Recording) {}),
		"host-1 launches attempt 1 claim c2 without a grant": held(func(r *Recording) { r.Launches[0].Claim = "c2"; power(r) }),
		"attempt 1 runs on host-1 from 4.000s":               held(func(r *Recording) { becomes(r, 20, compute.StateQueued) }),
		"runs on 2 hosts at once":                            held(twice),
		"right: it outlived a loss of power":                 held(func(r *Recording) { becomes(r, 20, compute.StateQueued); power(r) }),
		"right: it outlived that of a host that had something": held(func(r *Recording) {
			becomes(r, 20, compute.StateQueued)
			power(r)
			r.Schedule.Faults[0].Who = ""
		}),
		"right: it outlived a loss of power, and is held elsewhere": held(func(r *Recording) { twice(r); power(r) }),
	})
}

// next has the newest record of an instance be followed by another.
func next(r *Recording, at schedule.Seconds, name string, change func(*compute.Instance)) {
	for _, w := range slices.Backward(r.Log) {
		if i := w.Instance; i.Boot.Name == name {
			change(&i)
			r.logged(at, i)
			return
		}
	}
}

func on(h compute.HostID, s compute.State) func(*compute.Instance) {
	return func(i *compute.Instance) { i.State, i.Host = s, h }
}

func TestCheckReserved(t *testing.T) {
	room := func(n int) compute.InstanceID {
		return wire.KeyedInstance(schedule.Reserving, fmt.Sprint("room-1-", n))
	}
	in := func(n int) func(*compute.Instance) {
		return func(i *compute.Instance) { i.Boot.Takes(compute.InPlaceholder{ID: room(n)}) }
	}
	by := func(id compute.InstanceID) func(*compute.Instance) {
		return func(i *compute.Instance) { i.Boot.TakenBy(id) }
	}
	// waits has an instance take the first of two placeholders at 20 s, and wait.
	waits := func(r *Recording, name string) {
		takes(r, 19, nil)
		a := &r.Asks[len(r.Asks)-1]
		a.Name, a.ID = name, compute.InstanceID(name)
		i := compute.Instance{ID: a.ID, Project: schedule.Reserving, State: compute.StateQueued, Attempt: 1, Boot: *a.Boot}
		i.Boot.Name = name
		in(1)(&i)
		r.refused(20, i)
		next(r, 20, "room-1-1", by(a.ID))
	}
	// waiting has vm-2 have taken the first of two placeholders, and wait for it.
	waiting := func(change func(*Recording)) func(*Recording) {
		return func(r *Recording) {
			reserves(r, 2)
			waits(r, "vm-2")
			change(r)
		}
	}
	// running has hosts hold both, and vm-2 run on this host from 25 s on.
	running := func(h compute.HostID, change func(*Recording)) func(*Recording) {
		return func(r *Recording) {
			reserves(r, 2)
			next(r, 15, "room-1-1", on("host-1", compute.StateActive))
			next(r, 15, "room-1-2", on("host-2", compute.StateActive))
			waits(r, "vm-2")
			next(r, 24, "vm-2", on(h, compute.StateStarting))
			next(r, 25, "vm-2", on(h, compute.StateActive))
			e := fake.Event{At: moment(25), Kind: fake.Launched, Host: h, Instance: "vm-2", Attempt: 1}
			r.Machines = append(r.Machines, e)
			change(r)
		}
	}
	// over has vm-2 end at a time, and its placeholder go on to say that vm-2 has it.
	over := func(at schedule.Seconds) func(*Recording) {
		return func(r *Recording) {
			next(r, at, "vm-2", func(i *compute.Instance) { i.State, i.EndedAt = compute.StateDeleted, moment(at) })
		}
	}
	// frees has host-2 hold the second placeholder, which is free, from 21 s on, and the log go on at a time.
	frees := func(at schedule.Seconds, change func(*Recording)) func(*Recording) {
		return waiting(func(r *Recording) {
			next(r, 21, "room-1-2", on("host-2", compute.StateActive))
			change(r)
			next(r, at, "room-1-2", func(*compute.Instance) {})
		})
	}
	// fails has vm-2 end with its placeholder at 30 s, while the second one is free until then.
	fails := func(until schedule.Seconds) func(*Recording) {
		return waiting(func(r *Recording) {
			next(r, 21, "room-1-2", func(i *compute.Instance) {
				i.Boot.AsPlaceholder(compute.Placeholder{Of: "room-1", Until: moment(until)})
			})
			next(r, 30, "vm-2", func(i *compute.Instance) {
				i.State, i.Reason, i.EndedAt = compute.StateError, &compute.Reason{Code: compute.ReservationEnded}, moment(30)
			})
			r.Asks[1].For, r.Settled = 19, time.Time{} // so that there is a cause
		})
	}
	// asked has room-1 be asked for at 10 s, to begin so much later and last so long.
	asked := func(from, length schedule.Seconds, change func(*Recording)) func(*Recording) {
		return func(r *Recording) { change(r); r.Asks[1].From, r.Asks[1].For = from, length }
	}
	drifts := func(change func(*Recording)) func(*Recording) {
		return func(r *Recording) { change(r); r.Schedule.World.Clocks = []schedule.Clock{{Who: "conductor-1"}} }
	}
	empty, nothing := func(r *Recording) { reserves(r, 2) }, func(*Recording) {}
	sees(t, checkReserved, map[string]func(*Recording){
		"right: it waits": waiting(nothing),
		"right: it runs":  running("host-1", nothing),
		"nobody asked for room-1-3": func(r *Recording) {
			empty(r)
			next(r, 11, "room-1-2", func(i *compute.Instance) { i.ID, i.Boot.Name = "vm-9", "room-1-3" })
		},
		"nobody asked for vm-2": waiting(func(r *Recording) { r.Asks = r.Asks[:2] }),
		"right: its boot never came": func(r *Recording) {
			empty(r)
			r.refused(20, compute.Instance{ID: "vm-9", Project: schedule.Reserving, State: compute.StateDeleted})
		},
		fmt.Sprintf("placeholder %s is taken by vm-2 and by vm-3", room(1)): waiting(func(r *Recording) { waits(r, "vm-3") }),
		"right: the first one has ended": waiting(func(r *Recording) {
			over(20)(r)
			waits(r, "vm-3")
		}),
		"right: the first one has another": waiting(func(r *Recording) {
			next(r, 20, "vm-2", in(2))
			next(r, 20, "room-1-2", by("vm-2"))
			waits(r, "vm-3")
		}),
		`vm-2 starts on host-2, and its placeholder is active on "host-1"`: running("host-2", nothing),
		`vm-2 starts on host-1, and its placeholder is queued on ""`: waiting(func(r *Recording) {
			next(r, 24, "vm-2", on("host-1", compute.StateStarting))
		}),
		"vm-2 waits for a placeholder that is not held, and room-1-2 on host-2 is free since 21.000s": frees(26.1, nothing),
		"right: nobody has decided since": frees(25.9, nothing),
		"right: it is not free": frees(26.1, func(r *Recording) {
			next(r, 22, "room-1-2", by("vm-4"))
			r.Settled = time.Time{}
		}),
		"right: its own is held": frees(26.1, func(r *Recording) {
			next(r, 22, "room-1-1", on("host-1", compute.StateActive))
		}),
		"right: its host is silent":                            frees(80, nothing),
		"vm-2 ends with its placeholder, and room-1-2 is free": fails(31),
		"right: the time of both is over":                      fails(30),
		"vm-2 ended without a cause": waiting(func(r *Recording) {
			next(r, 30, "vm-2", func(i *compute.Instance) {
				i.State, i.Reason = compute.StateError, &compute.Reason{Code: compute.ReservationFull}
			})
		}),
		"room-1-1 is taken by vm-2, which has ended": waiting(over(80)),
		"right: it has just ended":                   waiting(over(91)),
		"room-1-1 is taken by vm-4, which has ended": func(r *Recording) {
			empty(r)
			next(r, 11, "room-1-1", by("vm-4"))
		},
		"and its reservation was over at 70.000s":      asked(0, 60, empty),
		"right: it was over a moment ago":              asked(0, 81, empty),
		"right: nobody knows by whose clock it ends":   drifts(asked(0, 60, empty)),
		"vm-2 runs before room-1 begins":               asked(15.1, 3600, running("host-1", nothing)),
		"right: it has begun":                          asked(15, 3600, running("host-1", nothing)),
		"right: nobody knows by whose clock it begins": drifts(asked(15.1, 3600, running("host-1", nothing))),
	})
}
