// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

// EncodeReport makes the record of a report; its key is the project, or the
// host for ReportHello.
func EncodeReport(p compute.Report) Record {
	return seal(reportKey(p), &pb.Report{
		Op:       reportOps.out(p.Op),
		Host:     text(p.Host),
		Project:  text(p.Project),
		Instance: text(p.Instance),
		Attempt:  uint32(p.Attempt),
		Claim:    text(p.Claim),
		Class:    failureClasses.out(p.Class),
		Power:    powerStates.out(p.Power),
		Message:  message(p.Message),
		Command:  text(p.Command),
		Version:  uint64(p.Version),
		Journal:  text(p.Journal),
		Fence:    uint64(p.Fence),
		Started:  stamp(p.Started),
		At:       stamp(p.At),

		PowerReason: reasonTo(p.Stopped),
		Queue:       text(p.Queue),
		MadeRoom:    p.MadeRoom,
	}, p.Trace)
}

func reportKey(p compute.Report) []byte {
	if p.Op == compute.ReportHello {
		return KeyHost(p.Host)
	}
	return []byte(p.Project)
}

// DecodeReport reads a report. What it answers has passed Report.Check.
func DecodeReport(rec Record) (compute.Report, error) {
	return decode("report", rec, &pb.Report{}, reportFrom)
}

func reportFrom(r *reader, m *pb.Report) compute.Report {
	p := compute.Report{
		Op:       reportOps.in(r, "op", m.GetOp()),
		Host:     compute.HostID(m.GetHost()),
		Project:  compute.Project(m.GetProject()),
		Instance: compute.InstanceID(m.GetInstance()),
		Attempt:  compute.Attempt(m.GetAttempt()),
		Claim:    compute.ClaimID(m.GetClaim()),
		Class:    failureClasses.in(r, "class", m.GetClass()),
		Power:    powerStates.in(r, "power", m.GetPower()),
		Stopped:  stoppedFrom(r, m.GetPowerReason()),
		Message:  message(m.GetMessage()),
		Command:  compute.CommandID(m.GetCommand()),
		Version:  compute.Version(m.GetVersion()),
		Journal:  compute.JournalID(m.GetJournal()),
		Fence:    compute.FenceEpoch(m.GetFence()),
		Started:  r.time("started", m.GetStarted()),
		At:       r.time("at", m.GetAt()),
		Queue:    compute.QueueName(m.GetQueue()),
		MadeRoom: m.GetMadeRoom(),
		Trace:    r.trace(),
	}
	r.atMost("queue", len(p.Queue), maxQueueName)
	r.atMost("claim", len(p.Claim), MaxID)
	r.atMost("command", len(p.Command), MaxID)
	r.atMost("journal", len(p.Journal), MaxID)
	r.check(p.Check())
	if p.Op != compute.ReportHello {
		r.key(reportKey(p))
	}
	return p
}
