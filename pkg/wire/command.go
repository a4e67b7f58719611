// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

// EncodeCommand makes the record of a command; its key is the instance id, or
// none if it is about the host as a whole. A Build in it has the command's
// trace.
func EncodeCommand(c compute.Command) Record {
	rec := seal(bytesOrNil([]byte(c.Instance)), &pb.Command{
		Op:       commandOps.out(c.Op),
		Project:  text(c.Project),
		Instance: text(c.Instance),
		Attempt:  uint32(c.Attempt),
		Claim:    text(c.Claim),
		Reason:   reasonTo(c.Reason),
		Build:    buildTo(c.Build),
		Power:    powerCommandTo(c.Power),
		Desired:  hostDesiredTo(c.Desired),
		Console:  consoleAskTo(c.Console),
		Look:     lookTo(c.Look),
		Journal:  text(c.Journal),
		Voices:   voicesTo(c.Voices),
		Queue:    text(c.Queue),
		Group:    text(c.Group),
		In:       inTo(c.In),
		At:       stamp(c.At),

		Preemptible: c.Preemptible,
		TimesTaken:  c.TimesTaken,
		Noticed:     c.Noticed,
	}, c.Trace)
	if c.Build != nil {
		rec = rec.inLeastSchema(buildSays(c.Build))
	}
	return rec
}

// DecodeCommand reads a command. CommandBuild has a Build, CommandPower a Power,
// CommandHost a Desired, CommandConsole a Console and CommandLook a Look.
func DecodeCommand(rec Record) (compute.Command, error) {
	return decode("command", rec, &pb.Command{}, commandFrom)
}

func commandFrom(r *reader, m *pb.Command) compute.Command {
	c := compute.Command{
		Op:       commandOps.in(r, "op", m.GetOp()),
		Project:  compute.Project(m.GetProject()),
		Instance: compute.InstanceID(m.GetInstance()),
		Attempt:  compute.Attempt(m.GetAttempt()),
		Claim:    compute.ClaimID(m.GetClaim()),
		Reason:   reasonFrom(r, m.GetReason()),
		Power:    powerCommandFrom(r, m.GetPower()),
		Desired:  hostDesiredFrom(r, m.GetDesired()),
		Console:  consoleAskFrom(r, m.GetConsole()),
		Look:     lookFrom(r, m.GetLook()),
		Journal:  compute.JournalID(m.GetJournal()),
		Voices:   voicesFrom(r, m.GetVoices()),
		Queue:    compute.QueueName(m.GetQueue()),
		Group:    compute.GroupName(m.GetGroup()),
		In:       inFrom(r, m.GetIn()),
		At:       r.time("at", m.GetAt()),
		Trace:    r.trace(),

		Preemptible: m.GetPreemptible(),
		TimesTaken:  m.GetTimesTaken(),
		Noticed:     m.GetNoticed(),
	}
	if m.GetBuild() != nil {
		build := buildFrom(r, m.GetBuild())
		c.Build = &build
	}
	needs := func(op compute.CommandOp, field string, there bool) {
		if c.Op == op && !there {
			r.refuse(compute.Invalid(field, "", "a "+op.String()+" command carries it"))
		}
	}
	needs(compute.CommandBuild, "build", c.Build != nil)
	needs(compute.CommandPower, "power", c.Power != nil)
	needs(compute.CommandHost, "desired", c.Desired != nil)
	needs(compute.CommandConsole, "console", c.Console != nil)
	needs(compute.CommandLook, "look", c.Look != nil)
	needs(compute.CommandTwins, "voices", len(c.Voices) > 1)
	needs(compute.CommandBegun, "voices", len(c.Voices) == 1)
	needs(compute.CommandAlone, "voices", len(c.Voices) == 1)
	r.atMost("journal", len(c.Journal), MaxID)
	r.command(c)
	return c
}

// maxVoices bounds how many agents are told of at once.
const maxVoices = 16

func voicesTo(list []compute.Voice) []*pb.Voice {
	var out []*pb.Voice
	for _, v := range list[:min(len(list), maxVoices)] {
		out = append(out, &pb.Voice{Journal: text(v.Journal), Started: stamp(v.Started)})
	}
	return out
}

func voicesFrom(r *reader, list []*pb.Voice) []compute.Voice {
	r.atMost("voices", len(list), maxVoices)
	var out []compute.Voice
	for _, v := range list[:min(len(list), maxVoices)] {
		r.atMost("voices.journal", len(v.GetJournal()), MaxID)
		out = append(out, compute.Voice{
			Journal: compute.JournalID(v.GetJournal()), Started: r.time("voices.started", v.GetStarted()),
		})
	}
	return out
}

func lookTo(l *compute.Look) *pb.Look {
	if l == nil {
		return nil
	}
	return &pb.Look{
		Queue: text(l.Queue), Hold: span(l.Hold), Save: span(l.Save), Spend: l.Spend, Oldest: stamp(l.Oldest),
		Preempt: l.Preempt,
	}
}

func lookFrom(r *reader, m *pb.Look) *compute.Look {
	if m == nil {
		return nil
	}
	l := compute.Look{
		Queue: compute.QueueName(m.GetQueue()), Hold: r.duration("look.hold", m.GetHold()),
		Save: r.duration("look.save", m.GetSave()), Spend: m.GetSpend(),
		Oldest: r.time("look.oldest", m.GetOldest()), Preempt: m.GetPreempt(),
	}
	r.atMost("look.queue", len(l.Queue), maxQueueName)
	r.check(l.Check())
	return &l
}
