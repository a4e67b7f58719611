// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/compute-agent/hypervisor/host"
)

// end sends a signal to one process and waits until it is dead; signal 0 waits
// alone. The pid may be somebody else's by now: the handle is taken first, and
// then it is looked at again.
func (d *Driver) end(ctx context.Context, p host.Process, signal unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", p.PID, err)
	}
	defer unix.Close(fd)
	now, ok, err := d.host.Identify(p.PID)
	if err != nil {
		return fmt.Errorf("process %d: %w", p.PID, err)
	}
	if !ok || now.Start != p.Start {
		return nil
	}
	if signal != 0 {
		if err := unix.PidfdSendSignal(fd, signal, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("process %d: %w", p.PID, err)
		}
	}
	for ctx.Err() == nil {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 50)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return ctx.Err()
}
