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

// Each part that many instances have alike is one copy, and what is not is not.
func TestWhatIsShared(t *testing.T) {
	var s Shared
	text := func(s string) string { return string([]byte(s)) }
	made := func(change func(*Instance)) *Instance {
		inst := &Instance{
			Project: Project(text("long-p")), Queue: QueueName(text("long-q")), Host: HostID(text("long-h")),
			Journal:   JournalID(text("long-j")),
			Resources: Resources{VCPU: 1}, Required: []Trait{"A"}, Forbidden: []Trait{"B"},
			Boot: Boot{
				Flavor: FlavorName(text("long-f")), With: Choices{"gpu": "a"}, Image: text("long-i"),
				Host: HostID(text("long-g")), Rules: InGroup("g"),
			},
		}
		change(inst)
		s.Instance(inst)
		return inst
	}
	same := func(*Instance) {}
	a, b := made(same), made(same)
	for what, two := range map[string][2]string{
		"project": {string(a.Project), string(b.Project)}, "queue": {string(a.Queue), string(b.Queue)},
		"journal": {string(a.Journal), string(b.Journal)}, "flavor": {string(a.Boot.Flavor), string(b.Boot.Flavor)},
		"image": {a.Boot.Image, b.Boot.Image}, "its host": {string(a.Boot.Host), string(b.Boot.Host)},
	} {
		if unsafe.StringData(two[0]) != unsafe.StringData(two[1]) {
			t.Errorf("two copies of %s", what)
		}
	}
	if a.Boot.Rules == nil || *a.Boot.Rules != (PlacementRules{Group: "g"}) {
		t.Errorf("its rules are %+v", a.Boot.Rules)
	}
	if &a.Required[0] != &b.Required[0] || &a.Forbidden[0] != &b.Forbidden[0] || a.Boot.Rules != b.Boot.Rules {
		t.Error("two copies of traits or rules")
	}
	if a.Boot.With["gpu"] = "b"; b.Boot.With["gpu"] != "b" {
		t.Error("two copies of choices")
	}
	a.Boot.With["gpu"] = "a"
	other := made(func(i *Instance) { i.Forbidden = []Trait{"C"} })
	if other.Forbidden[0] != "C" {
		t.Errorf("%v are forbidden", other.Forbidden)
	}
	noticed := func(i *Instance) { i.Boot.Rules = &PlacementRules{Group: "g", Notice: &Notice{Queue: "q"}} }
	if c, d := made(noticed), made(noticed); c.Boot.Rules == d.Boot.Rules || c.Boot.Rules == a.Boot.Rules {
		t.Error("rules with a notice are shared")
	}
	if none := made(func(i *Instance) { i.Boot.Rules = nil }); none.Boot.Rules != nil {
		t.Errorf("%+v", none.Boot.Rules)
	}
}

// No more is kept than there is room for.
func TestSharedIsBounded(t *testing.T) {
	var s Shared
	for n := range mostShared + 1 {
		s.Instance(&Instance{Queue: QueueName(fmt.Sprint(n)), Boot: Boot{Rules: InGroup(GroupName(fmt.Sprint(n)))}})
		if len(s.queues) > mostShared || len(s.rules) > mostShared {
			t.Fatalf("%d queues and %d rules are kept", len(s.queues), len(s.rules))
		}
	}
}
