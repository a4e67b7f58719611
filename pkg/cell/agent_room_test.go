// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"testing"
)

// A hypervisor that finds no room is opened again; any other fault ends the agent, and so
// does its own end.
func TestWithRoom(t *testing.T) {
	var c Cell
	c.Waiting = func(string) {}
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
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
