// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

// EncodeBuild makes the record of a queue; its key is the instance id.
func EncodeBuild(b compute.Build) Record {
	return seal([]byte(b.Instance), buildTo(&b), b.Trace).inLeastSchema(buildSays(&b))
}

func buildSays(b *compute.Build) says {
	return says{
		sealed: b.Sealed != "", member: b.Group != nil, ofSet: b.Hold > 0, whole: len(b.Parts) > 0,
		reserved: b.Placeholder || b.In.ID != "",
	}
}

// DecodeBuild reads a record of a queue.
func DecodeBuild(rec Record) (compute.Build, error) {
	return decode("build", rec, &pb.Build{}, buildFrom)
}

func buildTo(b *compute.Build) *pb.Build {
	if b == nil {
		return nil
	}
	return &pb.Build{
		Instance:  text(b.Instance),
		Project:   text(b.Project),
		Name:      text(b.Name),
		Attempt:   uint32(b.Attempt),
		Queue:     text(b.Queue),
		Resources: amounts(b.Resources),
		Required:  texts(b.Required),
		Forbidden: texts(b.Forbidden),
		Image:     text(b.Image),
		Metadata:  textMap(b.Metadata),
		UserData:  b.UserData,
		SshKeys:   texts(b.SSHKeys),
		Avoid:     texts(b.Avoid),
		Failed:    texts(b.Failed),
		Deadline:  stamp(b.Deadline),
		At:        stamp(b.At),

		SealedUserData: bytesOrNil([]byte(b.Sealed)),
		WaitUntil:      stamp(b.WaitUntil),
		Group:          buildGroupTo(b.Group),
		Hold:           span(b.Hold),
		Parts:          partsTo(b.Parts),
		Preemptible:    b.Preemptible,
		TimesTaken:     b.TimesTaken,
		Placeholder:    b.Placeholder,
		In:             inTo(b.In),
	}
}

func partsTo(parts []compute.Build) (out []*pb.Build) {
	for i := range parts {
		out = append(out, buildTo(&parts[i]))
	}
	return out
}

func buildFrom(r *reader, m *pb.Build) compute.Build {
	if m.GetPlaceholder() {
		r.needsSchema("placeholder", schemaReserved)
	}
	return compute.Build{
		Instance:  compute.InstanceID(m.GetInstance()),
		Project:   compute.Project(m.GetProject()),
		Name:      m.GetName(),
		Attempt:   compute.Attempt(m.GetAttempt()),
		Queue:     compute.QueueName(m.GetQueue()),
		Resources: resources(m.GetResources()),
		Required:  words[compute.Trait](m.GetRequired()),
		Forbidden: words[compute.Trait](m.GetForbidden()),
		Image:     m.GetImage(),
		Metadata:  wordMap[string, string](m.GetMetadata()),
		UserData:  bytesOrNil(m.GetUserData()),
		SSHKeys:   words[string](m.GetSshKeys()),
		Avoid:     words[compute.HostID](m.GetAvoid()),
		Failed:    words[compute.HostID](m.GetFailed()),
		Deadline:  r.time("deadline", m.GetDeadline()),
		At:        r.time("at", m.GetAt()),
		Sealed:    r.sealed(m.GetSealedUserData()),
		WaitUntil: r.time("wait_until", m.GetWaitUntil()),
		Group:     buildGroupFrom(r, m.GetGroup()),
		Hold:      holdFrom(r, m.GetHold()),
		Parts:     partsFrom(r, m.GetParts()),
		In:        inReserved(r, m.GetIn()),
		Trace:     r.trace(),

		Preemptible: m.GetPreemptible(), TimesTaken: m.GetTimesTaken(),
		Placeholder: m.GetPlaceholder(),
	}
}

// partsFrom are the builds of a set that is offered whole. A part that has parts is refused.
func partsFrom(r *reader, list []*pb.Build) (parts []compute.Build) {
	if len(list) == 0 {
		return nil
	}
	r.needsSchema("parts", schemaWhole)
	if r.atMost("parts", len(list), compute.MaxSet); len(list) > compute.MaxSet {
		return nil
	}
	for _, m := range list {
		if len(m.GetParts()) > 0 {
			r.refuse(compute.Invalid("parts", fmt.Sprintf("%d in a part", len(m.GetParts())), "give parts without parts"))
			return nil
		}
		parts = append(parts, buildFrom(r, m))
	}
	return parts
}

// mostHold bounds how long a build may have a host hold room for it.
const mostHold = time.Hour

func holdFrom(r *reader, m *durationpb.Duration) time.Duration {
	hold := r.duration("hold", m)
	if m != nil {
		r.needsSchema("hold", schemaSets)
	}
	if hold < 0 || hold > mostHold {
		r.refuse(compute.Invalid("hold", hold.String(), "give at most "+mostHold.String()))
	}
	return hold
}

func buildGroupTo(g *compute.BuildGroup) *pb.BuildGroup {
	if g == nil {
		return nil
	}
	return &pb.BuildGroup{Name: text(g.Name), Most: g.Most, Until: stamp(g.Until), Full: texts(g.Full)}
}

func buildGroupFrom(r *reader, m *pb.BuildGroup) *compute.BuildGroup {
	if m == nil {
		return nil
	}
	g := &compute.BuildGroup{
		Name:  needsSchema(r, "group", schemaGroups, compute.GroupName(m.GetName())),
		Most:  m.GetMost(),
		Until: r.time("group.until", m.GetUntil()),
		Full:  words[compute.HostID](m.GetFull()),
	}
	r.check(g.Name.Check())
	r.atMost("group.full", len(g.Full), compute.MaxFullHosts)
	return g
}
