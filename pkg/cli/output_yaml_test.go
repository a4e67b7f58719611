// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// printedYAML is v as -o yaml prints it.
func printedYAML(t rapid.TB, v any) string {
	var out bytes.Buffer
	if err := PrintData(&out, FormatYAML, v); err != nil {
		t.Fatalf("%q: %v", v, err)
	}
	return out.String()
}

// TestYAMLQuotes: text that YAML 1.1 or 1.2 reads as something else without quotes keeps them, and other text has none.
func TestYAMLQuotes(t *testing.T) {
	for _, text := range []string{
		"no", "On", "y", "N", "yes", "OFF", "true", "null", "~", "", "12:30", "+1:30", "190:20:30.15", "1_000", "0x1F",
		"0777", "1e5", ".5", "._5", "1.5_0", "2026-03-04", "2026-99-99", "2026-3-4 5:06:07 +01:00", "=", "<<",
	} {
		if got := printedYAML(t, text); got != `"`+text+"\"\n" {
			t.Errorf("%q is printed as %s", text, got)
		}
	}
	for _, text := range []string{"web-1", "nope", "yes-1", "only", "12:75", "10.0.0.1:80", "9d", "h1", "2026-03", "a=b"} {
		if got := printedYAML(t, text); got != text+"\n" {
			t.Errorf("%q is printed as %s", text, got)
		}
	}
	if got, want := printedYAML(t, map[string]string{"on": "no"}), "\"on\": \"no\"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// oddText is text of characters that YAML, JSON or one of their libraries has rules of its own for.
func oddText() *rapid.Generator[string] {
	odd := []rune("\x00\t\n\r\x1b\x7f\u0080\u0085\u009f\u00a0\u200b\u2028\u2029\ufeff\ufffd\ufffe\uffff\U0001f600" +
		" aN0:-#'\"\\&*!|>%@{}[],?")
	return rapid.OneOf(rapid.StringOfN(rapid.RuneFrom(odd), 0, 12, -1), rapid.String())
}

// TestYAMLSaysTheSame: what is read of the YAML is what was printed, whatever it is.
func TestYAMLSaysTheSame(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("&", 200), strings.Repeat("a", 1100), strings.Repeat("ä\n", 1100),
		"\x7f", "\u0080", "a\u0085b", "\u009f", "\ufeffa", "\ufffe", "\uffff", "\t\n", "a\n\tb\n",
	} {
		saysTheSame(t, []any{text, map[string]any{text: text}})
	}
	value := rapid.OneOf(
		rapid.Map(oddText(), func(s string) any { return s }),
		rapid.Map(rapid.Int64(), func(n int64) any { return n }),
		rapid.Map(rapid.Float64(), func(n float64) any { return n + 0 }), // a zero has no sign in YAML
		rapid.SampledFrom([]any{nil, true, false}),
	)
	for range 3 {
		value = rapid.OneOf(value,
			rapid.Map(rapid.SliceOfN(value, 0, 4), func(s []any) any { return s }),
			rapid.Map(rapid.MapOfN(oddText(), value, 0, 4), func(m map[string]any) any { return m }))
	}
	rapid.Check(t, func(t *rapid.T) { saysTheSame(t, value.Draw(t, "value")) })
}

func saysTheSame(t rapid.TB, v any) {
	t.Helper()
	want, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	text := printedYAML(t, v)
	var back any
	if err := yaml.Unmarshal([]byte(text), &back); err != nil {
		t.Fatalf("%s\n%q: %v", want, text, err)
	}
	if got, err := json.Marshal(back); err != nil || string(got) != string(want) {
		t.Fatalf("%s\nis read of %q as\n%s, %v", want, text, got, err)
	}
}
