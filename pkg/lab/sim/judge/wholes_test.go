// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// wholeSet has vm-1 be a set with vm-2, which is offered whole in m1.large. One host claims both of them.
func wholeSet(change func(*Recording)) func(*Recording) {
	return func(r *Recording) {
		r.Schedule.World.Flavors = append(r.Schedule.World.Flavors, schedule.Flavor("m1.large", 2))
		set := compute.Set{ID: madeID, Size: 2, Whole: "m1.large"}
		for n := range r.Log {
			r.Log[n].Instance.Boot.Rules = compute.RulesOf("pack-1", set, compute.PriorityNormal)
		}
		r.Asks[0].Boot.Rules = compute.InGroup("pack-1")
		aSet(r, "host-1")
		one := r.Builds[0].Build
		two := one
		two.Instance, two.Name = "vm-2", "vm-2"
		whole := one
		whole.Queue, whole.Resources = "m1.large", one.Resources.Plus(two.Resources)
		whole.Parts = []compute.Build{one, two}
		r.Wholes = []Published{{moment(2), whole}}
		for _, part := range whole.Parts {
			c := compute.Report{Host: "host-1", Instance: part.Instance, Attempt: 1}
			r.Claims = append(r.Claims, Claimed{moment(2.5), c})
		}
		change(r)
	}
}

func TestCheckWholes(t *testing.T) {
	offered := func(change func(*compute.Build)) func(*Recording) {
		return wholeSet(func(r *Recording) { change(&r.Wholes[0].Build) })
	}
	// resized has the flavor of vm-1 become another at some time.
	resized := func(r *Recording) {
		f := schedule.Flavor("m1.small", 4)
		r.Schedule.Load = append(r.Schedule.Load, schedule.Load{Op: schedule.LoadResize, Flavor: &f})
	}
	liesIn := func(q compute.QueueName) func(*Recording) { return offered(func(b *compute.Build) { b.Queue = q }) }
	// apart has the machine of vm-2 be on another host, from a moment on.
	apart := func(from schedule.Seconds, change func(*Recording)) func(*Recording) {
		return wholeSet(func(r *Recording) {
			r.Machines[1].Host, r.Machines[1].At = "host-2", moment(from)
			change(r)
		})
	}
	nothing := func(*Recording) {}
	sees(t, checkWholes, map[string]func(*Recording){
		"right: all of it as it is": wholeSet(nothing),
		"1 of the 2 of set-1 are offered as one in m1.large": offered(func(b *compute.Build) {
			b.Parts = b.Parts[:1]
		}),
		"set-1 needs DISK_GB=20 MEMORY_MB=2048 VCPU=2, and is offered in m1.large as DISK": offered(func(b *compute.Build) {
			b.Resources = b.Parts[0].Resources
		}),
		"set-1 needs DISK_GB=20 MEMORY_MB=2048 VCPU=2, which a machine of m1.small has not": liesIn("m1.small"),
		"right: m1.small becomes larger":      func(r *Recording) { liesIn("m1.small")(r); resized(r) },
		"right: nobody knows of that flavor":  liesIn("m1.huge"),
		"set-1 runs on host-2 and on host-1":  apart(5, nothing),
		"set-1 runs on host-1 and on host-2":  apart(3, nothing),
		"right: one ends, and the next comes": apart(6, func(r *Recording) { givenUp(r, 5) }),
		"right: its group may have another rule": apart(5, func(r *Recording) {
			l := schedule.Load{Op: schedule.LoadGroup, Group: &compute.Group{Project: "red", Name: "pack-1"}}
			r.Schedule.Load = append(r.Schedule.Load, l)
		}),
	})
}

// What one host has taken as one it claims in a row, or gives back.
func TestCheckWholesThatAreClaimed(t *testing.T) {
	// claims has vm-2 be claimed then, after vm-1 was at 2.5 s; 0: never.
	claims := func(at schedule.Seconds, change func(*Recording)) func(*Recording) {
		return wholeSet(func(r *Recording) {
			if r.Claims[1].Seen = moment(at); at == 0 {
				r.Claims = r.Claims[:1]
			}
			change(r)
		})
	}
	nothing := func(*Recording) {}
	// over has vm-2 be that at 20 s.
	over := func(s compute.State, whole compute.QueueName) func(*Recording) {
		return func(r *Recording) {
			i := r.Log[len(r.Log)-1].Instance
			set := compute.Set{ID: madeID, Size: 2, Whole: whole}
			i.State, i.Boot.Rules = s, compute.RulesOf("", set, compute.PriorityNormal)
			r.logged(20, i)
		}
	}
	sees(t, checkWholes, map[string]func(*Recording){
		"right: soon after it": claims(22.4, nothing),
		"vm-2 is claimed at 22.600s, and another of its set was at 2.500s": claims(22.6, nothing),
		"vm-2 is claimed at never, and another of its set was at 2.500s":   claims(0, nothing),
		"right: a network is in between": claims(22.6, func(r *Recording) {
			r.Schedule.World.Latency = 0.01
		}),
		"right: something is wrong": claims(0, func(r *Recording) {
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultKill, Who: "host-1"}}
		}),
		"right: it is deleted":                  claims(0, over(compute.StateDeleted, "m1.large")),
		"right: it is offered by itself":        claims(0, over(compute.StateQueued, "")),
		"vm-2 is claimed at never, and another": claims(0, over(compute.StateQueued, "m1.large")),
		"right: none was":                       claims(0, func(r *Recording) { r.Claims = nil }),
		"right: all is over before it would be late": claims(0, func(r *Recording) {
			r.Calm, r.Settled = moment(10), moment(20)
		}),
	})
}
