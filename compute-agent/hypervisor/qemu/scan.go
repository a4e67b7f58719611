// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/pkg/compute"
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

// processes are those that run in folders of ours.
func (d *Driver) processes() ([]host.Process, error) {
	all, err := d.host.Processes()
	return slices.DeleteFunc(all, func(p host.Process) bool { return !d.owns(p) }), err
}

// owns says whether a process is in a folder of ours, and its user one that a machine there runs as: anybody may begin
// a program with any arguments.
func (d *Driver) owns(p host.Process) bool {
	dir := filepath.Dir(p.Option("pidfile"))
	return filepath.Dir(dir) == d.o.Dir && (p.User == os.Geteuid() || p.User == ownerOf(dir) || d.mayRun(p.User, dir))
}

// ownerOf is the user that made a folder: the agent's, as it was then.
func ownerOf(dir string) int {
	if info, err := os.Lstat(dir); err == nil {
		if is, ok := info.Sys().(*syscall.Stat_t); ok {
			return int(is.Uid)
		}
	}
	return os.Geteuid()
}

// mayRun says whether a user is the one that the machine of a folder has to itself. Where it has no record that may be
// any, and List refuses the process (stray).
func (d *Driver) mayRun(user int, dir string) bool {
	id := compute.InstanceID(filepath.Base(dir))
	r, there, err := d.load(id)
	if err != nil || !there {
		return d.users.has(user) && !d.taken(user, id)
	}
	return r.Plan.User != 0 && r.Plan.User == user
}

// taken says whether another machine that has a record has a user to itself, or one whose record cannot be read may
// have: what such a user runs is that machine's, and says nothing of this one.
func (d *Driver) taken(user int, but compute.InstanceID) bool {
	ids, err := d.instances()
	return err != nil || slices.ContainsFunc(ids, func(id compute.InstanceID) bool {
		if id == but {
			return false
		}
		r, there, err := d.load(id)
		return err != nil || there && r.Plan.User == user
	})
}

// kill ends whatever runs in a folder and waits until it is dead.
func (d *Driver) kill(ctx context.Context, id compute.InstanceID) error {
	all, err := d.processes()
	if err != nil {
		return err
	}
	its := of(all, d.dir(id))
	r, there, unread := d.load(id)
	if unread == nil && there && r.PID != 0 && r.Boot == d.host.BootID() {
		// A guest that has got out of its QEMU may have written over the arguments, and closed the lock.
		its = append(its, host.Process{PID: r.PID, Start: r.Start})
	}
	for _, p := range its {
		if err := d.end(ctx, p, unix.SIGKILL); err != nil {
			return err
		}
	}
	// Of another range than now somebody else may have the user, for that range was not compared with the host's users.
	if user := r.Plan.User; unread == nil && there && d.users.has(user) {
		if err := d.endAll(ctx, user); err != nil {
			return err
		}
	}
	return awaitLock(ctx, d.dir(id))
}

// endAll ends all that a machine's user runs, until there is no more: the next machine gets that user, and what is left
// could reach its files.
func (d *Driver) endAll(ctx context.Context, user int) error {
	type identity struct {
		pid   int
		start uint64
	}
	ended := map[identity]bool{} // and perhaps not buried yet
	for {
		if err := hypervisor.Over(ctx); err != nil {
			return err
		}
		all, err := d.host.ProcessesOf(user)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(p host.Process) bool { return ended[identity{p.PID, p.Start}] })
		if len(all) == 0 {
			return nil
		}
		for _, p := range all {
			if err := d.end(ctx, p, unix.SIGKILL); err != nil {
				return err
			}
			ended[identity{p.PID, p.Start}] = true
		}
	}
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
