package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// scan lists the QEMU processes of the host that this user may see.
func (d *Driver) scan() ([]process, error) {
	entries, err := os.ReadDir(d.proc)
	if err != nil {
		return nil, err
	}
	var all []process
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, ok := d.look(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all, nil
}

// look reads one process; false if it is none of QEMU, or is no more.
func (d *Driver) look(pid int) (process, bool) {
	read := func(name string) []byte {
		b, _ := os.ReadFile(filepath.Join(d.proc, strconv.Itoa(pid), name))
		return b
	}
	p := process{pid: pid, args: splitArgs(read("cmdline"))}
	if !isQEMU(p.args) {
		return p, false
	}
	var err error
	p.start, err = startTime(read("stat"))
	return p, err == nil
}

// in says whether a process is the one of a machine's folder.
func (p process) in(dir string) bool { return option(p.args, "pidfile") == filepath.Join(dir, pidFile) }

// of finds the processes of a folder: one, none, or at most in a crash two of
// which one is about to find the lock taken.
func of(all []process, dir string) []process {
	var found []process
	for _, p := range all {
		if p.in(dir) {
			found = append(found, p)
		}
	}
	return found
}

// kill ends whatever runs in a folder and waits until it is dead.
func (d *Driver) kill(ctx context.Context, dir string) error {
	all, err := d.scan()
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
		if !pause(waiting, 10*time.Millisecond) {
			return errors.Join(ctx.Err(), fmt.Errorf("%s is locked by a process that cannot be seen: run the agent as the same user as before, without ProtectProc", dir))
		}
	}
}

// lockIsFree says whether no process holds a folder's lock.
func lockIsFree(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, lockFile))
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

// bootID changes with each start of the host.
func (d *Driver) bootID() string {
	b, _ := os.ReadFile(filepath.Join(d.proc, "sys/kernel/random/boot_id"))
	return strings.TrimSpace(string(b))
}

// pause waits a little, or until ctx ends.
func pause(ctx context.Context, long time.Duration) bool {
	t := time.NewTimer(long)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
