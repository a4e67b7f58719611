// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

func bootTo(b *compute.Boot) *pb.Boot {
	if b == nil {
		return &pb.Boot{}
	}
	return &pb.Boot{
		Name:         text(b.Name),
		Flavor:       text(b.Flavor),
		With:         textMap(b.With),
		Image:        text(b.Image),
		Metadata:     textMap(b.Metadata),
		UserData:     bytesOrNil([]byte(b.UserData)),
		SshKeys:      texts(b.SSHKeys),
		Attempts:     uint32(b.Attempts),
		Deadline:     span(b.Deadline),
		OnNoCapacity: noCapacities.out(b.OnNoCapacity),
		Host:         text(b.Host),
		Avoid:        texts(b.Avoid),

		SealedUserData: bytesOrNil([]byte(b.Sealed)),
		Group:          text(b.Group()),
		Priority:       priorities.out(b.Priority()),
		Preemptible:    preemptibleTo(b.Preemptible()),
		Reservation:    text(b.Reservation()),
	}
}

// bootSays is what a boot says, of a request or in the record of an instance.
func bootSays(b *compute.Boot) says {
	return says{
		sealed: b.Sealed != "", member: b.Group() != "", ofSet: b.Set().ID != "", spread: b.Spread().Spread != "",
		whole:  b.Set().Whole != "",
		ranked: b.Priority() != compute.PriorityNormal,

		preemptible: b.IsPreemptible(),
		reserved:    b.Reservation() != "" || b.IsPlaceholder() || b.In().ID != "",
	}
}

func bootFrom(r *reader, m *pb.Boot) compute.Boot {
	b := compute.Boot{
		Name:         m.GetName(),
		Flavor:       compute.FlavorName(m.GetFlavor()),
		With:         wordMap[compute.AxisName, compute.AxisValue](m.GetWith()),
		Image:        m.GetImage(),
		Metadata:     wordMap[string, string](m.GetMetadata()),
		UserData:     compute.UserData(m.GetUserData()),
		SSHKeys:      words[string](m.GetSshKeys()),
		Attempts:     compute.Attempt(m.GetAttempts()),
		Deadline:     r.duration("boot.deadline", m.GetDeadline()),
		OnNoCapacity: noCapacities.in(r, "boot.on_no_capacity", m.GetOnNoCapacity()),
		Host:         compute.HostID(m.GetHost()),
		Avoid:        words[compute.HostID](m.GetAvoid()),
		Sealed:       r.sealed(m.GetSealedUserData()),
		Rules: compute.RulesOf(
			needsSchema(r, "group", schemaGroups, compute.GroupName(m.GetGroup())), compute.Set{}, r.priority(m.GetPriority()),
		),
	}
	preemptible(r, &b, m)
	if n := needsSchema(r, "reservation", schemaReserved, compute.ReservationName(m.GetReservation())); n != "" {
		b.Reserving(n)
	}
	return b
}

// priority is the class of a boot. One that is not normal is refused in a schema whose readers may not know it: they
// would have it wait as all others.
func (r *reader) priority(m pb.Priority) compute.Priority {
	p := priorities.in(r, "boot.priority", m)
	if p != compute.PriorityNormal {
		r.needsSchema("priority", schemaPriority)
	}
	return p
}
