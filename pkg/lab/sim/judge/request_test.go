// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

func TestCheckRequest(t *testing.T) {
	logged := func(n int, change func(*compute.Instance)) func(*Recording) {
		return func(r *Recording) { change(&r.Log[n].Instance) }
	}
	spec := func(change func(*Given)) func(*Recording) { return func(r *Recording) { change(&r.Given[0]) } }
	work := func(change func(*compute.Build)) func(*Recording) {
		return func(r *Recording) { change(&r.Builds[0].Build) }
	}
	sees(t, checkRequest, map[string]func(*Recording){
		"the record of vm-1: flavor is m1.big": logged(0, func(i *compute.Instance) {
			i.Boot.Flavor = "m1.big"
		}),
		"the record of vm-1: with is": logged(0, func(i *compute.Instance) {
			i.Boot.With = compute.Choices{"gpu": "a100"}
		}),
		"the record of vm-1: host is host-1": logged(1, func(i *compute.Instance) {
			i.Boot.Host = "host-1"
		}),
		"the record of vm-1: avoid is []":       logged(2, func(i *compute.Instance) { i.Boot.Avoid = nil }),
		"attempts is 2, and was asked for as 3": logged(0, func(i *compute.Instance) { i.Boot.Attempts = 2 }),
		"deadline is 1h0m0s, and was asked for as 1m0s": logged(0, func(i *compute.Instance) {
			i.Boot.Deadline = compute.DefaultDeadline
		}),
		"on_no_capacity is fail": logged(0, func(i *compute.Instance) {
			i.Boot.OnNoCapacity = compute.FailAtOnce
		}),
		"the end of its wait is": logged(0, func(i *compute.Instance) {
			i.Deadline = moment(3600)
		}),
		"the record of vm-1: user_data is": logged(2, func(i *compute.Instance) { i.Boot.UserData = "" }),
		"its queue is m1.big":              logged(0, func(i *compute.Instance) { i.Queue = "m1.big" }),
		"what it takes is DISK_GB=10 MEMORY_MB=1024, and": logged(0, func(i *compute.Instance) {
			i.Resources = i.Resources.Minus(compute.Resources{compute.VCPU: 1})
		}),
		"user_data at its end is": logged(2, func(i *compute.Instance) { i.State = compute.StateDeleted }),
		"right: what ended has no user data": logged(2, func(i *compute.Instance) {
			i.State, i.Boot.UserData = compute.StateDeleted, ""
		}),
		"the work of vm-1: image is":       work(func(b *compute.Build) { b.Image = "other" }),
		"the work of vm-1: avoid is []":    work(func(b *compute.Build) { b.Avoid = nil }),
		"the machine of vm-1: image is":    spec(func(g *Given) { g.Spec.Image = "" }),
		"the machine of vm-1: metadata is": spec(func(g *Given) { g.Spec.Metadata = nil }),
		"the machine of vm-1: ssh_keys is": spec(func(g *Given) {
			g.Spec.SSHKeys = []string{"another's"}
		}),
		"the machine of vm-1: user_data is":       spec(func(g *Given) { g.Spec.UserData = nil }),
		"the machine of vm-1: its host is host-2": spec(func(g *Given) { g.Host = "host-2" }),
		"a machine of 0b6e7a52-3c57-5b2e-9f5e-1c1f6a3f0a01": func(r *Recording) {
			r.Log = nil
		},
	})
}
