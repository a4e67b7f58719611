// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
)

// in says whether a process is the one of a machine's folder.
func in(p host.Process, dir string) bool { return p.Option("pidfile") == filepath.Join(dir, pidFile) }

// of finds the processes of a folder: one, none, or at most in a crash two of
// which one is about to find the lock taken.
func of(all []host.Process, dir string) []host.Process {
	var found []host.Process
	for _, p := range all {
		if in(p, dir) {
			found = append(found, p)
		}
	}
	return found
}

// kill ends whatever runs in a folder and waits until it is dead.
func (d *Driver) kill(ctx context.Context, dir string) error {
	all, err := d.host.Processes()
	if err != nil {
		return err
	}
	for _, p := range of(all, dir) {
		if err := d.end(ctx, p, unix.SIGKILL); err != nil {
			return err
		}
	}
	return awaitLock(ctx, dir)
}

// dyingTime is how long a process that cannot be seen any more may hold its lock:
// a process that ends loses its command line first and its files later.
const dyingTime = 10 * time.Second

// awaitLock waits until no process holds a folder's lock.
func awaitLock(ctx context.Context, dir string) error {
	waiting, cancel := context.WithTimeout(ctx, dyingTime)
	defer cancel()
	for {
		free, err := lockIsFree(dir)
		if err != nil || free {
			return err
		}
		if !hypervisor.Pause(waiting, 10*time.Millisecond) {
			return errors.Join(
				ctx.Err(),
				fmt.Errorf(
					"%s is locked by a process that cannot be seen: run the agent as the same user as before, "+
						"without ProtectProc",
					dir,
				),
			)
		}
	}
}

// lockIsFree says whether no process holds a folder's lock.
func lockIsFree(dir string) (bool, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0) // NFS locks no file that is opened to read alone
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
