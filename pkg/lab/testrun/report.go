// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// event is a line of go test -json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

// report tells what came of tests, as it comes.
type report struct {
	w           io.Writer
	total, done int
	output      map[string][]string // of tests and packages that go on, by package and test
	failed      map[string]int      // tests, by package
	detector    map[string]bool     // packages in which the race detector ended
	dying       map[string]bool     // packages that panicked or were ended, after which all is said of that
	bad         []string            // packages that failed
	skipped     map[string][]string // tests, by why
}

func newReport(w io.Writer, total int) *report {
	return &report{
		w: w, total: total, output: map[string][]string{}, failed: map[string]int{}, detector: map[string]bool{},
		dying: map[string]bool{}, skipped: map[string][]string{},
	}
}

// read takes events until there are no more. What is no event, as the compiler's
// words, is shown as it is.
func (t *report) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				fmt.Fprint(t.w, line)
			} else {
				t.add(e)
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

var (
	detectorEnds = regexp.MustCompile(`^(ThreadSanitizer: CHECK failed|SIGSEGV: segmentation violation$)`)
	dies         = regexp.MustCompile(
		`^(panic: |fatal error: |SIGQUIT: |SIGSEGV: |ThreadSanitizer: CHECK failed|\*\*\* Test killed )`,
	)
	because = regexp.MustCompile(`^\s+\S+\.go:\d+: (?:skipped: )?(.+)$`)
)

func (t *report) add(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(t.w, e.Output)
	case "output":
		if t.dying[e.Package] = t.dying[e.Package] || dies.MatchString(e.Output); t.dying[e.Package] {
			key = e.Package + " " // go test gives it to any test, even to one of which it says then that it passed
		}
		t.output[key] = append(t.output[key], e.Output)
		if detectorEnds.MatchString(e.Output) {
			t.detector[e.Package] = true
		}
	case "skip", "pass", "fail":
		if e.Test == "" {
			t.finish(e)
		} else {
			t.test(e, t.output[key])
		}
		delete(t.output, key)
	}
}

// test is the end of one test: only those that failed or were skipped are worth a word.
func (t *report) test(e event, output []string) {
	switch e.Action {
	case "fail":
		t.failed[e.Package]++
		fmt.Fprintf(t.w, "FAIL %s %s\n%s", e.Package, e.Test, strings.Join(output, ""))
	case "skip":
		why := "it does not say why"
		for _, line := range output {
			if m := because.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
				why = m[1]
			}
		}
		t.skipped[why] = append(t.skipped[why], e.Test)
	}
}

// finish is the end of a package.
func (t *report) finish(e event) {
	t.done++
	if e.Action == "fail" {
		t.bad = append(t.bad, e.Package)
		fmt.Fprint(t.w, strings.Join(t.output[e.Package+" "], "")) // what the race detector says, or all goroutines
		t.broken(e.Package)
	}
	word := map[string]string{"pass": "ok", "fail": "FAIL", "skip": "--"}[e.Action]
	fmt.Fprintf(t.w, "%3d/%d  %-4s  %6.1f s  %s\n", t.done, t.total, word, e.Elapsed, e.Package)
}

// broken shows the tests of a package that had not ended when it did: of a panic and of a hang, go test says
// nowhere that these tests failed.
func (t *report) broken(p string) {
	for _, key := range slices.Sorted(maps.Keys(t.output)) {
		test, of := strings.CutPrefix(key, p+" ")
		if !of || test == "" {
			continue
		}
		if said := t.output[key]; !strings.HasPrefix(said[len(said)-1], "=== PAUSE ") { // those wait for their turn
			fmt.Fprintf(t.w, "BROKEN OFF %s\n%s", key, strings.Join(said, ""))
		}
		delete(t.output, key)
	}
}

// died is the one package in which the race detector ended and no test failed, of those that
// failed after the first n; empty if that is not all that went wrong.
func (t *report) died(n int) string {
	if len(t.bad) != n+1 || t.failed[t.bad[n]] > 0 || !t.detector[t.bad[n]] {
		return ""
	}
	return t.bad[n]
}

// forget takes back that a package failed: it is tested once more.
func (t *report) forget(p string) {
	t.bad = slices.DeleteFunc(t.bad, func(b string) bool { return b == p })
	delete(t.detector, p)
	delete(t.dying, p)
	t.done--
}

// columns is how wide the list of skipped tests is.
const columns = 120

// end says what was left out, and whether all is well.
func (t *report) end(took time.Duration) {
	for _, why := range slices.Sorted(maps.Keys(t.skipped)) {
		tests := t.skipped[why]
		slices.Sort(tests)
		fmt.Fprintf(t.w, "skipped %d: %s\n%s\n", len(tests), why, wrapped(tests))
	}
	took = took.Round(time.Second)
	if len(t.bad) > 0 {
		fmt.Fprintf(t.w, "FAILED after %s: %s\n", took, strings.Join(t.bad, ", "))
		return
	}
	fmt.Fprintf(t.w, "all passed after %s\n", took)
}

// wrapped is a list of words in indented lines.
func wrapped(words []string) string {
	var b strings.Builder
	at := columns
	for _, w := range words {
		switch {
		case b.Len() == 0:
			at = 3
			b.WriteString("   ")
		case at+1+len(w) > columns:
			at = 3
			b.WriteString("\n   ")
		}
		at += 1 + len(w)
		b.WriteString(" " + w)
	}
	return b.String()
}
