// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"
	"strings"
	"time"
)

// ReasonCode says why a request waits or ended. The codes are stable: they
// appear in the API, in events and as metric labels.
type ReasonCode string

// The reason codes.
const (
	QuotaExceeded         ReasonCode = "QuotaExceeded"         // Resource, Limit, Used, Asked
	NoSuchFlavor          ReasonCode = "NoSuchFlavor"          // Detail names it
	NoSuchCapability      ReasonCode = "NoSuchCapability"      // Detail names axis and value
	QueueClosedReason     ReasonCode = "QueueClosed"           // the flavor or capability was removed
	NeverFits             ReasonCode = "NeverFits"             // no host is big enough even when empty
	NoEligibleHost        ReasonCode = "NoEligibleHost"        // Hosts counts why
	WaitingForCapacity    ReasonCode = "WaitingForCapacity"    // Position, Depth, Oldest
	GroupRule             ReasonCode = "GroupRule"             // Detail names the group and says what it holds up
	NoSuchGroup           ReasonCode = "NoSuchGroup"           // Detail names it
	SetWaits              ReasonCode = "SetWaits"              // its set has not got a host for each; Detail says how many have
	SetFailed             ReasonCode = "SetFailed"             // another of its set cannot start; Detail names it and says why
	NoSuchReservation     ReasonCode = "NoSuchReservation"     // Detail names it, or says in what the request differs from it
	ReservationFull       ReasonCode = "ReservationFull"       // Detail says how many placeholders it has
	ReservationWaits      ReasonCode = "ReservationWaits"      // it waits for its placeholder, or for its time; Detail says which
	ReservationEnded      ReasonCode = "ReservationEnded"      // its time is over, or its placeholder has ended and none is free; Detail says which
	PinnedHostUnavailable ReasonCode = "PinnedHostUnavailable" // Host, Detail
	BuildFailed           ReasonCode = "BuildFailed"           // Host, Attempt, Class
	AttemptsExhausted     ReasonCode = "AttemptsExhausted"     // the instance's Failures tell each
	DeadlineExceeded      ReasonCode = "DeadlineExceeded"      // the request waited too long
	Cancelled             ReasonCode = "Cancelled"             // deleted before it ran
	HostLost              ReasonCode = "HostLost"              // Host
	Preempted             ReasonCode = "Preempted"             // Host, Attempt; Detail says for which queue and class
	Malformed             ReasonCode = "Malformed"             // Detail says what could not be read
	// API only: the id or key belongs to another request; Detail says in what it differs
	RequestDiffers ReasonCode = "RequestDiffers"
	AttemptOver    ReasonCode = "AttemptOver" // in denials only: taken by another, or an older attempt
	// of rejected records only: why a report or a beacon is not taken for its host's (Host, Detail), or a request for
	// that of a publisher that may write it (Detail)
	Unsigned ReasonCode = "Unsigned" // it has no MAC, or one that cannot be checked
	Forged   ReasonCode = "Forged"   // its MAC is not the host's or publisher's, or was made for something else
	Replayed ReasonCode = "Replayed" // it was said before
	// of requests: the publisher's key is not for this project
	ForeignProject ReasonCode = "ForeignProject"
	// of reports: a machine that nobody may delete for it (Detail says whose it is, if that is known)
	LeftAlone ReasonCode = "LeftAlone"
)

// The reasons why a machine that was launched does not run. They end nothing;
// Detail is the hypervisor's own word.
const (
	StoppedByCommand ReasonCode = "StoppedByCommand" // somebody asked for it through Berth
	GuestShutdown    ReasonCode = "GuestShutdown"    // the guest powered itself off
	GuestPanicked    ReasonCode = "GuestPanicked"    // its kernel panicked, and the hypervisor saw it
	MachineKilled    ReasonCode = "MachineKilled"    // ended from outside of Berth, or the hypervisor crashed
	HostRestarted    ReasonCode = "HostRestarted"    // with the host; nothing starts it again by itself
	HypervisorError  ReasonCode = "HypervisorError"  // the hypervisor could not run it any further
	StoppedUnknown   ReasonCode = "StoppedUnknown"   // the driver does not know
)

