// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"

	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

// EncodeConsole makes the record of an answer; its key is the instance id.
func EncodeConsole(c compute.Console) Record {
	return seal([]byte(c.Instance), &pb.Console{
		Ask:      text(c.Ask),
		Host:     text(c.Host),
		Project:  text(c.Project),
		Instance: text(c.Instance),
		Offset:   c.Offset,
		Data:     c.Data,
		End:      c.End,
		Refusal:  consoleRefusals.out(c.Refusal),
		Message:  message(c.Message),
		At:       stamp(c.At),
	}, "")
}

// DecodeConsole reads an answer.
func DecodeConsole(rec Record) (compute.Console, error) {
	return decode("console", rec, &pb.Console{}, consoleFrom)
}

func consoleFrom(r *reader, m *pb.Console) compute.Console {
	c := compute.Console{
		Ask:      compute.AskID(m.GetAsk()),
		Host:     compute.HostID(m.GetHost()),
		Project:  compute.Project(m.GetProject()),
		Instance: compute.InstanceID(m.GetInstance()),
		Offset:   m.GetOffset(),
		Data:     bytesOrNil(m.GetData()),
		End:      m.GetEnd(),
		Refusal:  consoleRefusals.in(r, "refusal", m.GetRefusal()),
		Message:  message(m.GetMessage()),
		At:       r.time("at", m.GetAt()),
	}
	r.check(c.Host.Check())
	r.whose(c.Project, c.Instance)
	r.key([]byte(c.Instance))
	r.atMost("ask", len(c.Ask), MaxID)
	r.atMost("data", len(c.Data), compute.MaxConsole)
	if c.Offset < 0 || c.End < c.Offset+int64(len(c.Data)) {
		r.refuse(compute.Invalid("offset", fmt.Sprint(c.Offset), "the data must lie between 0 and the end"))
	}
	return c
}

func consoleAskTo(a *compute.ConsoleAsk) *pb.ConsoleAsk {
	if a == nil {
		return nil
	}
	return &pb.ConsoleAsk{Id: text(a.ID), Offset: a.Offset, Limit: a.Limit, Deadline: stamp(a.Deadline)}
}

func consoleAskFrom(r *reader, m *pb.ConsoleAsk) *compute.ConsoleAsk {
	if m == nil {
		return nil
	}
	a := compute.ConsoleAsk{
		ID: compute.AskID(m.GetId()), Offset: m.GetOffset(), Limit: m.GetLimit(),
		Deadline: r.time("console.deadline", m.GetDeadline()),
	}
	r.atMost("console.id", len(a.ID), MaxID)
	r.check(a.Check())
	return &a
}
