// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// endsAt has vm-1 end in error at a time, after it was queued alone.
func (r *Recording) endsAt(at schedule.Seconds, why compute.Reason) {
	r.Log = r.Log[:1]
	i := r.Log[0].Instance
	i.State, i.Reason, i.EndedAt = compute.StateError, &why, moment(at)
	r.logged(at, i)
	r.Works, r.Given, r.Machines, r.Launches = nil, nil, nil, nil
}

func TestCheckRefused(t *testing.T) {
	told := func(why *compute.Error) func(*Recording) {
		return func(r *Recording) {
			r.Asks[0].Began, r.Asks[0].Answered = moment(21), moment(22)
			r.Asks[0].OK, r.Asks[0].Why, r.Asks[0].Err = false, why, why.Error()
			r.Log = nil
		}
	}
	reason := compute.Reason{Code: compute.NoSuchFlavor}
	noFlavor := &compute.Error{Kind: compute.KindNotFound, Field: "flavor", Reason: &reason}
	noHost := &compute.Error{Kind: compute.KindNotFound, Field: "host", Value: "host-1"}
	inSet := func(why *compute.Error, other func(*compute.Boot)) func(*Recording) {
		return func(r *Recording) { // m1.big was taken away, and host-9 declared gone
			told(why)(r)
			f, boot := schedule.Flavor("m1.big", 3), *r.Asks[0].Load.Boot
			other(&boot)
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultPower, Who: "host-9", Dead: "forget"}}
			r.Asks = append(
				r.Asks, r.Asks[0], Ask{Load: schedule.Load{Op: schedule.LoadDropFlavor, Flavor: &f}, Began: moment(20)},
			)
			r.Asks[1].Load.Boot, r.Asks[1].Load.Name, r.Asks[1].ID = &boot, "vm-2", "other"
			r.Asks[0].Load.Set, r.Asks[1].Load.Set = "set-1", "set-1"
		}
	}
	noFlavorOfSet := &compute.Error{Kind: compute.KindNotFound, Field: "boots[1].flavor", Reason: &reason}
	noHostOfSet := &compute.Error{Kind: compute.KindNotFound, Field: "boots[1].host", Value: "host-9"}
	sees(t, checkRefused, map[string]func(*Recording){
		`boot vm-1 was refused without a cause: flavor`: told(noFlavor),
		"boot vm-1 was refused without a cause: host":   told(noHost),
		"boot vm-1 was refused without a cause: id":     told(&compute.Error{Kind: compute.KindConflict, Field: "id"}),
		"right: nobody offers the flavor": func(r *Recording) {
			told(noFlavor)(r)
			r.Asks[0].Load.Boot.Flavor = "m1.none"
		},
		"right: it was taken away": func(r *Recording) {
			told(noFlavor)(r)
			f := schedule.Flavor("m1.small", 1)
			r.Asks = append(
				r.Asks,
				Ask{Load: schedule.Load{Op: schedule.LoadDropFlavor, Flavor: &f}, Began: moment(20)},
			)
		},
		"boot vm-1 was refused without a cause: boots[1].flavor": inSet(noFlavorOfSet, func(*compute.Boot) {}),
		"boot vm-1 was refused without a cause: boots[1].host":   inSet(noHostOfSet, func(b *compute.Boot) { b.Host = "host-1" }),
		"right: another of its set asks for what was taken away": inSet(noFlavorOfSet, func(b *compute.Boot) { b.Flavor = "m1.big" }),
		"right: another of its set asks for a host that is gone": inSet(noHostOfSet, func(b *compute.Boot) { b.Host = "host-9" }),
		"delete vm-1 was refused without a cause": func(r *Recording) {
			r.asks(5, schedule.Load{Op: schedule.LoadDelete}, noFlavor)
		},
		"right: a delete that came before the boot was accepted": func(r *Recording) {
			r.asks(1, schedule.Load{Op: schedule.LoadDelete}, noFlavor)
		},
		"quota vm-1 was refused without a cause": func(r *Recording) {
			r.asks(5, schedule.Load{Op: schedule.LoadQuota, Project: "red"}, noFlavor)
		},
		"vm-1 ended without a cause: QuotaExceeded": func(r *Recording) {
			r.endsAt(5, compute.Reason{Code: compute.QuotaExceeded})
		},
		"vm-1 ended without a cause: QueueClosed": func(r *Recording) {
			r.Asks[0].Began = moment(11)
			r.endsAt(15, compute.Reason{Code: compute.QueueClosedReason})
		},
		"vm-1 ended without a cause: Malformed": func(r *Recording) {
			r.endsAt(5, compute.Reason{Code: compute.Malformed})
		},
		"vm-1 ended without a cause: WaitingForCapacity": func(r *Recording) {
			r.endsAt(15, compute.Reason{Code: compute.WaitingForCapacity})
		},
		"vm-1 ended without a cause: PinnedHostUnavailable": func(r *Recording) {
			r.Asks[0].Load.Boot.Host = "host-1"
			r.endsAt(5, compute.Reason{Code: compute.PinnedHostUnavailable})
		},
		"vm-1 ended without a cause: AttemptsExhausted": func(r *Recording) {
			r.endsAt(5, compute.Reason{Code: compute.AttemptsExhausted})
		},
		"vm-1 ended without a cause: HostLost": func(r *Recording) {
			r.endsAt(5, compute.Reason{Code: compute.HostLost, Host: "host-1"})
		},
		"right: a host that is killed loses work": func(r *Recording) {
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultKill, Who: "host-1"}}
			r.endsAt(5, compute.Reason{Code: compute.HostLost, Host: "host-1"})
		},
	})
}