// The reasons why a machine is paused: it stands still where it was, and a start lets
// it go on.
const (
	DiskError ReasonCode = "DiskError" // its disk could not be written, mostly because the host's is full
	// somebody paused it outside of Berth, or saves it, moves it or debugs it
	PausedOutside  ReasonCode = "PausedOutside"
	GuestSuspended ReasonCode = "GuestSuspended" // the guest put itself to sleep
	WatchdogFired  ReasonCode = "WatchdogFired"  // the guest's watchdog did
)

// Reason is a code with the numbers behind it. Which fields are set follows
// from the code; the others are zero.
type Reason struct {
	Code     ReasonCode
	Resource ResourceClass // QuotaExceeded: the class that is short
	Part     QuotaPart     // QuotaExceeded: what the limit is for
	Limit    int64         // QuotaExceeded: what the project may have in all, or of that part
	Used     int64         // QuotaExceeded: what it had
	Asked    int64         // QuotaExceeded: what this request wanted
	Host     HostID
	Attempt  Attempt
	Class    FailureClass
	Position uint64     // WaitingForCapacity: how many are before this one
	Depth    uint64     // WaitingForCapacity: how many wait in the queue
	Oldest   time.Time  // WaitingForCapacity: since when the first waits
	Hosts    HostCounts // NoEligibleHost, NeverFits
	Detail   string     // one sentence for the person
}

// String is the code with its numbers, for people.
func (r *Reason) String() string {
	if r == nil {
		return ""
	}
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if r.Resource != "" {
		of := ""
		if p, ok := r.Part.Priority(); ok {
			of = fmt.Sprintf(" of priority %s", p)
		}
		add("%s%s: limit %d, used %d, asked %d", r.Resource, of, r.Limit, r.Used, r.Asked)
	}
	if r.Depth > 0 {
		add("position %d of %d", r.Position+1, r.Depth)
	}
	if r.Host != "" {
		add("host %s", r.Host)
	}
	if r.Attempt > 0 {
		add("attempt %d", r.Attempt)
	}
	if r.Code == BuildFailed {
		add("class %s", r.Class)
	}
	if n := r.Hosts.Total(); n > 0 {
		add("of %d hosts %s", n, r.Hosts)
	}
	if r.Detail != "" {
		add("%s", r.Detail)
	}
	if len(parts) == 0 {
		return string(r.Code)
	}
	return string(r.Code) + " (" + strings.Join(parts, ", ") + ")"
}

// String lists the counts that are not zero: "3 full, 1 silent".
func (c HostCounts) String() string {
	var parts []string
	for _, p := range []struct {
		n    uint32
		what string
	}{
		{c.Eligible, "eligible"}, {c.Full, "full"}, {c.Avoided, "avoided"},
		{c.Disabled, "disabled"}, {c.Draining, "draining"},
		{c.Silent, "silent"}, {c.Quarantined, "quarantined"}, {c.NeverFits, "too small or lacking a trait"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// FailureClass says what kind of thing went wrong on a host, and so whether
// another try may help.
type FailureClass uint8

// The failure classes.
const (
	FailureUnknown     FailureClass = iota // not classified; tried again
	FailureHost                            // this host's fault (disk, device, hypervisor); tried elsewhere
	FailureTimeout                         // took too long and was undone; tried elsewhere
	FailureRequest                         // the request's own fault, as bad user data; not tried again
	FailureUnknownHere                     // the host knows nothing of the claim it was granted
)

var failureClassNames = [...]string{"unknown", "host", "timeout", "request", "unknown-claim"}

// String is the class's name in APIs and metric labels.
func (c FailureClass) String() string { return name(failureClassNames[:], c, "failure class") }

// Retryable says whether another attempt may succeed.
func (c FailureClass) Retryable() bool { return c != FailureRequest }

// Failure is how one attempt ended.
type Failure struct {
	Host    HostID
	Attempt Attempt
	Class   FailureClass
	Message string // from the hypervisor, for the operator
	At      time.Time
}
