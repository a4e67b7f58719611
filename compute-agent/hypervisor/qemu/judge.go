package qemu

import (
	"cmp"
	"fmt"

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
	Again   bool               `json:",omitempty"` // it was started after it was launched: it has run, however it stands now
	Why     string             // why it is not wanted to run
	Code    compute.ReasonCode // the same in a word; empty in records of the first drivers
	PID     int                // of the process started last
	Start   uint64             // its start time
	Boot    string             // the host's boot id then
}

// found is what there is of a machine besides its record.
type found struct {
	alive  bool
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

// alive judges a launched machine by what QEMU says of it.
func alive(r record, f found) hypervisor.Verdict {
	switch f.status {
	case "running":
		return hypervisor.Running(fmt.Sprintf("process %d", r.PID))
	case "shutdown":
		return hypervisor.Stopped(compute.GuestShutdown, "the guest shut itself down")
	case "guest-panicked":
		return hypervisor.Stopped(compute.GuestPanicked, "the guest panicked")
	case "internal-error":
		return hypervisor.Stopped(compute.HypervisorError, "QEMU stopped the guest for an error of its own or of KVM; see its qemu.log")
	case "prelaunch":
		if r.Again {
			return hypervisor.Stopped(compute.StoppedUnknown, "its start was broken off: start it again")
		}
		return hypervisor.Waiting()
	case "":
		return hypervisor.Running(fmt.Sprintf("process %d, which does not answer", r.PID))
	}
	return hypervisor.Running(fmt.Sprintf("process %d, held up: QEMU says %s", r.PID, f.status))
}
