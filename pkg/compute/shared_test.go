// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"
	"maps"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestSharedChangesNothing: whatever instances come in whatever order, each is
// afterwards what it was before, and its maps are not those it came with where
// an equal one was shared.
func TestSharedChangesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var s Shared
		few := func(what string) int { return rapid.IntRange(0, 2).Draw(rt, what) }
		for range rapid.IntRange(1, 30).Draw(rt, "instances") {
			inst := Instance{
				Project: Project(fmt.Sprint("p", few("project"))), Queue: []QueueName{"", "a", "b"}[few("queue")],
				Host: HostID(fmt.Sprint("h", few("host"))),
				Boot: Boot{
					Flavor: FlavorName(fmt.Sprint("f", few("flavor"))), Image: fmt.Sprint("i", few("image")),
				},
				Resources: Resources{VCPU: int64(few("vcpus"))},
			}
			if few("choice") > 0 {
				inst.Boot.With = Choices{"gpu": AxisValue(fmt.Sprint("v", few("value")))}
			}
			for i := range few("traits") {
				inst.Required = append(inst.Required, Trait(fmt.Sprint("T", i)))
			}
			want := inst
			want.Resources, want.Boot.With = maps.Clone(inst.Resources), maps.Clone(inst.Boot.With)
			s.Instance(&inst)
			if diff := cmp.Diff(want, inst); diff != "" {
				rt.Fatal(diff)
			}
		}
	})
}

func TestSharedIsOneCopy(t *testing.T) {
	var s Shared
	made := func(host string) Instance {
		inst := Instance{
			Queue: "m1.gpu-a100", Host: HostID([]byte(host)), Resources: Resources{VCPU: 1},
			Boot: Boot{Flavor: "m1", With: Choices{"gpu": "a100"}},
		}
		s.Instance(&inst)
		return inst
	}
	a, b := made("h1"), made("h1")
	if unsafe.StringData(string(a.Host)) != unsafe.StringData(string(b.Host)) {
		t.Error("two copies of a host's name")
	}
	if a.Resources[VCPU] = 2; b.Resources[VCPU] != 2 {
		t.Error("two copies of what a queue needs")
	}
	for i := range mostShared {
		made(fmt.Sprint("host-", i))
	}
	if n := len(s.words); n > mostShared {
		t.Errorf("%d names are kept", n)
	}
}
