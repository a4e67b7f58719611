// SPDX-License-Identifier: Apache-2.0

// Command mutate puts small faults into a package, one at a time, and says which of them the package's own
// tests let pass: conditions that hold always or never, < for <=, + for -, 0 for 1, statements left out,
// functions that return at once.
//
// The package is built once, with all faults in it, and a number in the environment says which one is there:
// so a mutant costs a run of the tests, and no build. No file of the tree is changed: the go command is given
// an overlay.
//
// A mutant that survives says one of three things: a test is missing, the code has no effect and can go, or
// what the code does cannot be told apart from outside (a hint, a bound, a fault of the disk). Of some packages
// testdata/survivors.txt says which for each.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"
)

func main() {
	r := run{out: os.Stdout}
	flag.StringVar(&r.only, "only", "", "a `pattern`: try only the mutants that are printed so: ^room.go:49:")
	flag.StringVar(&r.slow, "slow", "", "a `pattern`: tests that only those mutants meet that the other tests let live")
	flag.DurationVar(&r.timeout, "timeout", time.Minute, "how long the tests of one mutant may take")
	flag.Parse()
	for _, dir := range flag.Args() {
		if err := r.try(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// run is what is tried, and how.
type run struct {
	only, slow string
	timeout    time.Duration
	out        io.Writer // a line for each mutant, and one at the end
}

// try tries all mutants of the package in a folder.
func (r run) try(dir string) error {
	only, err := regexp.Compile(r.only)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	b, err := build(dir, tmp)
	if err != nil {
		return err
	}
	if f, out := b.judge(0, "", r.timeout); f != survived {
		return fmt.Errorf("the tests of %s fail without any fault:\n%s", dir, out)
	}
	counts := map[fate]int{}
	for i, m := range b.mutants {
		if !only.MatchString(m.String()) {
			continue
		}
		f := b.fate(i+1, r.slow, r.timeout)
		counts[f]++
		fmt.Fprintf(r.out, "%-9s  %s\n", f, m)
	}
	all := counts[killed] + counts[timedOut] + counts[survived]
	fmt.Fprintf(r.out, "%s: %d mutants, %d killed, %d timed out, %d survived\n",
		dir, all, counts[killed], counts[timedOut], counts[survived])
	return nil
}
