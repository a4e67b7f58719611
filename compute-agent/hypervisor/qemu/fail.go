package qemu

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// refuse is the host's fault, or a call that does not fit the machine's state.
func refuse(format string, args ...any) error {
	return &hypervisor.Error{Class: compute.FailureHost, Message: fmt.Sprintf(format, args...)}
}

// reject is the request's own fault.
func reject(format string, args ...any) error {
	return &hypervisor.Error{Class: compute.FailureRequest, Message: fmt.Sprintf(format, args...)}
}

// classed gives an error of a call its class: the context's own if that ended,
// else what it has, else the host's fault.
func classed(ctx context.Context, what string, err error) error {
	var e *hypervisor.Error
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
	return &hypervisor.Error{Class: compute.FailureHost, Message: what, Cause: err}
}
