// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"
)

// TestNameRulesAreTheChecks: a name is taken exactly if it fits its rule's pattern and is no longer than it says.
func TestNameRulesAreTheChecks(t *testing.T) {
	checks := map[string]func(string) error{
		"project":          func(s string) error { return Project(s).Check() },
		"flavor":           func(s string) error { return FlavorName(s).Check() },
		"host":             func(s string) error { return HostID(s).Check() },
		"capability":       func(s string) error { return AxisName(s).Check() },
		"capability value": func(s string) error { return AxisValue(s).Check() },
		"trait":            func(s string) error { return Trait(s).Check() },
		"resource class":   func(s string) error { return ResourceClass(s).Check() },
		"instance id":      func(s string) error { return InstanceID(s).Check() },
	}
	rules := NameRules()
	if len(rules) != len(checks) {
		t.Errorf("%d rules for %d kinds of names", len(rules), len(checks))
	}
	likely := rapid.OneOf(
		rapid.StringOfN(rapid.SampledFrom([]rune("ab09AZ._-é\n")), 0, 6, -1),
		rapid.StringMatching(`[a-z0-9]{0,3}[a-z0-9._-]{28,64}`),
		rapid.StringMatching(`(CUSTOM_|VCPU|MEMORY_MB|DISK_GB)?[A-Z_0-9]{0,3}`),
		rapid.StringMatching(`CUSTOM_[A-Z0-9_]{245,252}`),
		rapid.StringMatching(`[A-Z][A-Z0-9_]{250,256}`),
		rapid.StringMatching(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-fA]{11,13}`),
	)
	for _, r := range rules {
		pattern, check := regexp.MustCompile(r.Pattern), checks[r.Of]
		if check == nil {
			t.Errorf("%s: nothing checks such names", r.Of)
			continue
		}
		rapid.Check(t, func(rt *rapid.T) {
			name := likely.Draw(rt, "name")
			fits, err := len(name) <= r.Most && pattern.MatchString(name), check(name)
			if fits != (err == nil) {
				rt.Fatalf("%s %q: by the rule %v, by the check %v", r.Of, name, fits, err)
			}
		})
	}
}
