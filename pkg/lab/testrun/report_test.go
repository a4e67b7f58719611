// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestReport: of what go test says, failures are shown at once with all that they said, packages as
// they end, and skipped tests at the end with why.
func TestReport(t *testing.T) {
	const events = `{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestOne"}
{"Action":"output","Package":"a","Test":"TestOne","Output":"=== RUN   TestOne\n"}
{"Action":"pass","Package":"a","Test":"TestOne","Elapsed":0}
{"Action":"output","Package":"a","Test":"TestTwo","Output":"    two_test.go:7: it is not\n"}
{"Action":"fail","Package":"a","Test":"TestTwo","Elapsed":0.1}
{"Action":"output","Package":"a","Test":"TestThree","Output":"    three_test.go:9: skipped: needs QEMU\n"}
{"Action":"skip","Package":"a","Test":"TestThree","Elapsed":0}
{"Action":"fail","Package":"a","Elapsed":1.25}
not an event
{"Action":"output","Package":"b","Test":"TestFour","Output":"        each.go:3: needs QEMU\n"}
{"Action":"skip","Package":"b","Test":"TestFour","Elapsed":0}
{"Action":"pass","Package":"b","Elapsed":2}
`
	var said bytes.Buffer
	x := newReport(&said, 2)
	if err := x.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	x.end(3 * time.Second)
	const want = `FAIL a TestTwo
    two_test.go:7: it is not
  1/2  FAIL     1.2 s  a
not an event
  2/2  ok       2.0 s  b
skipped 2: needs QEMU
    TestFour TestThree
FAILED after 3s: a
`
	if said.String() != want {
		t.Errorf("it says\n%s\nwanted\n%s", said.String(), want)
	}
}

// TestBrokenOff: where a package ends in the middle of tests, they and what they said are shown, and where a hang
// was ended so is where all stood, whichever test go test gives that to.
func TestBrokenOff(t *testing.T) {
	const events = `{"Action":"output","Package":"a","Test":"TestOne","Output":"    one_test.go:7: half way\n"}
{"Action":"output","Package":"a","Test":"TestTwo","Output":"--- PASS: TestTwo\n"}
{"Action":"output","Package":"a","Test":"TestLater","Output":"=== RUN   TestLater\n"}
{"Action":"output","Package":"a","Test":"TestLater","Output":"=== PAUSE TestLater\n"}
{"Action":"output","Package":"ab","Test":"TestOther","Output":"    other_test.go:7: goes on\n"}
{"Action":"output","Package":"a","Test":"TestTwo","Output":"panic: test timed out after 20m0s\n"}
{"Action":"output","Package":"a","Test":"TestTwo","Output":"\trunning tests:\n\t\tTestOne (20m0s)\n"}
{"Action":"pass","Package":"a","Test":"TestTwo","Elapsed":0}
{"Action":"output","Package":"a","Output":"FAIL\ta\t1200.1s\n"}
{"Action":"fail","Package":"a","Elapsed":1200.1}
`
	var said bytes.Buffer
	x := newReport(&said, 2)
	if err := x.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	const want = `panic: test timed out after 20m0s
	running tests:
		TestOne (20m0s)
FAIL	a	1200.1s
BROKEN OFF a TestOne
    one_test.go:7: half way
  1/2  FAIL  1200.1 s  a
`
	if said.String() != want {
		t.Errorf("it says\n%s\nwanted\n%s", said.String(), want)
	}
}

// TestDetectorEnds: a package is tested once more if nothing but the race detector ended in it.
func TestDetectorEnds(t *testing.T) {
	const (
		ends   = `{"Action":"output","Package":"a","Output":"ThreadSanitizer: CHECK failed: x\n"}` + "\n"
		test   = `{"Action":"fail","Package":"a","Test":"TestOne"}` + "\n"
		failed = `{"Action":"fail","Package":"a"}` + "\n"
		other  = `{"Action":"fail","Package":"b"}` + "\n"
	)
	for events, want := range map[string]string{
		ends + failed:         "a",
		ends + test + failed:  "",
		ends + failed + other: "",
		failed:                "",
	} {
		x := newReport(&bytes.Buffer{}, 1)
		if err := x.read(strings.NewReader(events)); err != nil {
			t.Fatal(err)
		}
		if got := x.died(0); got != want {
			t.Errorf("%q: %q is to be tested once more, wanted %q", events, got, want)
		}
	}
}

// TestFlags: what is before the first package are flags.
func TestFlags(t *testing.T) {
	got := flagsOf([]string{"-race", "-timeout", "40m", "./pkg/a", "./pkg/b"})
	if strings.Join(got, " ") != "-race -timeout 40m" {
		t.Errorf("flags are %q", got)
	}
}

// TestGrouped: packages without a flag are a run of their own, and what takes long begins.
func TestGrouped(t *testing.T) {
	flags, all := []string{"-race", "-v"}, []string{"a", "b", "c", "d"}
	got := grouped(flags, all, []string{"d", "b"}, "-race", []string{"b", "c"})
	want := []group{{[]string{"-race", "-v"}, []string{"d", "a"}}, {[]string{"-v"}, []string{"b", "c"}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(group{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := grouped(flags, all, nil, "", nil); len(got) != 1 || len(got[0].packages) != 4 {
		t.Errorf("without a flag to drop: %v", got)
	}
}

// TestForget: a package that the race detector ended counts once, by how it ended at last.
func TestForget(t *testing.T) {
	const (
		ends   = `{"Action":"output","Package":"a","Output":"ThreadSanitizer: CHECK failed: x\n"}` + "\n"
		failed = `{"Action":"fail","Package":"a"}` + "\n"
		passed = `{"Action":"pass","Package":"a"}` + "\n"
	)
	var said bytes.Buffer
	x := newReport(&said, 1)
	if err := x.read(strings.NewReader(ends + failed)); err != nil {
		t.Fatal(err)
	}
	x.forget(x.died(0))
	if err := x.read(strings.NewReader(passed)); err != nil {
		t.Fatal(err)
	}
	if len(x.bad) > 0 || x.done != 1 {
		t.Errorf("%v failed, %d packages done", x.bad, x.done)
	}
}

// TestWrapped: a long list is lines that fit.
func TestWrapped(t *testing.T) {
	words := strings.Fields(strings.Repeat("TestSomethingLong ", 20))
	got := wrapped(words)
	for line := range strings.Lines(got) {
		if n := len(strings.TrimRight(line, "\n")); n > columns || !strings.HasPrefix(line, "    Test") {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if len(strings.Fields(got)) != 20 {
		t.Errorf("words are lost: %q", got)
	}
}
