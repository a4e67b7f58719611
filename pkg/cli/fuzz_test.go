// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// FuzzSizes: what is typed as a size is one, or refused with a remedy; what is
// said as one can be typed again.
func FuzzSizes(f *testing.F) {
	for _, s := range []string{"2GiB", "512MiB", "-1GiB", "9223372036854775807TiB", "1.5GiB", "GiB", "", "２GiB"} {
		f.Add(s)
	}
	f.Add("90d")
	f.Add("65536d")
	f.Fuzz(func(t *testing.T, text string) {
		if life, err := ParseLife("expires", text); err != nil && compute.KindOf(err) != compute.KindInvalid ||
			err == nil && life <= 0 && text != neverExpires {
			t.Fatalf("%q is %v, %#v", text, life, err)
		}
		for class, parse := range map[compute.ResourceClass]func(string, string) (int64, error){
			compute.MemoryMB: ParseMemory, compute.DiskGB: parseDisk,
		} {
			n, err := parse("size", text)
			if err != nil {
				if compute.KindOf(err) != compute.KindInvalid {
					t.Fatalf("%#v is no refusal", err)
				}
				continue
			}
			if n < 0 || n > compute.MaxAmount {
				t.Fatalf("%q is %d", text, n)
			}
			if again, err := parse("size", HumanSize(class, n)); err != nil || again != n {
				t.Fatalf("%q is %d, said as %s, and then %d, %v", text, n, HumanSize(class, n), again, err)
			}
		}
	})
}

// FuzzPairs reads CLASS=NUMBER and NAME=VALUE, twice.
func FuzzPairs(f *testing.F) {
	f.Add("CUSTOM_X=1", "gpu=a100")
	f.Add("=", "a=b=c")
	f.Add("a100=CUSTOM_X", "a100:CUSTOM_X=1")
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, list := range [][]string{{a}, {b}, {a, b}} {
			if _, err := parseCapability("gpu", []string{"a100"}, list, list); err != nil &&
				compute.KindOf(err) != compute.KindInvalid {
				t.Fatalf("%#v is no refusal", err)
			}
		}
		if f, err := ParseFormat(a); err == nil && string(f) != a {
			t.Fatalf("%q is %q", a, f)
		}
		if out, err := parseAmounts("f", []string{a, b}); err != nil && compute.KindOf(err) != compute.KindInvalid ||
			err == nil && len(out) != 2 {
			t.Fatalf("%v, %#v", out, err)
		}
		if out, err := ParsePairs[compute.AxisName, compute.AxisValue]("f", []string{a, b}); err != nil &&
			compute.KindOf(err) != compute.KindInvalid ||
			err == nil && len(out) != 2 {
			t.Fatalf("%v, %#v", out, err)
		}
	})
}
