// SPDX-License-Identifier: Apache-2.0

//go:build linux

package libvirt

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/compute-agent/hypervisor/hypervisortest"
)

// daemon is a libvirtd of the test's own: a session's, with all its folders below
// one that goes with the test. Root has no sessions, so there it runs in a user
// namespace in which root is somebody else: nothing of it is where the
// host's own libvirtd is.
type daemon struct {
	t       *testing.T
	program string
	root    string
	cmd     *exec.Cmd
	buried  chan struct{}
	cache   string // where it keeps what it knows of QEMU
	path    string // where it looks for programs
}

// need gives the program, or ends the test.
func need(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("libvirtd")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/libvirtd")
	}
	if _, no := exec.LookPath("virsh"); no != nil {
		err = errors.Join(err, no)
	}
	if _, no := exec.LookPath("qemu-system-x86_64"); no != nil {
		err = errors.Join(err, no)
	}
	found := false
	for _, dir := range []string{"/usr/lib", "/usr/lib64", "/usr/lib/*"} {
		modules, _ := filepath.Glob(dir + "/libvirt/connection-driver/libvirt_driver_qemu.so")
		found = found || len(modules) > 0
	}
	if !found {
		err = errors.Join(err, errors.New("no libvirt_driver_qemu.so"))
	}
	if err != nil {
		if os.Getenv("BERTH_REQUIRE_LIBVIRT") == "1" {
			t.Fatalf("BERTH_REQUIRE_LIBVIRT=1 and there is no libvirt: %v", err)
		}
		t.Skipf(
			"skipped: needs libvirt (Debian: libvirt-daemon, libvirt-daemon-driver-qemu, libvirt-clients): %v", err,
		)
	}
	return path
}

func newDaemon(t *testing.T) *daemon {
	t.Helper()
	d := unstarted(t)
	d.start()
	return d
}

// unstarted is one that does not run yet.
func unstarted(t *testing.T) *daemon {
	t.Helper()
	program := need(t)
	root, err := os.MkdirTemp("", "bl") // t.TempDir is too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, program: program, root: root, cache: cache(t), path: os.Getenv("PATH")}
	for name, text := range map[string]string{
		"c/libvirt/libvirtd.conf": "log_outputs = \"3:stderr\"\n",
		"c/libvirt/qemu.conf": "security_driver = \"none\"\nnamespaces = []\n" +
			"cgroup_controllers = []\nremember_owner = 0\n",
		"r/none": "", // only for its folder
	} {
		file := filepath.Join(root, name)
		d.ok(os.MkdirAll(filepath.Dir(file), 0o700))
		d.ok(os.WriteFile(file, []byte(text), 0o600))
	}
	d.ok(os.WriteFile(filepath.Join(root, "none"), nil, 0))
	t.Cleanup(func() {
		d.stop()
		d.kill(root + "/") // QEMUs and virtlogd
		d.ok(os.RemoveAll(root))
	})
	d.ok(buryOrphans())
	return d
}

func (d *daemon) ok(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *daemon) socket() string { return filepath.Join(d.root, "r/libvirt/libvirt-sock") }

func (d *daemon) log() string { return filepath.Join(d.root, "log") }

// said is what libvirtd has printed.
func (d *daemon) said() string {
	said, _ := os.ReadFile(d.log())
	return string(said)
}

// withoutKVM runs libvirtd with an unreadable file in place of /dev/kvm, in its own mount namespace: on some hosts QEMU
// hangs when it uses KVM, and libvirt runs QEMU to learn what it can do.
const withoutKVM = `
[ ! -e /dev/kvm ] || mount --bind "$1" /dev/kvm
exec setpriv --ambient-caps=-all --inh-caps=-all "$0"`

// start returns when it answers.
func (d *daemon) start() {
	d.t.Helper()
	in := func(name string) string { return filepath.Join(d.root, name) }
	d.cmd = exec.Command(d.program)
	if os.Getuid() == 0 {
		d.cmd = exec.Command("/bin/sh", "-c", withoutKVM, d.program, in("none"))
		somebody := []syscall.SysProcIDMap{{ContainerID: 1000, HostID: 0, Size: 1}}
		d.cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: somebody, GidMappings: somebody,
			AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN}, // for withoutKVM
		}
	}
	d.cmd.Env = append(
		os.Environ(), "HOME="+d.root, "XDG_CONFIG_HOME="+in("c"), "XDG_RUNTIME_DIR="+in("r"),
		"XDG_DATA_HOME="+in("d"), "XDG_CACHE_HOME="+d.cache,
		"PATH="+d.path,
	)
	log, err := os.OpenFile(d.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	d.ok(err)
	defer log.Close()
	d.cmd.Stdout, d.cmd.Stderr = log, log
	if err = d.cmd.Start(); err != nil {
		if os.Getenv("BERTH_REQUIRE_LIBVIRT") == "1" || !errors.Is(err, syscall.EPERM) {
			d.t.Fatal(err)
		}
		d.t.Skipf("skipped: root needs a user namespace for a libvirtd of its own: %v", err)
	}
	d.buried = make(chan struct{})
	go func(cmd *exec.Cmd, buried chan struct{}) { _ = cmd.Wait(); close(buried) }(d.cmd, d.buried)
	hypervisortest.Await(d.t, "libvirtd to answer", func() bool {
		select {
		case <-d.buried:
			d.t.Fatalf("libvirtd ended: %s", d.said())
		default:
		}
		c, err := net.Dial("unix", d.socket())
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// stop kills it and waits for its end; what it has started goes on.
func (d *daemon) stop() {
	d.t.Helper()
	if d.buried == nil {
		return // it never ran
	}
	_ = d.cmd.Process.Kill()
	hypervisortest.Receive(d.t, "libvirtd's end", d.buried)
}

// virsh is what an operator does by hand.
func (d *daemon) virsh(args ...string) string {
	d.t.Helper()
	ctx, cancel := hypervisortest.Waiting(d.t)
	defer cancel()
	out, err := exec.CommandContext(
		ctx, "virsh", append([]string{"-c", "qemu:///session?socket=" + d.socket()}, args...)...,
	).CombinedOutput()
	if err != nil {
		d.t.Fatalf("virsh %v: %v: %s; libvirtd said %s", args, errors.Join(err, ctx.Err()), out, d.said())
	}
	return string(out)
}

// processes are those with all of this in their command line or environment, except the
// test itself.
func processes(with []string) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		env, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		lacks := func(text string) bool {
			return !bytes.Contains(line, []byte(text)) && !bytes.Contains(env, []byte(text))
		}
		if len(line) > 0 && !slices.ContainsFunc(with, lacks) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// kill ends such processes and waits until they are gone.
func (d *daemon) kill(with ...string) {
	d.t.Helper()
	hypervisortest.Await(d.t, "the end of processes", func() bool {
		pids := processes(with)
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(pids) == 0
	})
}

// freeze makes it silent.
func (d *daemon) freeze() { d.ok(d.cmd.Process.Signal(syscall.SIGSTOP)) }

func (d *daemon) thaw() { d.ok(d.cmd.Process.Signal(syscall.SIGCONT)) }
