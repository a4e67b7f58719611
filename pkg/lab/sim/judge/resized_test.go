// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// Work of a flavor that became larger waits for the room of the larger one.
func TestRoomForWorkOfAResizedFlavor(t *testing.T) {
	r, big := made(), schedule.Flavor("m1.small", 3)
	i := r.Log[0].Instance
	if needs := r.Needs(i); !needs.Equal(i.Resources) {
		t.Errorf("it needs %s", needs)
	}
	l := schedule.Load{Op: schedule.LoadResize, Flavor: &big}
	r.Asks = append(r.Asks, Ask{Load: l, Began: moment(50)})
	if needs := r.Needs(i); !needs.Equal(big.Resources) {
		t.Errorf("it needs %s", needs)
	}
}

// A boot has the size that its flavor had when it was admitted, and keeps it.
func TestWhatAResizedFlavorWas(t *testing.T) {
	big := schedule.Flavor("m1.small", 3)
	resize := func(began, answered schedule.Seconds, change func(*Recording)) func(*Recording) {
		return func(r *Recording) {
			l := schedule.Load{At: began, Op: schedule.LoadResize, Flavor: &big, Wish: schedule.Larger}
			r.Schedule.Load = append(r.Schedule.Load, l)
			r.Asks = append(r.Asks, Ask{Load: l, Began: moment(began), Answered: moment(answered), OK: true})
			change(r)
		}
	}
	larger := func(r *Recording) {
		for n := range r.Log {
			r.Log[n].Instance.Resources = big.Resources
		}
		r.Builds[0].Resources, r.Given[0].Spec.Resources = big.Resources, big.Resources
	}
	sees(t, checkRequest, map[string]func(*Recording){
		"right: it is resized after it was admitted": resize(10, 11, func(*Recording) {}),
		"right: it was resized at about that time":   resize(0.5, 0.6, func(*Recording) {}),
		"right: it was resized before":               resize(-20, -19, larger),
		"the record of vm-1: what it takes is DISK_GB=10 MEMORY_MB=1024 VCPU=1, and": resize(-20, -19,
			func(*Recording) {}),
		"the record of vm-1: what it takes is DISK_GB=30 MEMORY_MB=3072 VCPU=3, and": resize(10, 11, larger),
		"the machine of vm-1: what it takes is DISK_GB=30 MEMORY_MB=3072 VCPU=3, and": resize(1.5, 11, func(r *Recording) {
			r.Given[0].Spec.Resources = big.Resources
		}),
		"the work of vm-1: what it takes is DISK_GB=30 MEMORY_MB=3072 VCPU=3, and": resize(1.5, 11, func(r *Recording) {
			r.Builds[0].Resources = big.Resources
		}),
		"the record of vm-1: what it takes is": resize(1.5, 11, func(r *Recording) {
			last := len(r.Log) - 1
			r.Log[last].Instance.Resources = compute.Resources{compute.VCPU: 3}
		}),
	})
}
