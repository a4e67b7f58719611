// SPDX-License-Identifier: Apache-2.0

// Package host says what this host has and which QEMU processes are on it, as the
// kernel's files show it.
package host

import (
	"errors"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/pkg/compute"
)

// Host is where the kernel's files are. A test looks elsewhere.
type Host struct {
	Proc string // "/proc"
	Sys  string // "/sys"
	// Room says how many bytes a folder's file system has.
	Room func(dir string) (free, total int64, err error)
}

// This is the host that the process is on.
func This() Host { return Host{Proc: "/proc", Sys: "/sys", Room: room} }

func room(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	err = unix.Statfs(dir, &s)
	return bytesOf(s.Bavail, int64(s.Bsize)), bytesOf(s.Blocks, int64(s.Bsize)), err
}

// endless is what a file system has that says it has more, as one of another machine may: half of what can be counted,
// so that what machines have is added to it.
const endless = 1 << 62

// bytesOf is how many bytes blocks have, at most endless.
func bytesOf(blocks uint64, size int64) int64 {
	if over, n := bits.Mul64(blocks, uint64(size)); over == 0 && n < endless {
		return int64(n)
	}
	return endless
}

// Processes lists the QEMU processes of the host that this user may see. If one that it may see cannot be read though
// it is there, there is no list: a machine that is left out of one is taken for dead.
func (h Host) Processes() ([]Process, error) { return h.list(h.Inspect) }

// ProcessesOf lists all that a user runs.
func (h Host) ProcessesOf(user int) ([]Process, error) {
	return h.list(func(pid int) (Process, bool, error) {
		p, there, err := h.Identify(pid)
		return p, there && p.User == user, err
	})
}

func (h Host) list(inspect func(pid int) (Process, bool, error)) ([]Process, error) {
	entries, err := os.ReadDir(h.Proc)
	if err != nil {
		return nil, err
	}
	var all []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, ok, err := inspect(pid)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, p)
		}
	}
	return all, nil
}

// Inspect reads one process; false if it is none of QEMU, or is no more. With an error it is not known.
func (h Host) Inspect(pid int) (Process, bool, error) { return h.inspect(pid, isQEMU) }

// Identify is Inspect of any process, for one may call itself anything. One that is dead and not yet buried is there.
func (h Host) Identify(pid int) (Process, bool, error) {
	return h.inspect(pid, func([]string) bool { return true })
}

func (h Host) inspect(pid int, wanted func(args []string) bool) (Process, bool, error) {
	var failed error
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(h.Proc, strconv.Itoa(pid), name))
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) && !errors.Is(err, fs.ErrPermission) {
			failed = errors.Join(failed, err)
		}
		return b
	}
	p := Process{PID: pid, Args: splitArgs(read("cmdline"))}
	if !wanted(p.Args) {
		return p, false, failed
	}
	stat, status := read("stat"), read("status")
	if failed != nil || len(stat) == 0 || len(status) == 0 {
		return p, false, failed
	}
	start, err := startTime(stat)
	user, unknown := realUser(status)
	p.Start, p.User, err = start, user, errors.Join(err, unknown)
	return p, err == nil, err
}

// BootID changes with each start of the host.
func (h Host) BootID() string {
	b, _ := os.ReadFile(filepath.Join(h.Proc, "sys/kernel/random/boot_id"))
	return strings.TrimSpace(string(b))
}

// MemoryMB is the host's memory; 0 if it does not say.
func (h Host) MemoryMB() int64 {
	b, _ := os.ReadFile(filepath.Join(h.Proc, "meminfo"))
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kb / 1024
		}
	}
	return 0
}

// flags are the processor's abilities that are worth a trait.
func flags() []string {
	return []string{"aes", "avx", "avx2", "avx512f", "bmi2", "fma", "sha_ni", "sse4_2", "svm", "vmx"}
}

// Traits are what guests find: the host's processor under KVM, an emulated one
// otherwise.
func (h Host) Traits(accel string) []compute.Trait {
	if accel != "kvm" {
		return []compute.Trait{"ACCEL_TCG"}
	}
	has := []compute.Trait{"ACCEL_KVM"}
	b, _ := os.ReadFile(filepath.Join(h.Proc, "cpuinfo"))
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) != "flags" {
			continue
		}
		there := strings.Fields(value)
		for _, f := range flags() {
			if slices.Contains(there, f) {
				has = append(has, compute.Trait("CPU_"+strings.ToUpper(f)))
			}
		}
		break
	}
	return has
}
