// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
)

// The last dial is often cut off by our own time: it does not hide why those
// before it failed.
func TestWhyNobodyAnswers(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	timeUp := &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
	next := []error{timeUp, refused, timeUp}
	d := &dialed{open: func(context.Context, string, string) (net.Conn, error) {
		err := next[0]
		next = next[1:]
		return nil, err
	}}
	for i, want := range []error{timeUp, refused, refused} {
		_, _ = d.dial(t.Context(), "tcp", "broker:9092")
		if got := d.last(); !errors.Is(got, want) {
			t.Errorf("after dial %d: %v, want %v", i+1, got, want)
		}
	}
}
