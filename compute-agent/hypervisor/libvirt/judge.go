package libvirt

import (
	"fmt"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/berth-project/berth/pkg/compute"
)

// found is a domain of ours.
type found struct {
	domain libvirt.Domain
	stamp  stamp
	state  libvirt.DomainState
	reason int32 // what it means depends on the state
}

// active says whether it has a process.
func (f found) active() bool {
	return f.state != libvirt.DomainShutoff && f.state != libvirt.DomainCrashed && f.state != libvirt.DomainNostate
}

// judge says what a machine does and why, on a host with this boot id.
func judge(f found, boot string) (compute.PowerState, string) {
	s := f.stamp
	switch {
	case !s.Ready:
		return compute.PowerStopped, "half prepared: the agent ended meanwhile"
	case !s.Launched && !f.active():
		return compute.PowerStopped, "prepared; its process is gone and is started anew at launch"
	case !s.Launched:
		return compute.PowerStopped, "prepared, paused"
	case f.active():
		return active(f)
	case s.Stopped:
		return compute.PowerStopped, s.Why
	case s.Boot != boot:
		return compute.PowerStopped, "the host was restarted"
	}
	return compute.PowerStopped, off(libvirt.DomainShutoffReason(f.reason))
}

// active judges a launched machine that has a process.
func active(f found) (compute.PowerState, string) {
	switch f.state {
	case libvirt.DomainPaused:
		if !f.stamp.Released {
			return compute.PowerStopped, "its process waits to be let go"
		}
		return compute.PowerRunning, "held up: " + paused(libvirt.DomainPausedReason(f.reason))
	case libvirt.DomainShutdown:
		return compute.PowerRunning, "shutting down"
	case libvirt.DomainPmsuspended:
		return compute.PowerRunning, "the guest put itself to sleep"
	}
	return compute.PowerRunning, fmt.Sprintf("libvirt's number %d", f.domain.ID)
}

func paused(why libvirt.DomainPausedReason) string {
	switch why {
	case libvirt.DomainPausedUser:
		return "paused from outside (virsh suspend)"
	case libvirt.DomainPausedIoerror:
		return "its disk cannot be written: is the host's full?"
	case libvirt.DomainPausedSave, libvirt.DomainPausedDump, libvirt.DomainPausedSnapshot, libvirt.DomainPausedMigration:
		return "libvirt saves, dumps or moves it"
	}
	return fmt.Sprintf("paused, libvirt's reason %d", why)
}

func off(why libvirt.DomainShutoffReason) string {
	switch why {
	case libvirt.DomainShutoffShutdown:
		return "the guest shut itself down"
	case libvirt.DomainShutoffDestroyed:
		return "it was ended from outside (virsh destroy)"
	case libvirt.DomainShutoffCrashed:
		return "its QEMU is gone: killed from outside, or it crashed; libvirt's log of the domain may say more"
	case libvirt.DomainShutoffSaved:
		return "it was saved to a file from outside (virsh managedsave)"
	case libvirt.DomainShutoffFailed:
		return "libvirt could not start it; see libvirt's log"
	case libvirt.DomainShutoffMigrated:
		return "it was moved elsewhere from outside"
	}
	return "it ended while libvirt was away"
}
