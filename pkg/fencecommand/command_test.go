// SPDX-License-Identifier: Apache-2.0

package fencecommand

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

func shell(script string) []string { return []string{"sh", "-c", script, "fence"} }

func TestExitsWithZero(t *testing.T) {
	c := Command{Args: shell(`test "$1" = host-17 && test "$BERTH_HOST" = host-17`)}
	for range 2 { // the arguments stay as they were
		if err := c.Fence(t.Context(), "host-17"); err != nil {
			t.Error(err)
		}
	}
	if err := c.Fence(t.Context(), "host-18"); err == nil {
		t.Error("another host is dead, too")
	}
}

func TestWhatItSaidIsInTheError(t *testing.T) {
	script := `for i in 1 2 3 4 5 6 7; do echo "line $i"; done; head -c 100000 /dev/zero | tr '\0' x; echo; ` +
		`echo no power >&2; exit 3`
	err := Command{Args: shell(script)}.Fence(t.Context(), "host-17")
	if compute.KindOf(err) != compute.KindConflict || len(err.Error()) > 4<<10 {
		t.Fatalf("%d bytes: %v", len(err.Error()), err)
	}
	for _, want := range []string{"host-17", "exit status 3", "no power", "--fenced"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "line 1") {
		t.Errorf("more than the last lines: %v", err)
	}
}

func TestOneThatNeverEndsIsKilled(t *testing.T) {
	err := Command{Args: shell(`echo asks the switch; sleep 600 & sleep 600`), Timeout: time.Second}.Fence(
		t.Context(), "host-17",
	)
	if err == nil || !strings.Contains(err.Error(), "within 1s") || !strings.Contains(err.Error(), "asks the switch") {
		t.Errorf("answers %v", err)
	}
}

func TestNoSuchProgram(t *testing.T) {
	if err := (Command{Args: []string{"/nowhere/fence"}}).Fence(t.Context(), "host-17"); err == nil ||
		!strings.Contains(err.Error(), "/nowhere/fence") {
		t.Errorf("answers %v", err)
	}
}
