// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

func TestJudge(t *testing.T) {
	launched := record{
		Ready: true, Machine: hypervisor.Machine{Launched: true}, Wanted: compute.PowerRunning, PID: 42, Boot: "b",
	}
	stopped := launched
	stopped.Wanted, stopped.Why = compute.PowerStopped, "stopped by command"
	for name, c := range map[string]struct {
		record record
		found  found
		power  compute.PowerState
		why    compute.ReasonCode
		says   string
	}{
		"half": {record{}, found{}, compute.PowerStopped, "", "half prepared"},
		"prepared": {
			record{Ready: true, PID: 42}, found{alive: true, status: "prelaunch"}, compute.PowerStopped, "",
			"prepared, process 42",
		},
		"rebooted": {record{Ready: true}, found{}, compute.PowerStopped, "", "anew at launch"},
		"runs": {
			launched, found{alive: true, status: "running", boot: "b"}, compute.PowerRunning, "", "process 42",
		},
		"silent": {launched, found{alive: true, boot: "b"}, compute.PowerRunning, "", "does not answer"},
		"powered off": {
			launched, found{alive: true, status: "shutdown", boot: "b"}, compute.PowerStopped, compute.GuestShutdown,
			"shut itself down",
		},
		"panicked": {
			launched, found{alive: true, status: "guest-panicked", boot: "b"}, compute.PowerStopped,
			compute.GuestPanicked, "panicked",
		},
		"kvm broke": {
			launched, found{alive: true, status: "internal-error", boot: "b"}, compute.PowerStopped,
			compute.HypervisorError, "error",
		},
		"waits": {
			launched, found{alive: true, status: "prelaunch", boot: "b"}, compute.PowerStopped,
			compute.StoppedUnknown, "let go",
		},
		"killed": {
			launched, found{boot: "b", log: "terminating on signal 15"}, compute.PowerStopped, compute.MachineKilled,
			"process 42 is gone: killed from outside, or it crashed; it last said: terminating",
		},
		"power cut": {
			launched, found{boot: "c"}, compute.PowerStopped, compute.HostRestarted, "the host was restarted",
		},
		"by command": {
			stopped, found{boot: "c"}, compute.PowerStopped, compute.StoppedByCommand, "stopped by command",
		},
	} {
		v := judge(c.record, c.found)
		if v.Power != c.power || v.Why != c.why || !strings.Contains(v.Detail, c.says) {
			t.Errorf("%s: %+v; want %s, %q, %q", name, v, c.power, c.why, c.says)
		}
	}
}

// runStates are all that QEMU knows, and what each is for a machine that was
// launched.
var runStates = map[string]struct {
	power   compute.PowerState
	why     compute.ReasonCode
	command string // by which Start lets it go on; of what is paused
}{
	"running":        {compute.PowerRunning, "", ""},
	"shutdown":       {compute.PowerStopped, compute.GuestShutdown, ""},
	"guest-panicked": {compute.PowerStopped, compute.GuestPanicked, ""},
	"internal-error": {compute.PowerStopped, compute.HypervisorError, ""},
	"postmigrate":    {compute.PowerStopped, compute.MachineKilled, ""},
	"prelaunch":      {compute.PowerStopped, compute.StoppedUnknown, ""},
	"io-error":       {compute.PowerPaused, compute.DiskError, "cont"},
	"paused":         {compute.PowerPaused, compute.PausedOutside, "cont"},
	"suspended":      {compute.PowerPaused, compute.GuestSuspended, "system_wakeup"},
	"watchdog":       {compute.PowerPaused, compute.WatchdogFired, "cont"},
	"debug":          {compute.PowerPaused, compute.PausedOutside, "cont"},
	"save-vm":        {compute.PowerPaused, compute.PausedOutside, "cont"},
	"restore-vm":     {compute.PowerPaused, compute.PausedOutside, "cont"},
	"inmigrate":      {compute.PowerPaused, compute.PausedOutside, "cont"},
	"finish-migrate": {compute.PowerPaused, compute.PausedOutside, "cont"},
	"colo":           {compute.PowerPaused, compute.PausedOutside, "cont"},
	"of next year":   {compute.PowerUnknown, "", "cont"},
}

func TestRunStates(t *testing.T) {
	launched := record{Ready: true, Machine: hypervisor.Machine{Launched: true}, Wanted: compute.PowerRunning,
		PID: 42, Boot: "b"}
	for status, want := range runStates {
		v := judge(launched, found{alive: true, status: status, boot: "b"})
		if v.Power != want.power || v.Why != want.why || v.Detail == "" {
			t.Errorf("%s: %+v; want %s, %q, and words", status, v, want.power, want.why)
		}
		if command := goesOn(status); want.command != "" && command != want.command {
			t.Errorf("%s goes on by %s, want %s", status, command, want.command)
		}
	}
}
