// SPDX-License-Identifier: Apache-2.0

package hypervisor

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-project/berth/pkg/compute"
)

// Refuse is the host's fault, or a call that does not fit the machine's state.
func Refuse(format string, args ...any) error {
	return &Error{Class: compute.FailureHost, Message: fmt.Sprintf(format, args...)}
}

// RefuseImage is the fault of an image as it lies on this host.
func RefuseImage(format string, args ...any) error {
	return &Error{Class: compute.FailureHost, Message: fmt.Sprintf(format, args...), Image: true}
}

// OfImage says whether an error is the fault of an image as it lies on a host.
func OfImage(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Class == compute.FailureHost && e.Image
}

// Reject is the request's own fault.
func Reject(format string, args ...any) error {
	return &Error{Class: compute.FailureRequest, Message: fmt.Sprintf(format, args...)}
}

// Classed gives an error of a call its class: the context's own if that ended,
// else what it has, else the host's fault.
func Classed(ctx context.Context, what string, err error) error {
	var e *Error
	over := Over(ctx)
	switch {
	case err == nil:
		return nil
	case over != nil:
		return fmt.Errorf("%s: %w", what, over)
	case errors.As(err, &e):
		return err
	case compute.DiskFull(err):
		what += ": the disk is full: make room or set the host's DISK_GB lower"
	}
	return &Error{Class: compute.FailureHost, Message: what, Cause: err}
}
