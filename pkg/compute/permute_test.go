// SPDX-License-Identifier: Apache-2.0

package compute

import (
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
	} {
		other := q
		if change(&other); q.SameNeeds(other) {
			t.Errorf("other %s, yet the same needs", name)
		}
	}
}