// What is to wait again once its place was taken ends in error if nothing offers its flavor any more.
func TestCheckRefusedOfWhatIsPreempted(t *testing.T) {
	taken := func(then compute.Afterwards, dropped bool) func(*Recording) {
		return func(r *Recording) {
			noticed(r, 20, 20)
			r.Asks[0].Began, r.Asks[0].Load.Boot.Rules.Preemptible.Then = moment(11), then
			if f := schedule.Flavor("m1.small", 1); dropped {
				l := schedule.Load{Op: schedule.LoadDropFlavor, Flavor: &f}
				r.Asks = append(r.Asks, Ask{Load: l, Began: moment(22)})
			}
			i := r.Log[len(r.Log)-1].Instance
			i.State, i.Reason = compute.StateError, i.Notice().Reason(1)
			r.logged(30, i)
		}
	}
	sees(t, checkRefused, map[string]func(*Recording){
		"right: its flavor was taken away":        taken(compute.ThenRequeue, true),
		"vm-1 ended without a cause: Preempted":   taken(compute.ThenRequeue, false),
		"vm-1 ended without a cause: Preempted (": taken(compute.ThenDelete, true),
	})
}

// An API node may have read that an instance is deleted before the judge did.
func TestCheckRefusedOfWhatIsDeleted(t *testing.T) {
	why := &compute.Error{Kind: compute.KindConflict, Field: "id"}
	deleted := func(at schedule.Seconds) func(*Recording) { // told at 20.1 s, and read at 22 s
		return func(r *Recording) {
			r.asks(20, schedule.Load{Op: schedule.LoadLabel, Label: "team"}, why)
			i := r.Log[len(r.Log)-1].Instance
			i.State = compute.StateDeleted
			r.logged(at, i)
			r.Log[len(r.Log)-1].Seen = moment(22)
		}
	}
	sees(t, checkRefused, map[string]func(*Recording){
		"right: it is deleted by then":           deleted(20.05),
		"label vm-1 was refused without a cause": deleted(20.2),
		"label vm-1 was refused without a cause:": func(r *Recording) {
			deleted(20.05)(r)
			r.Log = r.Log[:len(r.Log)-1]
		},
	})
}

func TestCheckForged(t *testing.T) {
	stranger := func(r *Recording, code compute.ReasonCode) {
		r.Forged = []Forged{{Place: Place{Offset: 7}, At: moment(20), Op: compute.OpStop, Command: "forged"}}
		if code != "" {
			r.Refused[Place{Offset: 7}] = code
		}
	}
	last := func(r *Recording, change func(*compute.Instance)) {
		i := r.Log[len(r.Log)-1].Instance
		change(&i)
		r.logged(30, i)
	}
	sees(t, checkForged, map[string]func(*Recording){
		"": func(r *Recording) {
			stranger(r, compute.Forged)
			r.Asks = append(r.Asks, Ask{Load: schedule.Load{Op: schedule.LoadDelete}, ID: madeID, Began: moment(29)})
			last(r, func(i *compute.Instance) { i.State, i.Delete = compute.StateDeleting, true })
		},
		"is not refused":              func(r *Recording) { stranger(r, "") },
		`is not refused: "Malformed"`: func(r *Recording) { stranger(r, compute.Malformed) },
		"vm-1 obeys a stranger's stop": func(r *Recording) {
			stranger(r, compute.Forged)
			last(r, func(i *compute.Instance) { i.Command = &compute.PowerCommand{Op: compute.OpStop, Command: "forged"} })
		},
		"vm-1 is deleted, and no client": func(r *Recording) {
			stranger(r, compute.Forged)
			last(r, func(i *compute.Instance) { i.State, i.Delete = compute.StateDeleting, true })
		},
	})
}
