// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Reason is a stable code with the numbers behind it, and the same in words.
type Reason struct {
	Code    compute.ReasonCode `json:"code" doc:"Stable; branch on this." example:"QuotaExceeded"`
	Message string             `json:"message" doc:"The same for people."`
	Quota   *QuotaNumbers      `json:"quota,omitempty" doc:"With QuotaExceeded."`
	Place   *Place             `json:"place,omitempty" doc:"Where in its queue it waits, if it does."`
	Hosts   *HostCounts        `json:"hosts,omitempty" doc:"With NoEligibleHost and NeverFits, and with WaitingForCapacity if it is known: what became of every host. A list in which very many wait for different machines tells it of the first ones alone, in a cell of many hosts."`
	Host    compute.HostID     `json:"host,omitempty"`
	Attempt compute.Attempt    `json:"attempt,omitempty"`
	Class   string             `json:"class,omitempty" doc:"With BuildFailed: whose fault it was."`
	Detail  string             `json:"detail,omitempty"`
}

// QuotaNumbers says which quota was exceeded, by what.
type QuotaNumbers struct {
	Resource compute.ResourceClass `json:"resource"`
	Limit    int64                 `json:"limit"`
	Used     int64                 `json:"used"`
	Asked    int64                 `json:"asked"`
	Priority string                `json:"priority,omitempty" enum:"low,normal,high" doc:"The class of priority that the limit is for; absent: for all."`
}

// Place is where in its queue something waits.
type Place struct {
	Position uint64    `json:"position" doc:"How many wait before this one."`
	Depth    uint64    `json:"depth" doc:"How many wait in all."`
	Oldest   time.Time `json:"oldest,omitzero" doc:"Since when the first waits."`
}

// HostCounts says what became of every host as seen from one queue; each host
// counts once.
type HostCounts struct {
	Total       uint32 `json:"total"`
	Eligible    uint32 `json:"eligible" doc:"Fits now and offers."`
	Full        uint32 `json:"full" doc:"Would fit when emptier."`
	Avoided     uint32 `json:"avoided" doc:"Fits now and offers, but all that waits is never to be built there (avoid)."`
	Disabled    uint32 `json:"disabled"`
	Draining    uint32 `json:"draining"`
	Silent      uint32 `json:"silent"`
	Quarantined uint32 `json:"quarantined"`
	NeverFits   uint32 `json:"never_fits" doc:"Too small even when empty, or lacking a trait."`
}

// FromReason shows a reason; nil stays nil.
func FromReason(r *compute.Reason) *Reason {
	if r == nil {
		return nil
	}
	out := &Reason{Code: r.Code, Message: words(r), Host: r.Host, Attempt: r.Attempt, Detail: r.Detail}
	if r.Resource != "" {
		out.Quota = &QuotaNumbers{Resource: r.Resource, Limit: r.Limit, Used: r.Used, Asked: r.Asked}
		if p, ok := r.Part.Priority(); ok {
			out.Quota.Priority = p.String()
		}
	}
	if r.Depth > 0 {
		out.Place = &Place{Position: r.Position, Depth: r.Depth, Oldest: utc(r.Oldest)}
	}
	if r.Hosts.Total() > 0 {
		c := FromHostCounts(r.Hosts)
		out.Hosts = &c
	}
	if r.Code == compute.BuildFailed {
		out.Class = r.Class.String()
	}
	return out
}

// Compute is the reason in the words of package compute; nil stays nil.
func (r *Reason) Compute() *compute.Reason {
	if r == nil {
		return nil
	}
	out := &compute.Reason{Code: r.Code, Host: r.Host, Attempt: r.Attempt, Detail: r.Detail}
	if q := r.Quota; q != nil {
		out.Resource, out.Limit, out.Used, out.Asked = q.Resource, q.Limit, q.Used, q.Asked
		if p, err := compute.ParsePriority(q.Priority); err == nil && q.Priority != "" {
			out.Part = compute.QuotaOf(p)
		}
	}
	if p := r.Place; p != nil {
		out.Position, out.Depth, out.Oldest = p.Position, p.Depth, p.Oldest
	}
	if h := r.Hosts; h != nil {
		out.Hosts = h.Compute()
	}
	if r.Class != "" {
		out.Class = parseClass(r.Class)
	}
	return out
}

func parseClass(s string) compute.FailureClass {
	for c := compute.FailureUnknown; c <= compute.FailureUnknownHere; c++ {
		if c.String() == s {
			return c
		}
	}
	return compute.FailureUnknown
}

