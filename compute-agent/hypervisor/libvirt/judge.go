// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"cmp"
	"fmt"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// found is a domain.
type found struct {
	domain libvirt.Domain
	stamp  stamp               // the zero stamp: Berth has no part in its metadata
	state  libvirt.DomainState // of ours
	reason int32               // what it means depends on the state
}

// active says whether it has a process.
func (f found) active() bool {
	return f.state != libvirt.DomainShutoff && f.state != libvirt.DomainNostate
}

// judge says what a machine does and why, on a host with this boot id.
func judge(f found, boot string) hypervisor.Verdict {
	s := f.stamp
	switch {
	case !s.Ready:
		return hypervisor.Stopped("", "half prepared: the agent ended meanwhile")
	case !s.Launched && !f.active():
		return hypervisor.Stopped("", "prepared; its process is gone and is started anew at launch")
	case !s.Launched:
		return hypervisor.Stopped("", "prepared, paused")
	case f.active():
		return active(f)
	case f.state == libvirt.DomainNostate:
		return unknown(f)
	case s.Stopped:
		return hypervisor.Stopped(cmp.Or(s.Code, compute.StoppedByCommand), s.Why)
	case s.Boot != boot:
		return hypervisor.Stopped(compute.HostRestarted, "the host was restarted")
	}
	return hypervisor.Stopped(off(libvirt.DomainShutoffReason(f.reason)))
}

// active judges a launched machine that has a process.
func active(f found) hypervisor.Verdict {
	switch f.state {
	case libvirt.DomainPaused:
		if !f.stamp.Released {
			return hypervisor.Waiting()
		}
		return paused(libvirt.DomainPausedReason(f.reason))
	case libvirt.DomainCrashed:
		return hypervisor.Stopped(compute.GuestPanicked, "the guest panicked")
	case libvirt.DomainShutdown:
		return hypervisor.Running("shutting down")
	case libvirt.DomainPmsuspended:
		return hypervisor.Paused(compute.GuestSuspended, "the guest put itself to sleep: start it, and it wakes up")
	case libvirt.DomainRunning, libvirt.DomainBlocked:
		return hypervisor.Running(fmt.Sprintf("libvirt's number %d", f.domain.ID))
	}
	return unknown(f)
}

func unknown(f found) hypervisor.Verdict {
	return hypervisor.Verdict{Power: compute.PowerUnknown,
		Detail: fmt.Sprintf("libvirt gives state %d, reason %d, which this agent does not know", f.state, f.reason)}
}

func paused(why libvirt.DomainPausedReason) hypervisor.Verdict {
	switch why {
	case libvirt.DomainPausedUser:
		return hypervisor.Paused(compute.PausedOutside, "paused from outside (virsh suspend): start it, and it goes on")
	case libvirt.DomainPausedIoerror:
		return hypervisor.Paused(compute.DiskError, "its disk cannot be written: is the host's full? Make room, "+
			"and start it: it goes on where it stands")
	case libvirt.DomainPausedWatchdog:
		return hypervisor.Paused(compute.WatchdogFired,
			"the guest's watchdog fired: start it, and it goes on, or reboot it --hard")
	case libvirt.DomainPausedSave, libvirt.DomainPausedDump, libvirt.DomainPausedSnapshot,
		libvirt.DomainPausedFromSnapshot,
		libvirt.DomainPausedMigration, libvirt.DomainPausedPostcopy, libvirt.DomainPausedPostcopyFailed:
		return hypervisor.Paused(compute.PausedOutside, "libvirt saves, dumps or moves it, or has restored it")
	case libvirt.DomainPausedCrashed:
		return hypervisor.Stopped(compute.GuestPanicked, "the guest panicked")
	case libvirt.DomainPausedShuttingDown:
		return hypervisor.Running("shutting down")
	case libvirt.DomainPausedStartingUp:
		return hypervisor.Running("starting")
	}
	return hypervisor.Paused(compute.PausedOutside, fmt.Sprintf("paused, for libvirt's reason %d: start it, and "+
		"it goes on", why))
}

func off(why libvirt.DomainShutoffReason) (compute.ReasonCode, string) {
	switch why {
	case libvirt.DomainShutoffShutdown:
		return compute.GuestShutdown, "the guest shut itself down"
	case libvirt.DomainShutoffDestroyed:
		return compute.MachineKilled, "it was ended from outside (virsh destroy)"
	case libvirt.DomainShutoffCrashed:
		return compute.MachineKilled, "its QEMU is gone: killed from outside, or it crashed; " +
			"libvirt's log of the domain may say more"
	case libvirt.DomainShutoffSaved:
		return compute.MachineKilled, "it was saved to a file from outside (virsh managedsave)"
	case libvirt.DomainShutoffFailed:
		return compute.HypervisorError, "libvirt could not start it; see libvirt's log"
	case libvirt.DomainShutoffMigrated:
		return compute.MachineKilled, "it was moved elsewhere from outside"
	}
	return compute.StoppedUnknown, "it ended while libvirt was away"
}
