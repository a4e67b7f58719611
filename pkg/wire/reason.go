// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

// MaxMessage is how much of a text for operators travels, in bytes; the rest is
// cut off. With MaxAttempts failures an instance's record stays far below 1 MiB.
const MaxMessage = 4 << 10

// message is a text for operators as it travels.
func message(s string) string { return cut(text(s), MaxMessage) }

// messages are texts that people read, none too long.
func messages(in []string) []string {
	var out []string
	for _, s := range in {
		out = append(out, message(s))
	}
	return out
}

func reasonTo(r *compute.Reason) *pb.Reason {
	if r == nil {
		return nil
	}
	return &pb.Reason{
		Code:     text(r.Code),
		Resource: text(r.Resource),
		Priority: quotaParts.out(r.Part),
		Limit:    r.Limit,
		Used:     r.Used,
		Asked:    r.Asked,
		Host:     text(r.Host),
		Attempt:  uint32(r.Attempt),
		Class:    failureClasses.out(r.Class),
		Position: r.Position,
		Depth:    r.Depth,
		Oldest:   stamp(r.Oldest),
		Hosts:    hostCountsTo(r.Hosts),
		Detail:   message(r.Detail),
	}
}

func reasonFrom(r *reader, m *pb.Reason) *compute.Reason {
	if m == nil {
		return nil
	}
	return &compute.Reason{
		Code:     compute.ReasonCode(m.GetCode()),
		Resource: compute.ResourceClass(m.GetResource()),
		Part:     quotaParts.in(r, "reason.priority", m.GetPriority()),
		Limit:    m.GetLimit(),
		Used:     m.GetUsed(),
		Asked:    m.GetAsked(),
		Host:     compute.HostID(m.GetHost()),
		Attempt:  compute.Attempt(m.GetAttempt()),
		Class:    failureClasses.in(r, "reason.class", m.GetClass()),
		Position: m.GetPosition(),
		Depth:    m.GetDepth(),
		Oldest:   r.time("reason.oldest", m.GetOldest()),
		Hosts:    hostCountsFrom(m.GetHosts()),
		Detail:   m.GetDetail(),
	}
}

// hostCountsTo is absent if no host was counted.
func hostCountsTo(c compute.HostCounts) *pb.HostCounts {
	if c == (compute.HostCounts{}) {
		return nil
	}
	return &pb.HostCounts{
		NeverFits:   c.NeverFits,
		Silent:      c.Silent,
		Disabled:    c.Disabled,
		Draining:    c.Draining,
		Quarantined: c.Quarantined,
		Full:        c.Full,
		Eligible:    c.Eligible,
		Avoided:     c.Avoided,
	}
}

func hostCountsFrom(m *pb.HostCounts) compute.HostCounts {
	return compute.HostCounts{
		NeverFits:   m.GetNeverFits(),
		Silent:      m.GetSilent(),
		Disabled:    m.GetDisabled(),
		Draining:    m.GetDraining(),
		Quarantined: m.GetQuarantined(),
		Full:        m.GetFull(),
		Eligible:    m.GetEligible(),
		Avoided:     m.GetAvoided(),
	}
}

func failuresTo(in []compute.Failure) []*pb.Failure {
	var out []*pb.Failure
	for _, f := range in {
		out = append(out, &pb.Failure{
			Host:    text(f.Host),
			Attempt: uint32(f.Attempt),
			Class:   failureClasses.out(f.Class),
			Message: message(f.Message),
			At:      stamp(f.At),
		})
	}
	return out
}

func failuresFrom(r *reader, in []*pb.Failure) []compute.Failure {
	var out []compute.Failure
	for _, m := range in {
		out = append(out, compute.Failure{
			Host:    compute.HostID(m.GetHost()),
			Attempt: compute.Attempt(m.GetAttempt()),
			Class:   failureClasses.in(r, "failures.class", m.GetClass()),
			Message: m.GetMessage(),
			At:      r.time("failures.at", m.GetAt()),
		})
	}
	return out
}
