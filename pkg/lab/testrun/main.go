// SPDX-License-Identifier: Apache-2.0

// Command testrun runs go test and tells what a newcomer wants to know: before it how
// long the tests take, what they need and what of that is missing here; while it runs
// which packages are done; and after it what was skipped and why. It ends with the
// exit code of go test.
//
//	go run ./pkg/lab/testrun [-takes TEXT] [-first PACKAGES] [-without FLAG=PACKAGES] [-again] [-- flags and packages of go test]
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// options say what to tell and in which order to test.
type options struct {
	takes   string // how long the tests take, told first
	first   string // packages to begin with, by spaces: those that take longest
	without string // a flag of go test and the packages that do not get it, as "-race=./a ./b"
	again   bool   // test a package once more in which the race detector itself ended (golang/go#78156)
}

func main() {
	var o options
	flag.StringVar(&o.takes, "takes", "", "how long the tests take, told first")
	flag.StringVar(&o.first, "first", "", "packages to begin with")
	flag.StringVar(&o.without, "without", "", "FLAG=PACKAGES: these packages are tested without a flag of the others")
	flag.BoolVar(&o.again, "again", false, "test a package once more in which the race detector itself ended (golang/go#78156)")
	flag.Parse()
	code, err := run(flag.Args(), o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// run tests what args say, and answers the exit code.
func run(args []string, o options) (int, error) {
	flags := flagsOf(args)
	all, err := packages(args[len(flags):])
	if err != nil {
		return 2, err
	}
	first, err := packages(strings.Fields(o.first))
	if err != nil {
		return 2, err
	}
	dropped, patterns, _ := strings.Cut(o.without, "=")
	others, err := packages(strings.Fields(patterns))
	if err != nil {
		return 2, err
	}
	fmt.Printf("%d packages. %s\n%s\n", len(all), o.takes, needs())
	began := time.Now()
	t := newReport(os.Stdout, len(all))
	code := 0
	for _, g := range grouped(flags, all, first, dropped, others) {
		c, err := g.test(t, o.again)
		if err != nil {
			return 2, err
		}
		code = max(code, c)
	}
	t.end(time.Since(began))
	return code, nil
}

// group is one run of go test.
type group struct{ flags, packages []string }

// grouped divides packages into those that get all flags and others that do not get one
// of them. Each group begins with the packages that take longest, so that the last of them does
// not run alone.
func grouped(flags, all, first []string, dropped string, others []string) (groups []group) {
	rank := func(p string) int {
		if n := slices.Index(first, p); n >= 0 {
			return n
		}
		return len(first)
	}
	var full, less []string
	for _, p := range all {
		if slices.Contains(others, p) {
			less = append(less, p)
		} else {
			full = append(full, p)
		}
	}
	for _, g := range []group{
		{flags, full},
		{slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return f == dropped }), less},
	} {
		if len(g.packages) > 0 {
			slices.SortStableFunc(g.packages, func(a, b string) int { return rank(a) - rank(b) })
			groups = append(groups, g)
		}
	}
	return groups
}

// test runs go test and has every event told.
func (g group) test(t *report, again bool) (int, error) {
	bad := len(t.bad)
	code, err := goTest(g.flags, g.packages, t)
	if err != nil || code == 0 || !again {
		return code, err
	}
	died := t.died(bad)
	if died == "" {
		return code, nil
	}
	fmt.Printf("the race detector ended in %s (golang/go#78156): once more\n", died)
	t.forget(died)
	return goTest(g.flags, []string{died}, t)
}

func goTest(flags, packages []string, t *report) (int, error) {
	cmd := exec.Command(goTool(), slices.Concat([]string{"test", "-json"}, flags, packages)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	if err := t.read(out); err != nil {
		return 0, err
	}
	_ = cmd.Wait() // its exit code counts
	return cmd.ProcessState.ExitCode(), nil
}

// packages are those that fit the patterns, in their order.
func packages(patterns []string) (all []string, err error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	for _, p := range patterns { // one by one: go list sorts
		out, err := exec.Command(goTool(), "list", p).Output()
		if err != nil {
			return nil, fmt.Errorf("go list %s: %w", p, err)
		}
		all = append(all, strings.Fields(string(out))...)
	}
	return all, nil
}

// flagsOf are the first of the arguments, up to the first package.
func flagsOf(args []string) []string {
	for n, a := range args {
		if strings.HasPrefix(a, ".") {
			return args[:n:n]
		}
	}
	return args
}

func goTool() string {
	if tool := os.Getenv("GO"); tool != "" {
		return tool
	}
	return "go"
}
