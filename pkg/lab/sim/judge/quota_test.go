// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckQuotaExact(t *testing.T) {
	quota := func(at schedule.Seconds, n int64) func(*Recording) {
		return func(r *Recording) {
			l := schedule.Load{Op: schedule.LoadQuota, Project: "red", Limits: compute.Resources{compute.Instances: n}}
			r.Asks = append(r.Asks, Ask{Load: l, Began: moment(at), Answered: moment(at), OK: true})
		}
	}
	refused := func(limit, asked int64) func(*Recording) {
		return func(r *Recording) {
			second := schedule.Load{Op: schedule.LoadBoot, Name: "vm-2", Project: "red", Boot: r.Asks[0].Load.Boot}
			r.Asks = append(r.Asks, Ask{Load: second, Began: moment(20)})
			i := compute.Instance{
				ID:        "vm-2",
				Project:   "red",
				State:     compute.StateError,
				Resources: schedule.Flavor("", 1).Resources,
			}
			i.Boot.Name = "vm-2"
			i.Reason = &compute.Reason{Code: compute.QuotaExceeded, Resource: compute.Instances}
			i.Reason.Limit, i.Reason.Used, i.Reason.Asked = limit, 1, asked
			r.refused(21, i)
		}
	}
	both := func(all ...func(*Recording)) func(*Recording) {
		return func(r *Recording) {
			for _, f := range all {
				f(r)
			}
		}
	}
	sees(t, checkQuotaExact, map[string]func(*Recording){
		"vm-1 was admitted: red uses 0 INSTANCES, it takes 1": quota(-20, 0),
		"right: the limit is new":                             quota(-2, 0),
		"right: the limit allows it":                          quota(-20, 1),
		"vm-1 was admitted: red uses 0": both(quota(-20, 0), func(r *Recording) { // another change was refused
			quota(-15, 1)(r)
			a := &r.Asks[len(r.Asks)-1]
			a.OK, a.Tries, a.Why = false, 1, &compute.Error{Kind: compute.KindConflict}
		}),
		"right: what had no answer before may have been made": both(quota(-20, 0), func(r *Recording) {
			quota(-15, 1)(r)
			a := &r.Asks[len(r.Asks)-1]
			a.OK, a.Tries, a.Why = false, 2, &compute.Error{Kind: compute.KindConflict}
		}),
		"right: it has what the limit allows":                            both(quota(-20, 1), refused(1, 1)),
		"vm-2 was refused for 1 INSTANCES of 1: red uses 1, it takes 1":  both(quota(-20, 2), refused(1, 1)),
		"vm-2 was refused for 1 INSTANCES of 2: red uses 1, it takes 1":  both(quota(-20, 2), refused(2, 1)),
		"vm-2 was refused for 2 INSTANCES of 1: red uses 1, it takes 1,": both(quota(-20, 1), refused(1, 2)),
	})
}
