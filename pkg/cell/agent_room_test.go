// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/berth-project/berth/compute-agent/home"
)

// A hypervisor that finds no room, or a folder whose disk is not there yet, is opened again; any other fault ends the
// agent, and so does its own end.
func TestWithRoom(t *testing.T) { synctest.Test(t, testWithRoom) }

func testWithRoom(t *testing.T) {
	var c Cell
	said := ""
	c.Waiting = func(why string) { said = why }
	for full, want := range map[error]string{
		syscall.ENOSPC: "waiting for room on this host's disk: write .probe: ",
		syscall.EDQUOT: "waiting for room on this host's disk: write .probe: ",
		home.ErrAway:   "waiting for this host's machines: write .probe: ",
	} {
		n := 0
		got, err := withRoom(t.Context(), c, func(context.Context) (int, error) {
			if n++; n == 1 {
				return 0, &fs.PathError{Op: "write", Path: ".probe", Err: full}
			}
			return 7, nil
		})
		if got != 7 || err != nil || n != 2 {
			t.Errorf("%v: %d, %v, after %d tries", full, got, err, n)
		}
		if !strings.HasPrefix(said, want) {
			t.Errorf("%v: it says %q, want %q", full, said, want)
		}
	}
	broken := errors.New("broken")
	_, err := withRoom(t.Context(), c, func(context.Context) (int, error) { return 0, broken })
	if !errors.Is(err, broken) {
		t.Errorf("a fault of another kind is answered %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.Waiting = func(string) { cancel() }
	_, err = withRoom(ctx, c, func(context.Context) (int, error) { return 0, syscall.ENOSPC })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("told to end, it answers %v", err)
	}
}
