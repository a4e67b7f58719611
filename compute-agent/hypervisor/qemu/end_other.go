// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package qemu

import (
	"context"
	"errors"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/compute-agent/hypervisor/host"
)

// end is for hosts. Elsewhere Berth is a client, and has no /proc to find a
// process in.
func (d *Driver) end(context.Context, host.Process, unix.Signal) error {
	return errLinux
}

var errLinux = errors.New("machines run on QEMU on Linux alone")

func startOn(*exec.Cmd, []int) error { return errLinux }
