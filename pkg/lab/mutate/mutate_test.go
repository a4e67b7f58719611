// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/weak.txt")

// The mutants of a package whose tests miss something, and what becomes of each.
func TestWeak(t *testing.T) {
	var out strings.Builder
	if err := (run{timeout: time.Hour, slow: "Swap", out: &out}).try("testdata/weak"); err != nil {
		t.Fatal(err)
	}
	const file = "testdata/weak.txt"
	if *rewrite {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(out.String(), "\n")); diff != "" {
		t.Errorf("(-%s +now) %s", file, diff)
	}
}

func TestOnly(t *testing.T) {
	var out strings.Builder
	if err := (run{timeout: time.Hour, only: "^weak.go:6:", out: &out}).try("testdata/weak"); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), "testdata/weak: 4 mutants, 3 killed, 0 timed out, 1 survived\n") {
		t.Error(out.String())
	}
}

// Tests that fail without any fault say nothing of mutants.
func TestFailsAnyway(t *testing.T) {
	t.Setenv("MUTANT_WEAK_FAILS", "1")
	var out strings.Builder
	err := (run{timeout: time.Hour, out: &out}).try("testdata/weak")
	if err == nil || !strings.Contains(err.Error(), "fail without any fault") {
		t.Error(err)
	}
}

// What the list of survivors says is about code that there is: who changes such a line looks at its reason again.
func TestSurvivorsAreThere(t *testing.T) {
	list, err := os.ReadFile("testdata/survivors.txt")
	if err != nil {
		t.Fatal(err)
	}
	packages, entries, reasons := 0, 0, 1
	for line := range strings.Lines(string(list)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case strings.HasPrefix(line, "\t"):
			reasons++
			continue
		}
		name, code, _ := strings.Cut(line, ": ")
		if !strings.HasSuffix(name, ".go") {
			packages++
			if info, err := os.Stat("../../../" + name); err != nil || !info.IsDir() {
				t.Errorf("%s is no package: %v", name, err)
			}
			continue
		}
		if entries++; reasons == 0 {
			t.Errorf("the line before %q has no reason", line)
		}
		reasons = 0
		source, err := os.ReadFile("../../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		is := func(l string) bool { return strings.TrimSpace(l) == code }
		if !slices.ContainsFunc(strings.Split(string(source), "\n"), is) {
			t.Errorf("%s has no line %q any more: run the tool again, and mend the list", name, code)
		}
	}
	if packages != 13 || entries == 0 || reasons == 0 {
		t.Errorf("%d packages and %d lines, the last with %d reasons", packages, entries, reasons)
	}
}
