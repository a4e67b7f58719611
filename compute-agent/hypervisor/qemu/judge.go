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

// verdict is what a machine does and why.
type verdict struct {
	power  compute.PowerState
	why    compute.ReasonCode // of a launched machine that is stopped
	detail string
}

// judge says what a machine does and why.
func judge(r record, f found) verdict {
	stopped := func(why compute.ReasonCode, detail string) verdict { return verdict{compute.PowerStopped, why, detail} }
	switch {
	case !r.Ready:
		return stopped("", "half prepared: the agent ended meanwhile")
	case !r.Machine.Launched && !f.alive:
		return stopped("", "prepared; its process is gone and is started anew at launch")
	case !r.Machine.Launched:
		return stopped("", fmt.Sprintf("prepared, process %d", r.PID))
	case f.alive:
		return alive(r, f)
	case r.Wanted == compute.PowerStopped:
		return stopped(cmp.Or(r.Code, compute.StoppedByCommand), r.Why)
	case f.boot != r.Boot:
		return stopped(compute.HostRestarted, "the host was restarted")
	}
	why := fmt.Sprintf("its QEMU process %d is gone: killed from outside, or it crashed", r.PID)
	if f.log != "" {
		why += "; it last said: " + f.log
	}
	return stopped(compute.MachineKilled, why)
}

// alive judges a launched machine by what QEMU says of it.
func alive(r record, f found) verdict {
	switch f.status {
	case "running":
		return verdict{compute.PowerRunning, "", fmt.Sprintf("process %d", r.PID)}
	case "shutdown":
		return verdict{compute.PowerStopped, compute.GuestShutdown, "the guest shut itself down"}
	case "guest-panicked":
		return verdict{compute.PowerStopped, compute.GuestPanicked, "the guest panicked"}
	case "internal-error":
		return verdict{compute.PowerStopped, compute.HypervisorError, "QEMU stopped the guest for an error of its own or of KVM; see its qemu.log"}
	case "prelaunch":
		return verdict{compute.PowerStopped, compute.StoppedUnknown, "its process waits to be let go"}
	case "":
		return verdict{compute.PowerRunning, "", fmt.Sprintf("process %d, which does not answer", r.PID)}
	}
	return verdict{compute.PowerRunning, "", fmt.Sprintf("process %d, held up: QEMU says %s", r.PID, f.status)}
}
