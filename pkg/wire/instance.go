// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"

	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

// EncodeInstance makes the record of an instance; its key is KeyInstance, its
// partition must be that of the project.
func EncodeInstance(i compute.Instance) Record {
	return seal(KeyInstance(i.Project, i.ID), &pb.Instance{
		Id:      text(i.ID),
		Project: text(i.Project),
		Version: uint64(i.Version),
		State:   states.out(i.State),
		Reason:  reasonTo(i.Reason),

		Boot:      bootTo(&i.Boot),
		Queue:     text(i.Queue),
		Resources: amounts(i.Resources),
		Required:  texts(i.Required),
		Forbidden: texts(i.Forbidden),

		Attempt:  uint32(i.Attempt),
		Host:     text(i.Host),
		Claim:    text(i.Claim),
		Fence:    uint64(i.Fence),
		Journal:  text(i.Journal),
		Failures: failuresTo(i.Failures),
		Power:    powerStates.out(i.Power),

		PowerReason: reasonTo(i.Stopped),

		Command:   powerCommandTo(i.Command),
		Answer:    powerAnswerTo(i.Answer),
		Delete:    i.Delete,
		BootedAs:  uint64(i.BootedAs),
		Confirm:   i.Confirm,
		PublishAt: stamp(i.PublishAt),

		AcceptedAt: stamp(i.AcceptedAt),
		QueuedAt:   stamp(i.QueuedAt),
		Deadline:   stamp(i.Deadline),
		StartingAt: stamp(i.StartingAt),
		ActiveAt:   stamp(i.ActiveAt),
		EndedAt:    stamp(i.EndedAt),
		ChangedAt:  stamp(i.ChangedAt),
		Set:        setTo(i.Boot.Set()),

		Spread:       text(i.Boot.Spread().Spread),
		SpreadChosen: i.Boot.Spread().Chosen,
		Notice:       noticeTo(i.LastNotice()),
		MadeRoom:     i.MadeRoom(),

		Placeholder: placeholderTo(i.Boot.Placeholder()),
		In:          inTo(i.Boot.In()),
	}, i.Trace).inLeastSchema(bootSays(&i.Boot))
}

func setTo(s compute.Set) *pb.InstanceSet {
	if s.ID == "" {
		return nil
	}
	return &pb.InstanceSet{Id: text(s.ID), Size: s.Size, Granted: s.Granted, Whole: text(s.Whole)}
}

func setFrom(r *reader, m *pb.InstanceSet) compute.Set {
	r.needsSchema("set", schemaSets)
	s := compute.Set{
		ID: compute.InstanceID(m.GetId()), Size: m.GetSize(), Granted: m.GetGranted(),
		Whole: needsSchema(r, "set.whole", schemaWhole, compute.QueueName(m.GetWhole())),
	}
	r.check(s.ID.Check())
	r.atMost("set.whole", len(s.Whole), maxQueueName)
	if s.Size < 2 || s.Size > compute.MaxSet {
		r.refuse(compute.Invalid("set.size", fmt.Sprint(s.Size), fmt.Sprintf("give 2 to %d", compute.MaxSet)))
	}
	return s
}

// DecodeInstance reads an instance. The error of a tombstone has the field
// "value"; its key says the project and the id (ParseInstanceKey).
func DecodeInstance(rec Record) (compute.Instance, error) {
	return decode("instance", rec, &pb.Instance{}, instanceFrom)
}

