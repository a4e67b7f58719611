// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPermutations(t *testing.T) {
	axes := map[AxisName]Capability{
		"gpu": {Axis: "gpu", Values: []CapabilityValue{
			{Value: "a100", Requires: []Trait{"CUSTOM_GPU"}, Consumes: Resources{"CUSTOM_A100": 1}},
			{Value: "h100", Requires: []Trait{"CUSTOM_GPU"}, Consumes: Resources{"CUSTOM_H100": 1}},
		}},
		"disk": {
			Axis:   "disk",
			Values: []CapabilityValue{{Value: "ssd", Requires: []Trait{"A_SSD"}, Consumes: Resources{DiskGB: 5}}},
		},
	}
	f := Flavor{Name: "m1.small", Resources: Resources{VCPU: 1, DiskGB: 10}, Required: []Trait{"B_X"},
		Forbidden: []Trait{"Z", "Y"}, Capabilities: []AxisName{"gpu", "disk", "gone"}}
	want := map[QueueName]string{
		"m1.small":                   "DISK_GB=10 VCPU=1 [B_X]",
		"m1.small.disk-ssd":          "DISK_GB=15 VCPU=1 [A_SSD B_X]",
		"m1.small.gpu-a100":          "CUSTOM_A100=1 DISK_GB=10 VCPU=1 [B_X CUSTOM_GPU]",
		"m1.small.gpu-h100":          "CUSTOM_H100=1 DISK_GB=10 VCPU=1 [B_X CUSTOM_GPU]",
		"m1.small.disk-ssd.gpu-a100": "CUSTOM_A100=1 DISK_GB=15 VCPU=1 [A_SSD B_X CUSTOM_GPU]",
		"m1.small.disk-ssd.gpu-h100": "CUSTOM_H100=1 DISK_GB=15 VCPU=1 [A_SSD B_X CUSTOM_GPU]",
	}
	got := map[QueueName]string{}
	for _, q := range Permutations(f, axes) {
		line := q.Resources.String() + " ["
		for i, trait := range q.Required {
			if i > 0 {
				line += " "
			}
			line += string(trait)
		}
		got[q.Name] = line + "]"
		if diff := cmp.Diff([]Trait{"Y", "Z"}, q.Forbidden); diff != "" {
			t.Errorf("%s: forbidden traits: %s", q.Name, diff)
		}
		if q.Flavor != f.Name || q.Name != NameQueue(q.Flavor, q.Choices) {
			t.Errorf("%s: flavor %s, choices %v", q.Name, q.Flavor, q.Choices)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := CountPermutations(f, axes); n != len(want) {
		t.Errorf("counted %d, there are %d", n, len(want))
	}
	f.Capabilities = nil
	for n := range 33 { // 3 to the power of 33 is more than an int of 32 bits holds
		axis := AxisName(fmt.Sprint("a", n))
		axes[axis], f.Capabilities = axes["gpu"], append(f.Capabilities, axis)
	}
	if n := CountPermutations(f, axes); n != 1<<30 {
		t.Errorf("counted %d of very many", n)
	}
}

// What is made of a flavor may be changed: nothing of it is shared.
func TestPermutationsAreCopies(t *testing.T) {
	axes := map[AxisName]Capability{"gpu": {Axis: "gpu", Values: []CapabilityValue{{Value: "a"}}}}
	f := Flavor{Name: "f", Resources: Resources{VCPU: 1}, Required: []Trait{"A"}, Forbidden: []Trait{"B"},
		Capabilities: []AxisName{"gpu"}}
	all := Permutations(f, axes)
	for _, q := range all {
		q.Resources[VCPU], q.Required[0], q.Forbidden[0] = 2, "X", Trait(q.Name)
	}
	if f.Resources[VCPU] != 1 || f.Required[0] != "A" || f.Forbidden[0] != "B" ||
		all[0].Forbidden[0] == all[1].Forbidden[0] {
		t.Errorf("%+v, %+v", f, all)
	}
}

func TestSameNeeds(t *testing.T) {
	q := Queue{
		Name: "a.x-y", Flavor: "a", Choices: Choices{"x": "y"}, Resources: Resources{VCPU: 1},
		Required: []Trait{"A", "B"},
	}
	same := q
	same.Required, same.State, same.Group = []Trait{"B", "A"}, QueueClosed, "g"
	if !q.SameNeeds(same) {
		t.Error("order of traits, state and group do not change what is needed")
	}
	for name, change := range map[string]func(*Queue){
		"resources": func(q *Queue) { q.Resources = Resources{VCPU: 2} },
		"choices":   func(q *Queue) { q.Choices = Choices{"x": "z"} },
		"required":  func(q *Queue) { q.Required = nil },
		"forbidden": func(q *Queue) { q.Forbidden = []Trait{"C"} },
		"flavor":    func(q *Queue) { q.Flavor = "b" },
		"name":      func(q *Queue) { q.Name = "a" },
		"priority":  func(q *Queue) { q.Priority = PriorityHigh },
		"more":      func(q *Queue) { q.Choices = Choices{"x": "y", "z": "y"} },
	} {
		other := q
		if change(&other); q.SameNeeds(other) {
			t.Errorf("other %s, yet the same needs", name)
		}
	}
}
