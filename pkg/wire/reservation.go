// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

func reserveTo(v *compute.Reserve) *pb.Reserve {
	if v == nil {
		return &pb.Reserve{}
	}
	return &pb.Reserve{
		Name: text(v.Name), From: stamp(v.From), Until: stamp(v.Until), Boot: bootTo(&v.Boot), Instances: texts(v.Instances),
	}
}

func reserveFrom(r *reader, m *pb.Reserve) *compute.Reserve {
	r.needsSchema("reserve", schemaReserved)
	if r.atMost("reserve.instances", len(m.GetInstances()), compute.MaxReserved); r.err != nil {
		return nil
	}
	return &compute.Reserve{
		Name:      compute.ReservationName(m.GetName()),
		From:      r.time("reserve.from", m.GetFrom()),
		Until:     r.time("reserve.until", m.GetUntil()),
		Boot:      bootFrom(r, m.GetBoot()),
		Instances: words[compute.InstanceID](m.GetInstances()),
	}
}

func placeholderTo(p compute.Placeholder) *pb.Placeholder {
	if p.Of == "" {
		return nil
	}
	return &pb.Placeholder{
		Reservation: text(p.Of), Size: p.Size, From: stamp(p.From), Until: stamp(p.Until), Taker: text(p.Taker),
		Kept: p.Kept,
	}
}

func placeholderFrom(r *reader, m *pb.Placeholder) compute.Placeholder {
	r.needsSchema("placeholder", schemaReserved)
	p := compute.Placeholder{
		Of:    compute.ReservationName(m.GetReservation()),
		Size:  m.GetSize(),
		From:  r.time("placeholder.from", m.GetFrom()),
		Until: r.time("placeholder.until", m.GetUntil()),
		Taker: compute.InstanceID(m.GetTaker()),
		Kept:  m.GetKept(),
	}
	r.check(p.Of.Check())
	perhaps(r, p.Taker)
	return p
}

func inTo(in compute.InPlaceholder) *pb.InPlaceholder {
	if in.ID == "" {
		return nil
	}
	return &pb.InPlaceholder{Instance: text(in.ID), Attempt: uint32(in.Attempt)}
}

func inFrom(r *reader, m *pb.InPlaceholder) compute.InPlaceholder {
	if m == nil {
		return compute.InPlaceholder{}
	}
	in := compute.InPlaceholder{ID: compute.InstanceID(m.GetInstance()), Attempt: compute.Attempt(m.GetAttempt())}
	r.check(in.ID.Check())
	return in
}

// inReserved is that of a record whose older readers would overlook it, and give it other room.
func inReserved(r *reader, m *pb.InPlaceholder) compute.InPlaceholder {
	if m != nil {
		r.needsSchema("in", schemaReserved)
	}
	return inFrom(r, m)
}

// reservedFrom is what an instance's record says of reservations, beside the boot.
func reservedFrom(r *reader, b *compute.Boot, m *pb.Instance) {
	if m.GetPlaceholder() != nil {
		b.AsPlaceholder(placeholderFrom(r, m.GetPlaceholder()))
	}
	if m.GetIn() != nil {
		b.Takes(inReserved(r, m.GetIn()))
	}
}
