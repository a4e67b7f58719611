package qemu

import (
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
func judge(r record, f found) (compute.PowerState, string) {
	switch {
	case !r.Ready:
		return compute.PowerStopped, "half prepared: the agent ended meanwhile"
	case !r.Machine.Launched && !f.alive:
		return compute.PowerStopped, "prepared; its process is gone and is started anew at launch"
	case !r.Machine.Launched:
		return compute.PowerStopped, fmt.Sprintf("prepared, process %d", r.PID)
	case f.alive:
		return alive(r, f)
	case r.Wanted == compute.PowerStopped:
		return compute.PowerStopped, r.Why
	case f.boot != r.Boot:
		return compute.PowerStopped, "the host was restarted"
	}
	why := fmt.Sprintf("its QEMU process %d is gone: killed from outside, or it crashed", r.PID)
	if f.log != "" {
		why += "; it last said: " + f.log
	}
	return compute.PowerStopped, why
}

// alive judges a launched machine by what QEMU says of it.
func alive(r record, f found) (compute.PowerState, string) {
	switch f.status {
	case "running":
		return compute.PowerRunning, fmt.Sprintf("process %d", r.PID)
	case "shutdown":
		return compute.PowerStopped, "the guest shut itself down"
	case "guest-panicked":
		return compute.PowerStopped, "the guest panicked"
	case "internal-error":
		return compute.PowerStopped, "QEMU stopped the guest for an error of its own or of KVM; see its qemu.log"
	case "prelaunch":
		return compute.PowerStopped, "its process waits to be let go"
	case "":
		return compute.PowerRunning, fmt.Sprintf("process %d, which does not answer", r.PID)
	}
	return compute.PowerRunning, fmt.Sprintf("process %d, held up: QEMU says %s", r.PID, f.status)
}
