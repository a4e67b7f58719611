// SPDX-License-Identifier: Apache-2.0

package berth

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	ruleHeading = regexp.MustCompile(`(?m)^### Rule (\d+):`)
	invariant   = regexp.MustCompile(`(?m)^### I(\d+)$`)
	ruleCited   = regexp.MustCompile(`(?i)\brules? (\d+)\b|\brule(\d\d)_`)
	invCited    = regexp.MustCompile(`\bI(\d)\b`)
	testNamed   = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`((?:, `Test[A-Za-z0-9]+`)*)\\s+\\(`([a-z/-]+)`\\)")
)

// TestProtocolPage holds docs/PROTOCOL.md and docs/PROMISES.md true: each rule has a scenario and
// a planted bug of its number, each invariant a check that names it, each test that
// the page names is there, and nothing cites a number that the page does not have.
func TestProtocolPage(t *testing.T) {
	text := read(t, "docs/PROTOCOL.md")
	rules, invariants := numbers(ruleHeading, text), numbers(invariant, text)
	if len(rules) == 0 || len(invariants) == 0 {
		t.Fatalf("%d rules and %d invariants on the page", len(rules), len(invariants))
	}
	for _, n := range rules {
		for _, kind := range []string{
			"conductor/admit/testdata/rule%_*.txt", "pkg/lab/sim/testdata/bugs/rule%_*.patch",
		} {
			name := strings.ReplaceAll(kind, "%", twoDigits(n))
			if found, err := filepath.Glob(name); err != nil || len(found) == 0 {
				t.Errorf("rule %d has no %s (%v)", n, name, err)
			}
		}
	}
	checks := ""
	for _, name := range glob(t, "pkg/lab/sim/judge/*.go") {
		checks += read(t, name)
	}
	named := numbers(invCited, checks)
	for _, n := range invariants {
		if !slices.Contains(named, n) {
			t.Errorf("no check of pkg/lab/sim names I%d", n)
		}
	}
	testsOfPage(t, "docs/PROTOCOL.md")
	testsOfPage(t, "docs/PROMISES.md")
	for name, cited := range citations(t) {
		for _, n := range cited.rules {
			if !slices.Contains(rules, n) {
				t.Errorf("%s cites rule %d, which docs/PROTOCOL.md does not have", name, n)
			}
		}
		for _, n := range cited.invariants {
			if !slices.Contains(invariants, n) {
				t.Errorf("%s cites I%d, which docs/PROTOCOL.md does not have", name, n)
			}
		}
	}
}

// testsOfPage looks for each test that a page names in the folder it names.
func testsOfPage(t *testing.T, page string) {
	t.Helper()
	all := testNamed.FindAllStringSubmatch(read(t, page), -1)
	if len(all) == 0 {
		t.Errorf("%s names no test", page)
	}
	for _, m := range all {
		code := ""
		for _, name := range glob(t, filepath.Join(m[3], "*_test.go")) {
			code += read(t, name)
		}
		for _, test := range append([]string{m[1]}, strings.Split(strings.ReplaceAll(m[2], "`", ""), ", ")[1:]...) {
			if !strings.Contains(code, "func "+test+"(") {
				t.Errorf("%s has no %s", m[3], test)
			}
		}
	}
}

type cited struct{ rules, invariants []int }

// citations is what files cite, by file.
func citations(t *testing.T) map[string]cited {
	t.Helper()
	all := map[string]cited{}
	walk(t, func(name string) {
		if slices.Contains([]string{".go", ".md", ".patch", ".proto", ".txt"}, filepath.Ext(name)) {
			text := name + "\n" + read(t, name)
			all[name] = cited{numbers(ruleCited, text), numbers(invCited, text)}
		}
	})
	return all
}

func numbers(of *regexp.Regexp, text string) (all []int) {
	for _, m := range of.FindAllStringSubmatch(text, -1) {
		for _, digits := range m[1:] {
			if n, err := strconv.Atoi(digits); err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}

func twoDigits(n int) string { return strconv.Itoa(100 + n)[1:] }

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return names
}
