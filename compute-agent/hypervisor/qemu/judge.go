// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// record is what machine.json holds.
type record struct {
	V       int // 1
	Machine hypervisor.Machine
	Plan    plan
	Ready   bool               // Prepare has finished
	Wanted  compute.PowerState // of a launched machine
	// it was started after it was launched: it has run, however it stands now
	Again bool               `json:",omitempty"`
	Why   string             // why it is not wanted to run
	Code  compute.ReasonCode // the same in a word; empty in records of the first drivers
	PID   int                // of the process started last
	Start uint64             // its start time
	Boot  string             // the host's boot id then
}

// found is what there is of a machine besides its record.
type found struct {
	alive  bool
	open   bool   // it runs with open user networking
	status string // QMP's word, empty if QMP does not answer
	boot   string // the host's boot id
	log    string // the last line QEMU complained with
}

// judge says what a machine does and why.
func judge(r record, f found) hypervisor.Verdict {
	switch {
	case !r.Ready:
		return hypervisor.Stopped("", "half prepared: the agent ended meanwhile")
	case !r.Machine.Launched && !f.alive:
		return hypervisor.Stopped("", "prepared; its process is gone and is started anew at launch")
	case !r.Machine.Launched:
		return hypervisor.Stopped("", fmt.Sprintf("prepared, process %d", r.PID))
	case f.alive:
		return alive(r, f)
	case r.Wanted == compute.PowerStopped:
		return hypervisor.Stopped(cmp.Or(r.Code, compute.StoppedByCommand), r.Why)
	case f.boot != r.Boot:
		return hypervisor.Stopped(compute.HostRestarted, "the host was restarted")
	}
	why := fmt.Sprintf("its QEMU process %d is gone: killed from outside, or it crashed", r.PID)
	if f.log != "" {
		why += "; it last said: " + f.log
	}
	return hypervisor.Stopped(compute.MachineKilled, why)
}

// brokenOff is said of a machine whose agent died, or gave up, while it started it again.
const brokenOff = "its start was broken off: start it again"

// alive judges a launched machine by what QEMU says of it: its run state, of which
// qapi/run-state.json has the list.
func alive(r record, f found) hypervisor.Verdict {
	switch f.status {
	case "running":
		return hypervisor.Running(fmt.Sprintf("process %d", r.PID))
	case "shutdown":
		return hypervisor.Stopped(compute.GuestShutdown, "the guest shut itself down")
	case "guest-panicked":
		return hypervisor.Stopped(compute.GuestPanicked, "the guest panicked")
	case "internal-error":
		return hypervisor.Stopped(
			compute.HypervisorError,
			"QEMU stopped the guest for an error of its own or of KVM; see its qemu.log",
		)
	case "postmigrate":
		return hypervisor.Stopped(compute.MachineKilled, "it was moved elsewhere or saved from outside (QMP migrate)")
	case "prelaunch":
		if r.Again {
			return hypervisor.Stopped(compute.StoppedUnknown, brokenOff)
		}
		return hypervisor.Waiting()
	case "":
		return hypervisor.Running(fmt.Sprintf("process %d, which does not answer", r.PID))
	}
	return held(f.status)
}

// held judges by the run states in which a machine stands still for a while.
func held(status string) hypervisor.Verdict {
	switch status {
	case "io-error":
		return hypervisor.Paused(compute.DiskError, "its disk cannot be written: is the host's full? Make room, "+
			"and start it: it goes on where it stands")
	case "paused":
		return hypervisor.Paused(compute.PausedOutside, "paused from outside (QMP stop): start it, and it goes on")
	case "suspended":
		return hypervisor.Paused(compute.GuestSuspended, "the guest put itself to sleep: start it, and it wakes up")
	case "watchdog":
		return hypervisor.Paused(compute.WatchdogFired,
			"the guest's watchdog fired: start it, and it goes on, or reboot it --hard")
	case "debug":
		return hypervisor.Paused(compute.PausedOutside, "a debugger holds it: start it, and it goes on")
	case "save-vm", "restore-vm", "inmigrate", "finish-migrate", "colo":
		return hypervisor.Paused(compute.PausedOutside, "saved, restored or moved from outside: QEMU says "+status)
	}
	return hypervisor.Verdict{Power: compute.PowerUnknown,
		Detail: "QEMU says " + strconv.Quote(status) + ", which this agent does not know"}
}

// goesOn is the QMP command by which a machine in a run state goes on.
func goesOn(status string) string {
	if status == "suspended" {
		return "system_wakeup"
	}
	return "cont"
}
