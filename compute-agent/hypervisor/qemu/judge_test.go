package qemu

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

func TestJudge(t *testing.T) {
	launched := record{Ready: true, Machine: hypervisor.Machine{Launched: true}, Wanted: compute.PowerRunning, PID: 42, Boot: "b"}
	stopped := launched
	stopped.Wanted, stopped.Why = compute.PowerStopped, "stopped by command"
	for name, c := range map[string]struct {
		record record
		found  found
		power  compute.PowerState
		why    compute.ReasonCode
		says   string
	}{
		"half":        {record{}, found{}, compute.PowerStopped, "", "half prepared"},
		"prepared":    {record{Ready: true, PID: 42}, found{alive: true, status: "prelaunch"}, compute.PowerStopped, "", "prepared, process 42"},
		"rebooted":    {record{Ready: true}, found{}, compute.PowerStopped, "", "anew at launch"},
		"runs":        {launched, found{alive: true, status: "running", boot: "b"}, compute.PowerRunning, "", "process 42"},
		"silent":      {launched, found{alive: true, boot: "b"}, compute.PowerRunning, "", "does not answer"},
		"paused":      {launched, found{alive: true, status: "paused", boot: "b"}, compute.PowerRunning, "", "QEMU says paused"},
		"powered off": {launched, found{alive: true, status: "shutdown", boot: "b"}, compute.PowerStopped, compute.GuestShutdown, "shut itself down"},
		"panicked":    {launched, found{alive: true, status: "guest-panicked", boot: "b"}, compute.PowerStopped, compute.GuestPanicked, "panicked"},
		"kvm broke":   {launched, found{alive: true, status: "internal-error", boot: "b"}, compute.PowerStopped, compute.HypervisorError, "error"},
		"waits":       {launched, found{alive: true, status: "prelaunch", boot: "b"}, compute.PowerStopped, compute.StoppedUnknown, "let go"},
		"killed":      {launched, found{boot: "b", log: "terminating on signal 15"}, compute.PowerStopped, compute.MachineKilled, "process 42 is gone: killed from outside, or it crashed; it last said: terminating"},
		"power cut":   {launched, found{boot: "c"}, compute.PowerStopped, compute.HostRestarted, "the host was restarted"},
		"by command":  {stopped, found{boot: "c"}, compute.PowerStopped, compute.StoppedByCommand, "stopped by command"},
	} {
		v := judge(c.record, c.found)
		if v.Power != c.power || v.Why != c.why || !strings.Contains(v.Detail, c.says) {
			t.Errorf("%s: %+v; want %s, %q, %q", name, v, c.power, c.why, c.says)
		}
	}
}
