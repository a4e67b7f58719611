package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
)

// host.a_b cannot be made where host.a.b is: the host would be listed as enabled
// and never hear a word.
func TestHostNamesWhereAnAgentStarts(t *testing.T) {
	s := defaultAgentConfig()
	s.State = t.TempDir()
	check := func(host compute.HostID) error { s.Host = host; return s.check() }
	for _, good := range []compute.HostID{"a", "a.b", "a-b", "rack-1.host-02"} {
		if err := check(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []compute.HostID{"a_b", "A", "a..b", "-a", ""} {
		err := check(bad)
		if compute.KindOf(err) != compute.KindInvalid || !strings.Contains(fmt.Sprint(err), `host "`+string(bad)+`" is not valid; use 1 to 64`) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if err := os.WriteFile(cell.JournalFile(s.State, "a_b"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := check("a_b"); err != nil {
		t.Errorf("a host that has worked under its name: %v", err)
	}
	if err := check("c_d"); err == nil {
		t.Error("c_d is let in by the journal of a_b")
	}
}
