// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// What was granted elsewhere under another rule says nothing of members that run beside each other; nor is a rule held
// against those that were there before it.
func TestCheckRunningBeside(t *testing.T) {
	one := compute.Group{Name: "g", Project: "red", Policy: compute.AntiAffinity, Most: 1}
	two := one
	two.Most = 2
	is := func(want bool, third, others compute.Group) {
		t.Helper()
		groups, inForce := map[compute.InstanceID]compute.Group{}, map[grant]ruled{}
		last := map[compute.InstanceID]compute.Instance{}
		var runs []run
		for n, x := range []run{
			{instance: "a", host: "host-1", attempt: 1, from: moment(10), to: moment(100)},
			{instance: "b", host: "host-1", attempt: 1, from: moment(30), to: moment(100)},
			{instance: "c", host: "host-2", attempt: 1, from: moment(20), to: moment(100)}, // granted after b
		} {
			groups[x.instance], last[x.instance] = one, compute.Instance{ID: x.instance}
			inForce[x.grant()] = ruled{n, []compute.Group{others}}
			if x.instance == "c" {
				inForce[x.grant()] = ruled{n, []compute.Group{third}}
			}
			runs = append(runs, x)
		}
		if wrong := checkRunningBeside(groups, last, inForce, runs); (len(wrong) > 0) != want {
			t.Errorf("two granted under %q, and one elsewhere under %q: says %v", others.Rule(), third.Rule(), wrong)
		}
	}
	is(true, one, one)
	is(true, two, one)
	is(false, one, two)
	is(false, two, two)
}
