// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"strings"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/berth-project/berth/pkg/compute"
)

func TestJudge(t *testing.T) {
	ready := stamp{Ready: true, Boot: "b"}
	waits := stamp{Ready: true, Boot: "b", Launched: true}
	let := stamp{Ready: true, Boot: "b", Launched: true, Released: true}
	stopped := stamp{Ready: true, Boot: "a", Launched: true, Released: true, Stopped: true, Why: "stopped by command"}
	shut := func(why libvirt.DomainShutoffReason) found {
		return found{stamp: let, state: libvirt.DomainShutoff, reason: int32(why)}
	}
	for name, c := range map[string]struct {
		found found
		boot  string
		power compute.PowerState
		why   compute.ReasonCode
		says  string
	}{
		"half":          {found{state: libvirt.DomainShutoff}, "b", compute.PowerStopped, "", "half prepared"},
		"half, started": {found{state: libvirt.DomainPaused}, "b", compute.PowerStopped, "", "half prepared"},
		"prepared": {
			found{stamp: ready, state: libvirt.DomainPaused}, "b", compute.PowerStopped, "", "prepared, paused",
		},
		"rebooted": {
			found{stamp: ready, state: libvirt.DomainShutoff}, "c", compute.PowerStopped, "", "anew at launch",
		},
		"waits": {
			found{stamp: waits, state: libvirt.DomainPaused}, "b", compute.PowerStopped, compute.StoppedUnknown,
			"let go",
		},
		"crashed between": {
			found{stamp: waits, state: libvirt.DomainRunning}, "b", compute.PowerRunning, "", "number",
		},
		"runs": {found{stamp: let, state: libvirt.DomainRunning}, "b", compute.PowerRunning, "", "number"},
		// Stop got no further
		"runs on": {
			found{stamp: stopped, state: libvirt.DomainRunning}, "b", compute.PowerRunning, "", "number",
		},
		"panicked": {
			found{stamp: let, state: libvirt.DomainCrashed, reason: int32(libvirt.DomainCrashedPanicked)}, "b",
			compute.PowerStopped, compute.GuestPanicked, "panicked",
		},
		"powered off": {
			shut(libvirt.DomainShutoffShutdown), "b", compute.PowerStopped, compute.GuestShutdown, "shut itself down",
		},
		"destroyed": {
			shut(libvirt.DomainShutoffDestroyed), "b", compute.PowerStopped, compute.MachineKilled, "virsh destroy",
		},
		"killed": {
			shut(libvirt.DomainShutoffCrashed), "b", compute.PowerStopped, compute.MachineKilled, "its QEMU is gone",
		},
		"saved": {
			shut(libvirt.DomainShutoffSaved), "b", compute.PowerStopped, compute.MachineKilled, "managedsave",
		},
		"nobody knows": {
			shut(libvirt.DomainShutoffUnknown), "b", compute.PowerStopped, compute.StoppedUnknown, "libvirt was away",
		},
		"power cut": {
			shut(libvirt.DomainShutoffUnknown), "c", compute.PowerStopped, compute.HostRestarted,
			"the host was restarted",
		},
		"by command": {
			found{stamp: stopped, state: libvirt.DomainShutoff, reason: int32(libvirt.DomainShutoffDestroyed)}, "b",
			compute.PowerStopped, compute.StoppedByCommand, "stopped by command",
		},
	} {
		v := judge(c.found, c.boot)
		if v.Power != c.power || v.Why != c.why || !strings.Contains(v.Detail, c.says) {
			t.Errorf("%s: %+v; want %s, %q, %q", name, v, c.power, c.why, c.says)
		}
	}
}

// Every state that libvirt knows, and every reason for a pause, of a machine that was
// launched.
func TestStates(t *testing.T) {
	let := stamp{Ready: true, Boot: "b", Launched: true, Released: true}
	type want struct {
		power compute.PowerState
		why   compute.ReasonCode
	}
	runs, unknown := want{compute.PowerRunning, ""}, want{compute.PowerUnknown, ""}
	for state, want := range map[libvirt.DomainState]want{
		libvirt.DomainNostate: unknown, libvirt.DomainRunning: runs, libvirt.DomainBlocked: runs,
		libvirt.DomainShutdown:        runs,
		libvirt.DomainPaused:          {compute.PowerPaused, compute.PausedOutside},
		libvirt.DomainShutoff:         {compute.PowerStopped, compute.StoppedUnknown},
		libvirt.DomainCrashed:         {compute.PowerStopped, compute.GuestPanicked},
		libvirt.DomainPmsuspended:     {compute.PowerPaused, compute.GuestSuspended},
		libvirt.DomainPmsuspended + 1: unknown,
	} {
		if v := judge(found{stamp: let, state: state}, "b"); v.Power != want.power || v.Why != want.why ||
			v.Detail == "" {
			t.Errorf("state %d: %+v; want %+v and words", state, v, want)
		}
	}
	outside := want{compute.PowerPaused, compute.PausedOutside}
	for why, want := range map[libvirt.DomainPausedReason]want{
		libvirt.DomainPausedUnknown: outside, libvirt.DomainPausedUser: outside,
		libvirt.DomainPausedMigration: outside, libvirt.DomainPausedSave: outside,
		libvirt.DomainPausedDump: outside, libvirt.DomainPausedFromSnapshot: outside,
		libvirt.DomainPausedSnapshot: outside,
		libvirt.DomainPausedPostcopy: outside, libvirt.DomainPausedPostcopyFailed: outside,
		libvirt.DomainPausedPostcopyFailed + 1: outside,
		libvirt.DomainPausedIoerror:            {compute.PowerPaused, compute.DiskError},
		libvirt.DomainPausedWatchdog:           {compute.PowerPaused, compute.WatchdogFired},
		libvirt.DomainPausedCrashed:            {compute.PowerStopped, compute.GuestPanicked},
		libvirt.DomainPausedShuttingDown:       runs, libvirt.DomainPausedStartingUp: runs,
	} {
		if v := judge(found{stamp: let, state: libvirt.DomainPaused, reason: int32(why)},
			"b"); v.Power != want.power || v.Why != want.why || v.Detail == "" {
			t.Errorf("paused for reason %d: %+v; want %+v and words", why, v, want)
		}
	}
}
