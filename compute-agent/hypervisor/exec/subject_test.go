// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/hypervisortest"
	"github.com/berth-project/berth/pkg/compute"
)

const inventoryFile = `{"version":1,"totals":{"VCPU":64,"MEMORY_MB":262144,"DISK_GB":1000,"CUSTOM_BAREMETAL":1},` +
	`"traits":["CUSTOM_B","CUSTOM_A"]}`

var some = compute.Resources{compute.VCPU: 2, compute.MemoryMB: 1024, compute.DiskGB: 10}

// bench is an empty folder for the sample's machines.
type bench struct {
	t    *testing.T
	dir  string
	runs map[compute.InstanceID]int // of those that were awaited
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, dir: t.TempDir(), runs: map[compute.InstanceID]int{}}
	b.ok(os.WriteFile(filepath.Join(b.dir, "inventory.json"), []byte(inventoryFile), 0o600))
	t.Cleanup(func() {
		for _, p := range b.processes("") {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	})
	return b
}

func (b *bench) ok(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// sample is the sample's path, or that of a copy with a line more behind the
// first one that has this text.
func (b *bench) sample(behind, line string) string {
	b.t.Helper()
	path, err := filepath.Abs("../../../deploy/exec/machines.sh")
	b.ok(err)
	if behind == "" {
		return path
	}
	text, err := os.ReadFile(path)
	b.ok(err)
	before, after, ok := strings.Cut(string(text), behind)
	rest, next, _ := strings.Cut(after, "\n")
	if !ok {
		b.t.Fatalf("the sample has no %q any more", behind)
	}
	return script(b.t, before+behind+rest+"\n"+line+"\n"+next)
}

// script is a program with this text.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	// By its own process, for a program that any process of ours has open for
	// writing cannot be run, and a fork elsewhere would keep it open.
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func (b *bench) open(program string) *Driver {
	b.t.Helper()
	d, err := open(b.t.Context(), Options{Command: []string{program, b.dir}, Timeout: time.Minute})
	b.ok(err)
	d.lingers = time.Minute // of a machine that stands still
	return d
}

func (b *bench) subject() hypervisortest.Subject {
	return hypervisortest.Subject{
		Driver:   b.open(b.sample("", "")).whole(),
		Reopen:   func() hypervisor.Driver { return b.open(b.sample("", "")).whole() },
		Launches: b.launches, Left: b.left, Resources: some, Image: "tiny",
		Broken: b.broken(), Crashes: b.crashes(), Kill: b.kill,
		Foreign:   func() (compute.Resources, func() bool) { b.t.Fatal("the sample sees none"); return nil, nil },
		Listening: func(*hypervisor.Spec) {}, Deaf: func(s *hypervisor.Spec) { s.Image = "deaf" },
		Goodbye: "the guest shut down", Up: b.up,
	}
}

// process is one of the sample's machines, or about to be one.
type process struct {
	pid   int
	guest bool
}

// processes are those of an instance, or of all; dead ones are left out.
func (b *bench) processes(id compute.InstanceID) (all []process) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	b.ok(err)
	for _, file := range files {
		cmdline, _ := os.ReadFile(file) // none of a zombie's
		args := strings.Split(string(cmdline), "\x00")
		for i := range args {
			if args[i] == b.dir && i+2 < len(args) && (args[i+1] == "guest" || args[i+1] == "process") &&
				strings.HasPrefix(args[i+2], string(id)) {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				all = append(all, process{pid, args[i+1] == "guest"})
			}
		}
	}
	return all
}

// launches counts the guests, once those are that have begun to become one. A
// guest begins no other process, which would look like a second one until it is
// the other program.
func (b *bench) launches(id compute.InstanceID) (n int) {
	b.await("guests, and nothing else", func() bool {
		n = 0
		all := b.processes(id)
		for _, p := range all {
			if p.guest {
				n++
			}
		}
		return n == len(all)
	})
	return n
}

func (b *bench) left() (left []string) {
	b.await("the end of what cannot be a guest", func() bool {
		for _, p := range b.processes("") {
			if !p.guest {
				return false
			}
		}
		return true
	})
	for _, p := range b.processes("") {
		left = append(left, fmt.Sprint("process ", p.pid))
	}
	entries, err := os.ReadDir(b.dir)
	b.ok(err)
	for _, e := range entries {
		if e.Name() != "inventory.json" {
			left = append(left, e.Name())
		}
	}
	return left
}

func (b *bench) kill(id compute.InstanceID) {
	for _, p := range b.processes(id) {
		b.ok(syscall.Kill(p.pid, syscall.SIGKILL))
	}
	b.await("its death", func() bool { return len(b.processes(id)) == 0 })
}

// up waits until a guest has said once more that it runs.
func (b *bench) up(id compute.InstanceID) {
	b.runs[id]++
	b.await("a guest that says that it runs", func() bool {
		printed, _ := os.ReadFile(filepath.Join(b.dir, string(id), "console"))
		return strings.Count(string(printed), "run ") >= b.runs[id]
	})
}

// await looks until it is so.
func (b *bench) await(what string, so func() bool) {
	b.t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	lost := time.After(time.Minute)
	for !so() {
		select {
		case <-look.C:
		case <-lost:
			b.t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (b *bench) broken() []hypervisortest.Breakage {
	spoil := func(name string, class compute.FailureClass, how func(*hypervisor.Spec)) hypervisortest.Breakage {
		return hypervisortest.Breakage{
			Name: name, Class: class, Break: func(s *hypervisor.Spec) func() { how(s); return func() {} },
		}
	}
	return []hypervisortest.Breakage{
		spoil("no such image", compute.FailureRequest, func(s *hypervisor.Spec) { s.Image = "none" }),
		spoil("image of two words", compute.FailureRequest, func(s *hypervisor.Spec) { s.Image = "tiny deaf" }),
		spoil(
			"image that looks like the end of a field", compute.FailureRequest,
			func(s *hypervisor.Spec) { s.Image = `","image":"tiny` },
		),
		spoil(
			"image for a shell", compute.FailureRequest,
			func(s *hypervisor.Spec) { s.Image = "$(touch " + b.dir + "/oops);`id`\n*" },
		),
		spoil(
			"device", compute.FailureHost,
			func(s *hypervisor.Spec) { s.Devices = []compute.PCIAddress{"0000:fe:1f.7"} },
		),
		spoil("id that is a path", compute.FailureRequest, func(s *hypervisor.Spec) { s.Instance = "../etc" }),
	}
}

// crashes are moments of the agent's and, since it may take the command with it,
// of the command's and of the machine's process.
func (b *bench) crashes() (all []hypervisortest.Crash) {
	dies := func(name, moment, behind string) {
		all = append(all, hypervisortest.Crash{Name: name, Driver: func() hypervisor.Driver {
			d := b.open(b.sample(behind, "kill -s KILL $$"))
			d.crash = hypervisortest.DieAt(moment)
			return d
		}})
	}
	dies("prepared and not looked", "prepared", "")
	dies("launched and not looked", "launched", "")
	dies("folder and nothing in it", "prepared", `mkdir "$home"`)
	dies("machine half written", "prepared", `>"$home/.machine"`)
	dies("machine listed", "prepared", `mv "$home/.machine"`)
	dies("all but the mark", "prepared", `sync "$home/machine"`)
	dies("before the process", "launched", `cd "$home"`)
	dies("between process and record", "launched", `setsid "$0" "$dir" process`)
	dies("process without a record", "launched", `echo "$$ $(born $$)"`)
	return all
}