func instanceFrom(r *reader, m *pb.Instance) compute.Instance {
	i := compute.Instance{
		ID:      compute.InstanceID(m.GetId()),
		Project: compute.Project(m.GetProject()),
		Version: compute.Version(m.GetVersion()),
		State:   states.in(r, "state", m.GetState()),
		Reason:  reasonFrom(r, m.GetReason()),

		Boot:      bootFrom(r, m.GetBoot()),
		Queue:     compute.QueueName(m.GetQueue()),
		Resources: resources(m.GetResources()),
		Required:  words[compute.Trait](m.GetRequired()),
		Forbidden: words[compute.Trait](m.GetForbidden()),

		Attempt:   compute.Attempt(m.GetAttempt()),
		Host:      compute.HostID(m.GetHost()),
		Claim:     compute.ClaimID(m.GetClaim()),
		Fence:     compute.FenceEpoch(m.GetFence()),
		Journal:   compute.JournalID(m.GetJournal()),
		Failures:  failuresFrom(r, m.GetFailures()),
		Power:     powerStates.in(r, "power", m.GetPower()),
		Stopped:   stoppedFrom(r, m.GetPowerReason()),
		Command:   powerCommandFrom(r, m.GetCommand()),
		Answer:    powerAnswerFrom(r, m.GetAnswer()),
		Delete:    m.GetDelete(),
		BootedAs:  compute.Fingerprint(m.GetBootedAs()),
		Confirm:   m.GetConfirm(),
		PublishAt: r.time("publish_at", m.GetPublishAt()),

		AcceptedAt: r.time("accepted_at", m.GetAcceptedAt()),
		QueuedAt:   r.time("queued_at", m.GetQueuedAt()),
		Deadline:   r.time("deadline", m.GetDeadline()),
		StartingAt: r.time("starting_at", m.GetStartingAt()),
		ActiveAt:   r.time("active_at", m.GetActiveAt()),
		EndedAt:    r.time("ended_at", m.GetEndedAt()),
		ChangedAt:  r.time("changed_at", m.GetChangedAt()),

		Trace: r.trace(),
	}
	i.Boot.Rules = spreadFrom(r, i.Boot.Rules, m)
	if m.GetSet() != nil {
		i.Boot.InSet(setFrom(r, m.GetSet()))
	}
	i.GiveNotice(noticeFrom(r, m.GetNotice()))
	i.SetMadeRoom(m.GetMadeRoom())
	reservedFrom(r, &i.Boot, m)
	r.instance(i)
	r.key(KeyInstance(i.Project, i.ID))
	return i
}

// spreadFrom is the rules of an instance with what the conductor that admitted it noted there.
func spreadFrom(r *reader, rules *compute.PlacementRules, m *pb.Instance) *compute.PlacementRules {
	axis := needsSchema(r, "spread", schemaSpread, compute.AxisName(m.GetSpread()))
	if axis == "" || rules == nil {
		return rules
	}
	out := *rules
	out.Spread, out.Chosen = axis, m.GetSpreadChosen()
	return &out
}

func powerCommandTo(c *compute.PowerCommand) *pb.PowerCommand {
	if c == nil {
		return nil
	}
	return &pb.PowerCommand{
		Op:      powerOps.out(c.Op),
		Command: text(c.Command),
		Hard:    c.Hard,
		Version: uint64(c.Version),
		At:      stamp(c.At),
		Grace:   span(c.Grace),
		Journal: text(c.Journal),
	}
}

func powerCommandFrom(r *reader, m *pb.PowerCommand) *compute.PowerCommand {
	if m == nil {
		return nil
	}
	return &compute.PowerCommand{
		Op:      powerOps.in(r, "power.op", m.GetOp()),
		Command: compute.CommandID(m.GetCommand()),
		Hard:    m.GetHard(),
		Version: compute.Version(m.GetVersion()),
		At:      r.time("power.at", m.GetAt()),
		Grace:   r.duration("power.grace", m.GetGrace()),
		Journal: compute.JournalID(m.GetJournal()),
	}
}

// stoppedFrom is why a machine does not run. Readers must not choke on
// it, so a text that is too long is cut and not refused.
func stoppedFrom(r *reader, m *pb.Reason) *compute.Reason {
	why := reasonFrom(r, m)
	if why != nil {
		why.Detail = message(why.Detail)
	}
	return why
}

func powerAnswerTo(a *compute.PowerAnswer) *pb.PowerAnswer {
	if a == nil {
		return nil
	}
	return &pb.PowerAnswer{Op: powerOps.out(a.Op), Command: text(a.Command), Failed: message(a.Failed), At: stamp(a.At)}
}

func powerAnswerFrom(r *reader, m *pb.PowerAnswer) *compute.PowerAnswer {
	if m == nil {
		return nil
	}
	return &compute.PowerAnswer{
		Op:      powerOps.in(r, "answer.op", m.GetOp()),
		Command: compute.CommandID(m.GetCommand()),
		Failed:  message(m.GetFailed()),
		At:      r.time("answer.at", m.GetAt()),
	}
}
