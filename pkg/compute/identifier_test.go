// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// patterns say the same as the checks of identifier.go, for people.
var patterns = map[string]*regexp.Regexp{
	"id":    regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`),
	"name":  regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$`),
	"host":  regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$`),
	"axis":  regexp.MustCompile(`^[a-z][a-z0-9]{0,31}$`),
	"value": regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`),
	"trait": regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,254}$`),
	"class": regexp.MustCompile(`^(VCPU|MEMORY_MB|DISK_GB|CUSTOM_[A-Z0-9_]{1,248})$`),
}

// checksAsPatterns compares each check with its pattern.
func checksAsPatterns(t interface{ Errorf(string, ...any) }, s string) {
	for what, err := range map[string]error{
		"id": InstanceID(s).Check(), "name": Project(s).Check(), "axis": AxisName(s).Check(),
		"host":  HostID(s).CheckNew(),
		"value": AxisValue(s).Check(), "trait": Trait(s).Check(), "class": ResourceClass(s).Check(),
	} {
		if want := patterns[what].MatchString(s) && !strings.Contains(s, ".."); want != (err == nil) {
			t.Errorf("%s %q: %v, but the pattern says %t", what, s, err, want)
		}
	}
}

func TestChecksAreTheirPatterns(t *testing.T) {
	for _, s := range []string{
		"", ".", "..", "a..b", "a.b", "a_b", "a-b", "-a", "a-", "_", "A", "9", "a\n", "\na", "é", "a\xff",
		"CUSTOM_", "CUSTOM__",
		strings.Repeat("a", 32), strings.Repeat("a", 33), strings.Repeat("a", 64), strings.Repeat("a", 65),
		strings.Repeat("A", 255), strings.Repeat("A", 256), "CUSTOM_" + strings.Repeat("9", 248),
		"CUSTOM_" + strings.Repeat("9", 249),
		"0b9cf4a2-3f0e-4c5e-9a55-0f6f1d2c3b4a", "0b9cf4a2-3f0e-4c5e-9a55-0f6f1d2c3b4A",
		"0b9cf4a2-3f0e-4c5e-9a55-0f6f1d2c3b4aa", "0b9cf4a2.3f0e-4c5e-9a55-0f6f1d2c3b4a",
	} {
		checksAsPatterns(t, s)
	}
	likely := rapid.StringOfN(rapid.SampledFrom([]rune("abz09AZ._-CUSTOMé\n ")), 0, 80, -1)
	near := rapid.Custom(func(t *rapid.T) string { // one byte of what is right is another
		s := []byte(rapid.SampledFrom([]string{
			"0b9cf4a2-3f0e-4c5e-9a55-0f6f1d2c3b4a", "m1.small-2_x", "CPU_AVX2", "CUSTOM_GPU_A100",
			strings.Repeat("x", 64), strings.Repeat("X", 255),
		}).Draw(t, "right"))
		s[rapid.IntRange(0, len(s)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		return string(s)
	})
	rapid.Check(t, func(rt *rapid.T) { checksAsPatterns(rt, rapid.OneOf(likely, near, rapid.String()).Draw(rt, "s")) })
}
