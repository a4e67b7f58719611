// SPDX-License-Identifier: Apache-2.0

package capabilities

import (
	"strings"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func noCapacities() (out []rest.Meaning) {
	for _, n := range compute.NoCapacities() {
		means := "it waits for a host until its deadline"
		if n == compute.FailAtOnce {
			means = "it ends in error if no host has taken it after " + compute.NoCapacityAfter.String()
		}
		out = append(out, rest.Meaning{Name: n.String(), Means: means})
	}
	return out
}

func states() (out []rest.Meaning) {
	for _, s := range compute.States() {
		out = append(out, rest.Meaning{Name: s.String(), Means: ofState(s)})
	}
	return out
}

func ofState(s compute.State) string {
	switch s {
	case compute.StateAccepted:
		return "its request cannot be lost, and no conductor has read it yet"
	case compute.StateQueued:
		return "it counts for the quota, and waits for a host or is prepared by one"
	case compute.StateStarting:
		return "its host launches it, so it may run there"
	case compute.StateActive:
		return "its host has said that it ran there; its power state says whether it does"
	case compute.StateDeleting:
		return "it is to be deleted, and its host has not said yet that it is gone"
	case compute.StateDeleted:
		return "it is gone, and its record stays for a while"
	case compute.StateError:
		return "it ended, for a reason that it says, and no host has it"
	case compute.StateUnknown:
		return "its host is not heard of, so nobody knows what it does"
	}
	return ""
}

func powerStates() (out []rest.Meaning) {
	for _, p := range compute.PowerStates() {
		out = append(out, rest.Meaning{Name: p.String(), Means: ofPower(p)})
	}
	return out
}

func ofPower(p compute.PowerState) string {
	switch p {
	case compute.PowerUnknown:
		return "its host has not said; the field is absent then"
	case compute.PowerRunning:
		return "it runs"
	case compute.PowerStopped:
		return "it is off, and keeps its share of its host and of the quota"
	case compute.PowerPaused:
		return "it stands still where it was, and a start lets it go on"
	}
	return ""
}

// CheckReason refuses what is no code of a reason, as of an item of a list.
func CheckReason(field, code string) error {
	var codes []string
	for _, r := range reasons() {
		if r.Name == code {
			return nil
		}
		codes = append(codes, r.Name)
	}
	return compute.Invalid(field, code, "give one of "+strings.Join(codes, ", "))
}

func reasons() []rest.Meaning {
	var out []rest.Meaning
	for _, r := range [...]struct {
		code  compute.ReasonCode
		means string
	}{
		{compute.QuotaExceeded, "the project would have more of a resource class than its quota allows"},
		{compute.NoSuchFlavor, "there is no flavor of this name"},
		{compute.NoSuchCapability, "there is no such axis or value, or the flavor is not offered with it"},
		{compute.NoSuchGroup, "the project has no group of this name"},
		{compute.QueueClosedReason, "the flavor or a capability of it was removed"},
		{compute.NeverFits, "no host could take it even when empty"},
		{compute.NoEligibleHost, "no host can take it now"},
		{compute.WaitingForCapacity, "it waits in its queue for a host to take it"},
		{compute.GroupRule, "a rule of its group forbids it"},
		{compute.SetWaits, "its set has not got a host for each of its instances yet"},
		{compute.SetFailed, "another instance of its set cannot start, so none does"},
		{compute.NoSuchReservation, "the project has no reservation of this name and kind that has not ended"},
		{compute.ReservationFull, "others have all of the reservation"},
		{compute.ReservationWaits, "it waits until a host holds its place in the reservation, or until that begins"},
		{compute.ReservationEnded, "the time of the reservation is over, or its place in it has ended and no other is free"},
		{compute.PinnedHostUnavailable, "the one host that it may run on cannot take it"},
		{compute.BuildFailed, "an attempt to build it failed on a host"},
		{compute.AttemptsExhausted, "as many attempts failed as the request allows"},
		{compute.DeadlineExceeded, "no host took it before its deadline"},
		{compute.Cancelled, "it was deleted before it ran"},
		{compute.HostLost, "its host is gone for good, or has lost the machine"},
		{compute.Preempted, "its place was taken for work of a higher class: it is preemptible"},
		{compute.Malformed, "the request could not be read"},
		{compute.RequestDiffers, "the id or key was given with another request before"},
		{compute.AttemptOver, "another host was granted the attempt, or it is an older one; hosts alone see this"},
		{compute.Unsigned, "a record says nothing that proves who wrote it; the topic of rejected records has this"},
		{compute.Forged, "a record was not written by whom it says; the topic of rejected records has this"},
		{compute.Replayed, "a record was read before; the topic of rejected records has this"},
		{compute.ForeignProject, "its publisher may not write for this project; the topic of rejected records has this"},
		{compute.LeftAlone, "a host has a machine of no known instance, or of one that another host claimed; " +
			"the topic of rejected records has this"},
		{compute.StoppedByCommand, "stopped: somebody asked for it through Berth"},
		{compute.GuestShutdown, "stopped: the guest powered itself off"},
		{compute.GuestPanicked, "stopped: the guest's kernel panicked, and the hypervisor saw it"},
		{compute.MachineKilled, "stopped: it was ended from outside of Berth, or its hypervisor crashed"},
		{compute.HostRestarted, "stopped: its host was restarted"},
		{compute.HypervisorError, "stopped: the hypervisor could not run it any further"},
		{compute.StoppedUnknown, "stopped: the driver does not know why"},
		{compute.DiskError, "paused: its disk could not be written, mostly because the host's is full"},
		{compute.PausedOutside, "paused: somebody paused, saved, moved or debugged it outside of Berth"},
		{compute.GuestSuspended, "paused: the guest put itself to sleep"},
		{compute.WatchdogFired, "paused: the guest's watchdog fired"},
	} {
		out = append(out, rest.Meaning{Name: string(r.code), Means: r.means})
	}
	return out
}
