// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSelector(t *testing.T) {
	shop := map[string]string{"team": "shop", "role": "", "a=b": "c"}
	for text, want := range map[string]bool{
		"": true, "team=shop": true, "team=lab": false, "team!=shop": false, "team!=lab": true,
		"tier!=gold": true, "team": true,
		"tier=": false, "tier!=": true, "tier": false, "!tier": true, "!team": false, "role=": true, "role!=": false,
		"role": true, "team=shop tier": false,
		"team=shop role": true, "a=b": false, "team=shop=x": false,
	} {
		s, err := ParseSelector(strings.Fields(text))
		if err != nil || s.Selects(shop) != want || s.Empty() != (text == "") {
			t.Errorf("%q selects it: %t, want %t (%v)", text, s.Selects(shop), want, err)
		}
		if none := s.Selects(nil); none && strings.Contains(text, "=shop") && !strings.Contains(text, "!=") {
			t.Errorf("%q selects what has no labels", text)
		}
	}
	for _, text := range []string{
		"", "=", "=a", "!", "!=", "!=a", " team=a", "team =a", "! team", "!team!=a", "!!team", "team!", "a\nb=c", "\t=a",
	} {
		if _, err := ParseSelector([]string{text}); KindOf(err) != KindInvalid {
			t.Errorf("%q: %v", text, err)
		}
	}
	var many []string
	for range MaxRequirements {
		many = append(many, "team")
	}
	if _, err := ParseSelector(many); err != nil {
		t.Errorf("as many as may be: %v", err)
	}
	if _, err := ParseSelector(append(many, "team")); KindOf(err) != KindInvalid {
		t.Errorf("too many: %v", err)
	}
}

// The fingerprint is in records that other versions compare.
func TestFingerprint(t *testing.T) {
	for want, b := range map[Fingerprint]Boot{
		0xaf5570f5a1810b7a: {},
		0x4032d29049a0e1b5: {Name: "web", Metadata: map[string]string{"team": "a", "role": ""}},
	} {
		if got := b.Fingerprint(); got != want {
			t.Errorf("%+v: %#x, want %#x", b, uint64(got), uint64(want))
		}
	}
	some := Boot{Name: "a", Metadata: map[string]string{"b": "c"}}.Fingerprint()
	for _, b := range []Boot{
		{Name: "ab", Metadata: map[string]string{"": "c"}}, {Name: "a", Metadata: map[string]string{"bc": ""}}, {Name: "a"},
	} {
		if b.Fingerprint() == some {
			t.Errorf("%+v has the same", b)
		}
	}
}

// FuzzSelector: a selector that reads selects a thing or its contrary does.
func FuzzSelector(f *testing.F) {
	for _, text := range []string{"team=a", "team!=a", "team", "!team", "=", "!", "a=b=c", "\xff"} {
		f.Add(text, "team", "a")
	}
	f.Fuzz(func(t *testing.T, text, name, value string) {
		s, err := ParseSelector([]string{text})
		if err != nil {
			if KindOf(err) != KindInvalid {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		labels := map[string]string{name: value}
		contrary := "!" + text
		if left, right, found := strings.Cut(text, "="); found {
			contrary = left + "!=" + right
		}
		if strings.HasPrefix(text, "!") || strings.Contains(text, "!=") {
			return // twice not
		}
		if not, err := ParseSelector([]string{contrary}); err != nil || not.Selects(labels) == s.Selects(labels) {
			t.Errorf("%q and %q say the same of %q (%v)", text, contrary, labels, err)
		}
	})
}

// TestChange: what is named changes, what is not stays, what it is given stays as it is, and too much is refused.
func TestChange(t *testing.T) {
	before := Boot{Name: "web", Flavor: "m1", Metadata: map[string]string{"team": "a", "role": "db"}}
	kept := maps.Clone(before.Metadata)
	name, long := "web-2", strings.Repeat("n", MaxNameLength+1)
	for what, c := range map[string]struct {
		change Change
		want   Boot
	}{
		"name": {Change{Name: &name}, Boot{Name: "web-2", Flavor: "m1", Metadata: kept}},
		"set": {Change{Set: map[string]string{"team": "b"}},
			Boot{Name: "web", Flavor: "m1", Metadata: map[string]string{"team": "b", "role": "db"}}},
		"remove": {Change{Remove: []string{"team", "role", "no"}}, Boot{Name: "web", Flavor: "m1"}},
		"remove one": {Change{Remove: []string{"team"}},
			Boot{Name: "web", Flavor: "m1", Metadata: map[string]string{"role": "db"}}},
	} {
		got, err := c.change.Apply(before)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil || c.change.Check() != nil {
			t.Errorf("%s: %v %v\n%s", what, err, c.change.Check(), diff)
		}
		if !maps.Equal(before.Metadata, kept) {
			t.Fatalf("%s changed what it was given", what)
		}
	}
	first, err := Change{Set: map[string]string{"team": "b"}}.Apply(Boot{Name: "web"})
	if err != nil || first.Metadata["team"] != "b" {
		t.Errorf("what has no metadata has %v: %v", first.Metadata, err)
	}
	most := Change{Remove: []string{strings.Repeat("x", MaxMetadataSize)}}
	if err := most.Check(); err != nil {
		t.Errorf("as much as may be: %v", err)
	}
	if err := CheckHostLabels(map[string]string{"a": strings.Repeat("x", MaxHostLabelsSize-1)}); err != nil {
		t.Errorf("labels of hosts, as much as may be: %v", err)
	}
	many := map[string]string{}
	for i := range MaxMetadata - 1 {
		many[strings.Repeat("k", i+1)] = ""
	}
	if _, err := (Change{Set: many}).Apply(before); KindOf(err) != KindInvalid {
		t.Errorf("together it is too much: %v", err)
	}
	for what, c := range map[string]Change{
		"nothing": {}, "a long name": {Name: &long}, "both": {Set: map[string]string{"a": ""}, Remove: []string{"a"}},
		"much to remove": {Remove: make([]string, MaxMetadata+1)},
		"long to remove": {Remove: []string{strings.Repeat("x", MaxMetadataSize+1)}},
		"no name":        {Set: map[string]string{"": "a"}},
		"much to set":    {Set: map[string]string{"a": strings.Repeat("x", MaxMetadataSize)}},
	} {
		if err := c.Check(); KindOf(err) != KindInvalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	if CheckHostLabels(map[string]string{"rack": "r1"}) != nil || CheckHostLabels(many) == nil ||
		CheckHostLabels(map[string]string{"": "a"}) == nil ||
		CheckHostLabels(map[string]string{"a": strings.Repeat("x", MaxHostLabelsSize)}) == nil {
		t.Error("labels of hosts")
	}
}
