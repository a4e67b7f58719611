// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// aSet has vm-1 be a set with vm-2, which is granted a host right behind vm-1 and runs there from the same moment on.
func aSet(r *Recording, host compute.HostID) {
	r.Asks[0].Set = "set-1"
	alike(r, "vm-2", host, 4)
	slices.SortStableFunc(r.Log, func(a, b Written) int { return a.Seen.Compare(b.Seen) })
}

func TestCheckSets(t *testing.T) {
	set := func(change func(*Recording)) func(*Recording) {
		return func(r *Recording) {
			aSet(r, "host-2")
			change(r)
		}
	}
	// between has the log have a record of vm-9 between the two grants.
	between := func(partition int32) func(*Recording) {
		other := Written{Seen: moment(3), Partition: partition, Instance: compute.Instance{ID: "vm-9"}}
		other.Instance.Boot.Name = "vm-9"
		return set(func(r *Recording) { r.Log = slices.Insert(r.Log, 3, other) })
	}
	// prepares has that become of the call that prepares vm-2.
	prepares := func(change func(*Recording, *Worked)) func(*Recording) {
		return set(func(r *Recording) { change(r, &r.Works[len(r.Works)-1]) })
	}
	breaks := func(r *Recording, w *Worked) {
		r.Broke = append(r.Broke, Broke{At: w.To, Host: w.Host, Instance: w.Instance, Method: w.Method})
	}
	// fails has vm-2 end in error, as the log has at 50 s, and so many of the two machines have run.
	fails := func(ran int, change func(*Recording)) func(*Recording) {
		return set(func(r *Recording) {
			r.Machines = r.Machines[:ran]
			i := r.Log[len(r.Log)-1].Instance
			i.State = compute.StateError
			r.logged(50, i)
			change(r)
		})
	}
	nothing := func(*Recording) {}
	sees(t, checkSets, map[string]func(*Recording){
		"right: both at once": set(nothing),
		"1 of 2 of set-1 are granted before this record of vm-2": set(func(r *Recording) {
			r.Log[1], r.Log[2] = r.Log[2], r.Log[1]
		}),
		"1 of 2 of set-1 are granted before this record of vm-9": between(0),
		"right: that is of another partition":                    between(1),
		"it runs on host-1, and vm-2 of its set was not prepared by then": prepares(func(r *Recording, _ *Worked) {
			r.Works = r.Works[:2]
		}),
		"and vm-2 of its set was not prepared by then": prepares(func(_ *Recording, w *Worked) { w.To = moment(4.1) }),
		"right: it is prepared just then":              prepares(func(_ *Recording, w *Worked) { w.To = moment(4) }),
		"vm-2 of its set was not prepared by then":     prepares(breaks),
		"right: the second time that it is prepared does": prepares(func(r *Recording, w *Worked) {
			again := *w
			again.From, again.To = moment(3.2), moment(3.4)
			breaks(r, w)
			r.Works = append(r.Works, again)
		}),
		"it runs on host-1, and vm-2 of its set ended in error and never ran": fails(1, nothing),
		"right: it ended, too":           fails(1, func(r *Recording) { givenUp(r, 100) }),
		"right: nothing was settled":     fails(1, func(r *Recording) { r.Settled = time.Time{} }),
		"right: it failed later":         fails(1, func(r *Recording) { r.Log[len(r.Log)-1].Seen = moment(130) }),
		"right: it ran before it failed": fails(2, nothing),
	})
}
