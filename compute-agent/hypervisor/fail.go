package hypervisor

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/berth-project/berth/pkg/compute"
)

// Refuse is the host's fault, or a call that does not fit the machine's state.
func Refuse(format string, args ...any) error {
	return &Error{Class: compute.FailureHost, Message: fmt.Sprintf(format, args...)}
}

// Reject is the request's own fault.
func Reject(format string, args ...any) error {
	return &Error{Class: compute.FailureRequest, Message: fmt.Sprintf(format, args...)}
}

// Classed gives an error of a call its class: the context's own if that ended,
// else what it has, else the host's fault.
func Classed(ctx context.Context, what string, err error) error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, ctx.Err())
	case errors.As(err, &e):
		return err
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		what += ": the disk is full: make room or set the host's DISK_GB lower"
	}
	return &Error{Class: compute.FailureHost, Message: what, Cause: err}
}
