// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

var afterwards = table[compute.Afterwards, pb.Afterwards]{
	{compute.ThenDelete, pb.Afterwards_AFTERWARDS_DELETE},
	{compute.ThenRequeue, pb.Afterwards_AFTERWARDS_REQUEUE},
}

func preemptibleTo(p compute.Preemptible) *pb.Preemptible {
	if p == (compute.Preemptible{}) {
		return nil
	}
	return &pb.Preemptible{Then: afterwards.out(p.Then), Grace: durationpb.New(p.Grace)} // 0 is not the default
}

// preemptible reads whether a boot's machine may be taken away, and its class, which follows from that where the boot does
// not say it.
func preemptible(r *reader, boot *compute.Boot, m *pb.Boot) {
	if m.GetPreemptible() == nil {
		return
	}
	r.needsSchema("preemptible", schemaPreemptible)
	p := compute.Preemptible{
		Then: afterwards.in(r, "preemptible.then", m.GetPreemptible().GetThen()), Grace: compute.DefaultGrace,
	}
	if m.GetPreemptible().GetGrace() != nil {
		p.Grace = r.duration("preemptible.grace", m.GetPreemptible().GetGrace())
	}
	_, err := compute.ClassOf(p, boot.Priority(), m.GetPriority() != pb.Priority_PRIORITY_UNSPECIFIED)
	r.check(err)
	boot.Preempt(p)
}

func noticeTo(n *compute.Notice) *pb.Notice {
	if n == nil {
		return nil
	}
	return &pb.Notice{
		At: stamp(n.At), Until: stamp(n.Until), Host: text(n.Host), Queue: text(n.Queue), Priority: priorities.out(n.Class),
		Going: n.Going, Over: stamp(n.Over), Taken: n.Taken, Times: n.Times,
	}
}

func noticeFrom(r *reader, m *pb.Notice) *compute.Notice {
	if m == nil {
		return nil
	}
	r.needsSchema("notice", schemaPreemptible)
	n := &compute.Notice{
		At: r.time("notice.at", m.GetAt()), Until: r.time("notice.until", m.GetUntil()),
		Host: compute.HostID(m.GetHost()), Queue: compute.QueueName(m.GetQueue()),
		Class: priorities.in(r, "notice.priority", m.GetPriority()), Going: m.GetGoing(),
		Over: r.time("notice.over", m.GetOver()), Taken: m.GetTaken(), Times: m.GetTimes(),
	}
	r.check(n.Host.Check())
	r.atMost("notice.queue", len(n.Queue), maxQueueName)
	return n
}
