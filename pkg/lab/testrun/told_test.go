// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestTold: of what go test says, failures are shown at once with all that they said, packages as
// they end, and skipped tests at the end with why.
func TestTold(t *testing.T) {
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
{"Action":"output","Package":"b","Test":"TestFour","Output":"    four_test.go:3: needs QEMU\n"}
{"Action":"skip","Package":"b","Test":"TestFour","Elapsed":0}
{"Action":"pass","Package":"b","Elapsed":2}
`
	var said bytes.Buffer
	x := newTold(&said, 2)
	if err := x.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	x.end(3 * time.Second)
	const want = `FAIL a TestTwo
    two_test.go:7: it is not
  1/2  FAIL     1.2 s  a
not an event
  2/2  ok       2.0 s  b
skipped: needs QEMU: TestThree, TestFour
FAILED after 3s: a
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
		x := newTold(&bytes.Buffer{}, 1)
		if err := x.read(strings.NewReader(events)); err != nil {
			t.Fatal(err)
		}
		if got := x.died(); got != want {
			t.Errorf("%q: %q is to be tested once more, wanted %q", events, got, want)
		}
	}
}

// TestFlags: what is before the first package are flags.
func TestFlags(t *testing.T) {
	got := flags([]string{"-race", "-timeout", "40m", "./pkg/a", "./pkg/b"})
	if strings.Join(got, " ") != "-race -timeout 40m" {
		t.Errorf("flags are %q", got)
	}
}
