// SPDX-License-Identifier: Apache-2.0

package compute

import "testing"

// FuzzNames: whatever passes its check can be part of a topic's name, and comes
// back as it was from where it is parsed.
func FuzzNames(f *testing.F) {
	for _, s := range []string{
		"m1.small", "a..b", "gpu", "a100", "CPU_AVX2", "CUSTOM_X", "wait", "queued", "invalid",
		"0b9cf4a2-3f0e-4c5e-9a55-0f6f1d2c3b4a", "\xff", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		checksAsPatterns(t, s)
		for what, err := range map[string]error{
			"project": Project(s).Check(), "publisher": PublisherName(s).Check(), "host": HostID(s).Check(),
			"flavor": FlavorName(s).Check(),
			"axis":   AxisName(s).Check(),
			"value":  AxisValue(s).Check(), "trait": Trait(s).Check(), "id": InstanceID(s).Check(),
			"class": ResourceClass(s).Check(),
		} {
			if err != nil {
				if KindOf(err) != KindInvalid || len(err.Error()) > 1000 {
					t.Errorf("%s: %#v is no refusal", what, err)
				}
				continue
			}
			for _, c := range []byte(s) {
				if c <= ' ' || c > '~' || c == '/' || c == '\\' || c == '"' {
					t.Errorf("%s %q passes", what, s)
				}
			}
		}
		if state, err := ParseState(s); err == nil && state.String() != s {
			t.Errorf("state %q is %s", s, state)
		}
		if n, err := ParseNoCapacity(s); err == nil && s != "" && n.String() != s {
			t.Errorf("%q is %s", s, n)
		}
		if p, err := ParsePriority(s); err == nil && s != "" && p.String() != s {
			t.Errorf("%q is priority %s", s, p)
		}
		if a, err := ParseAfterwards(s); err == nil && a.String() != s {
			t.Errorf("%q is %s", s, a)
		}
		if p, err := ParseGroupPolicy(s); err == nil && p.String() != s {
			t.Errorf("group policy %q is %s", s, p)
		}
		var data, again UserData
		if err := data.UnmarshalText([]byte(s)); err == nil {
			text, _ := data.MarshalText()
			if err := again.UnmarshalText(text); err != nil || again != data {
				t.Errorf("user data %q is %q, and then %q: %v", s, data, again, err)
			}
		}
		if w, err := ParseWeigher(s); err == nil && w.String() != s {
			t.Errorf("weigher %q is %s", s, w)
		}
		if k := ParseKind(s); k != KindInternal && k.String() != s {
			t.Errorf("kind %q is %s", s, k)
		}
	})
}

// FuzzSums: no sum of what passes its check turns round.
func FuzzSums(f *testing.F) {
	f.Add(int64(1), int64(MaxAmount), uint16(60_000))
	f.Add(int64(-1), int64(1<<62), uint16(3))
	f.Fuzz(func(t *testing.T, a, b int64, times uint16) {
		x, y := Resources{VCPU: a}, Resources{VCPU: b}
		if x.Check() != nil || y.Check() != nil {
			return
		}
		sum := x
		for range times {
			sum = sum.Plus(y)
		}
		if sum[VCPU] < a || sum[VCPU] < b && times > 0 {
			t.Errorf("%d + %d × %d = %d", a, times, b, sum[VCPU])
		}
	})
}
