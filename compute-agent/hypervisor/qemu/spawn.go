// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/qemu/qmp"
	"github.com/berth-project/berth/pkg/compute"
)

// errAlive is what spawn answers where a process holds the machine's lock.
var errAlive = errors.New("its process lives already")

// spawn starts a machine's process with its processors stopped, and returns when it answers. The process inherits the
// lock and keeps it until it is dead, whichever process started it, so that there can be no second one. After any
// other error than errAlive there is no process, or one that is about to die.
func (d *Driver) spawn(ctx context.Context, p plan) (host.Process, error) {
	dir := d.dir(p.ID)
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return host.Process{}, err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errAlive
		}
		return host.Process{}, err
	}
	cmd, err := d.begin(p, dir, lock)
	if err != nil {
		return host.Process{}, err
	}
	ended := make(chan struct{})
	// Somebody has to bury it. This ends with the process; if the agent ends
	// before, init does it.
	go func() { _ = cmd.Wait(); close(ended) }()
	answered := greet(ctx, dir, ended)
	why := answered
	if answered == nil {
		var found host.Process
		if found, why = d.seen(cmd.Process.Pid); why == nil {
			return found, nil
		}
	}
	byItself := false
	select {
	case <-ended:
		byItself = true
	default:
	}
	_ = cmd.Process.Kill()
	select {
	case <-ended:
	case <-time.After(dyingTime):
		return host.Process{}, fmt.Errorf("process %d was killed and does not die, as where its disk hangs: %w",
			cmd.Process.Pid, why)
	}
	if last := lastLine(filepath.Join(dir, logFile)); (answered != nil || byItself) && ctx.Err() == nil && last != "" {
		why = fmt.Errorf("QEMU says: %s", last)
	}
	return host.Process{}, why
}

// seen is the process that answered, as it will be found from now on.
func (d *Driver) seen(pid int) (host.Process, error) {
	p, ok, err := d.host.Inspect(pid)
	switch {
	case err != nil:
		err = fmt.Errorf("process %d: %w", pid, err)
	case !ok:
		err = fmt.Errorf("QEMU answered as process %d, and /proc shows no QEMU there: name the program itself in "+
			"driver.qemu.binary, and run the agent without ProtectProc", pid)
	}
	return p, err
}

// begin runs QEMU in a session of its own. The QMP socket is ours, and is there before QEMU is: a client that
// connects is answered as soon as QEMU can.
func (d *Driver) begin(p plan, dir string, lock *os.File) (*exec.Cmd, error) {
	path := filepath.Join(dir, socketFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	defer listener.Close()
	socket, err := listener.File()
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	log, err := os.OpenFile(filepath.Join(dir, logFile), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(d.o.Binary, d.asNow(p).args(dir)...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log // files, for a pipe would break with the agent
	cmd.ExtraFiles = []*os.File{lockFD - 3: lock, socketFD - 3: socket}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: p.as()}
	if err := p.give(dir); err != nil {
		return nil, err
	}
	cpus, err := d.host.CPUs(p.Nodes)
	if err != nil {
		return nil, err
	}
	return cmd, startOn(cmd, cpus, !strings.HasPrefix(p.Network, "bridge:")) // the helper of a bridge has to gain some
}

// asNow is a plan as the operator and the host have it now: whether user networking is open is no affair of the
// machine's, nor is whether the probe of KVM came through when it was made.
func (d *Driver) asNow(p plan) plan {
	user := func(network string) bool { return network == host.NetworkUser || network == host.NetworkOpen }
	if user(p.Network) && user(d.o.Network) {
		p.Network = d.o.Network
	}
	if d.accel == "kvm" {
		p.Accel = d.accel
	}
	return p
}

// closes is how a machine's user networking is closed; see asNow.
func (d *Driver) closes() string {
	if d.o.Network == host.NetworkUser {
		return "stop and start them"
	}
	return "boot others in their place, and delete them"
}

// greet waits until QEMU answers on its socket, or has ended.
func greet(ctx context.Context, dir string, ended <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-ended:
			cancel(errors.New("QEMU ended at once"))
		case <-ctx.Done():
		}
	}()
	c, err := qmp.Dial(ctx, filepath.Join(dir, socketFile))
	if err == nil {
		c.Close()
	}
	return err
}

// What is kept of qemu.log, and of it in a message.
const (
	logBytes  = 64 << 10
	lineBytes = 500
)

// lastLine is the last that a program complained with, warnings left out.
func lastLine(file string) string {
	last := ""
	for line := range strings.Lines(string(end(file, logBytes))) {
		if line = hypervisor.Printable(line); line != "" && !strings.Contains(line, "warning:") {
			last = line
		}
	}
	return strings.ToValidUTF8(last[:min(len(last), lineBytes)], "")
}

// end reads the last bytes of a file; none if it cannot be read.
func end(file string, most int64) []byte {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	b, _ := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-most), most))
	return b
}

// cutLog begins qemu.log anew where it has grown too long, for a guest may have QEMU complain as often as it likes. The
// end of what was there stays; QEMU writes at the end, wherever that is. List and Events may be here at once.
func (d *Driver) cutLog(dir string) error {
	d.cutting.Lock()
	defer d.cutting.Unlock()
	file, old := filepath.Join(dir, logFile), filepath.Join(dir, oldLogFile)
	info, err := os.Stat(file)
	if err != nil || info.Size() <= 2*logBytes {
		return nil
	}
	kept, next := end(file, logBytes), old+".new"
	err = os.WriteFile(next, kept, 0o600)
	if compute.DiskFull(err) { // it may be this log that fills it
		err = errors.Join(os.Truncate(file, 0), os.WriteFile(next, kept, 0o600))
	}
	if err != nil {
		_ = os.Remove(next)
		return err
	}
	return errors.Join(os.Rename(next, old), os.Truncate(file, 0))
}
