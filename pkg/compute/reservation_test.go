// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"strings"
	"testing"
	"time"
)

// TestWhatIsReserved: a flavor with its choices and a class, and nothing that only a machine could have.
func TestWhatIsReserved(t *testing.T) {
	reserve := func(edit func(*Boot)) error {
		v := Reserve{Name: "r", Until: time.Unix(7200, 0), Boot: Boot{Flavor: "f", With: Choices{"disk": "ssd"}},
			Instances: []InstanceID{"00000000-0000-4000-8000-000000000001"}}
		v.Boot.Rules = RulesOf("", Set{}, PriorityHigh)
		edit(&v.Boot)
		return v.Check()
	}
	if err := reserve(func(*Boot) {}); err != nil {
		t.Error(err)
	}
	for word, edit := range map[string]func(*Boot){
		"preemptible": func(b *Boot) { b.Rules.Priority = PriorityLow; b.Preempt(Preemptible{Then: ThenDelete}) },
		"name":        func(b *Boot) { b.Name = "n" },
		"metadata":    func(b *Boot) { b.Metadata = map[string]string{"a": "b"} },
		"attempts":    func(b *Boot) { b.Attempts = 2 },
		"deadline":    func(b *Boot) { b.Deadline = time.Hour },
		"image":       func(b *Boot) { b.Image = "i" },
		"rule":        func(b *Boot) { b.Host = "h1" },
	} {
		if err := reserve(edit); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", word, err)
		}
	}
}