// FromHostCounts shows counts.
func FromHostCounts(c compute.HostCounts) HostCounts {
	return HostCounts{
		Total: c.Total(), Eligible: c.Eligible, Full: c.Full, Avoided: c.Avoided, Disabled: c.Disabled,
		Draining: c.Draining, Silent: c.Silent, Quarantined: c.Quarantined, NeverFits: c.NeverFits,
	}
}

// Compute is the counts in the words of package compute.
func (c HostCounts) Compute() compute.HostCounts {
	return compute.HostCounts{
		Eligible: c.Eligible, Full: c.Full, Avoided: c.Avoided, Disabled: c.Disabled, Draining: c.Draining,
		Silent: c.Silent, Quarantined: c.Quarantined, NeverFits: c.NeverFits,
	}
}

// words says a reason as one would to a person.
func words(r *compute.Reason) string {
	s := sentence(r)
	if r.Detail == "" {
		return s
	}
	return s + ": " + strings.TrimSuffix(r.Detail, ".")
}

func sentence(r *compute.Reason) string {
	switch r.Code {
	case compute.QuotaExceeded:
		of := ""
		if p, ok := r.Part.Priority(); ok {
			of = " of priority " + p.String()
		}
		return fmt.Sprintf("over quota: %s%s limit %d, used %d, asked %d", r.Resource, of, r.Limit, r.Used, r.Asked)
	case compute.NoSuchFlavor:
		return "no such flavor"
	case compute.NoSuchCapability:
		return "no such capability"
	case compute.NoSuchGroup:
		return "no such group"
	case compute.QueueClosedReason:
		return "the flavor or capability was removed"
	case compute.NeverFits:
		return fmt.Sprintf("none of %d hosts could ever fit it, even when empty", r.Hosts.Total())
	case compute.NoEligibleHost:
		if r.Hosts.Total() == 0 {
			return "there is no host for it"
		}
		return fmt.Sprintf("no host can take it now: of %d hosts %s", r.Hosts.Total(), r.Hosts)
	case compute.WaitingForCapacity:
		switch {
		case r.Host != "":
			return fmt.Sprintf("waiting for room on host %s, which it was asked for", r.Host)
		case r.Depth == 0:
			return "waiting for a host"
		}
		return fmt.Sprintf("waiting for a host, %d of %d in line", r.Position+1, r.Depth)
	case compute.GroupRule:
		return "a group rule forbids it"
	case compute.SetWaits:
		return "waiting for the rest of its set"
	case compute.SetFailed:
		return "another of its set cannot start"
	case compute.ReservationWaits:
		return "waiting for room of its reservation"
	case compute.PinnedHostUnavailable:
		return fmt.Sprintf("host %s cannot take it", r.Host)
	case compute.BuildFailed:
		return fmt.Sprintf("attempt %d failed on %s (%s)", r.Attempt, r.Host, r.Class)
	}
	return endSentence(r)
}

func endSentence(r *compute.Reason) string {
	switch r.Code {
	case compute.AttemptsExhausted:
		return "every attempt failed"
	case compute.DeadlineExceeded:
		return "no host took it before its deadline"
	case compute.Cancelled:
		return "deleted before it ran"
	case compute.NoSuchReservation:
		return "no such reservation"
	case compute.ReservationFull:
		return "its reservation is full"
	case compute.ReservationEnded:
		return "its reservation has ended"
	case compute.HostLost:
		return fmt.Sprintf("host %s is gone, or has lost the machine", r.Host)
	case compute.Preempted:
		return fmt.Sprintf("its place on host %s was taken for other work", r.Host)
	case compute.Malformed:
		return "the request could not be read"
	case compute.RequestDiffers:
		return "there was another request before, which differs"
	case compute.AttemptOver:
		return "another claim was first"
	case compute.LeftAlone:
		return "a machine is left alone"
	case compute.Unsigned, compute.Forged, compute.Replayed, compute.ForeignProject:
		if r.Host == "" {
			return "no publisher that may write it has signed it"
		}
		return fmt.Sprintf("it does not count as host %s's", r.Host)
	}
	return stopSentence(r)
}

// stopSentence is why a machine does not run.
func stopSentence(r *compute.Reason) string {
	switch r.Code {
	case compute.StoppedByCommand:
		return "stopped by command"
	case compute.GuestShutdown:
		return "the guest powered itself off"
	case compute.GuestPanicked:
		return "the guest panicked"
	case compute.MachineKilled:
		return "it was killed from outside, or its hypervisor crashed"
	case compute.HostRestarted:
		return "its host was restarted"
	case compute.HypervisorError:
		return "the hypervisor could not run it any further"
	case compute.StoppedUnknown:
		return "it stopped, and nobody knows why"
	}
	return string(r.Code)
}
