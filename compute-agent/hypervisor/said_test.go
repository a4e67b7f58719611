// SPDX-License-Identifier: Apache-2.0

package hypervisor_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/berth-project/berth/compute-agent/hypervisor"
)

func TestSaid(t *testing.T) {
	var s hypervisor.Said
	for n := range 100_000 {
		if _, err := fmt.Fprintf(&s, "line %d\x1b[2J\n", n); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := s.Lines(), "line 99995 [2J / line 99996 [2J / line 99997 [2J / line 99998 [2J / line 99999 "+
		"[2J"; got != want {
		t.Errorf("kept is %q, want %q", got, want)
	}
	_, _ = s.Write([]byte(strings.Repeat("x", 10<<20)))
	if n := len(s.Lines()); n > 2<<10 {
		t.Errorf("%d bytes are kept of a long line", n)
	}
}

func TestBrief(t *testing.T) {
	if got := hypervisor.Brief("short"); got != "short" {
		t.Errorf("short is %q", got)
	}
	got := hypervisor.Brief("begin " + strings.Repeat("ä", 1<<20) + " end")
	if len(got) > 4<<10 || !utf8.ValidString(got) || !strings.HasPrefix(got, "begin ä") || !strings.HasSuffix(got,
		"ä end") {
		t.Errorf("%d bytes, valid: %t: %.20q", len(got), utf8.ValidString(got), got)
	}
}
