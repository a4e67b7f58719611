// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"regexp"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

// Limits of what others may send. A request at its limit still makes records of
// the instance below Kafka's limit of 1 MiB a batch.
const (
	MaxRequest = 512 << 10 // bytes of a request's body, as JSON or not
	MaxID      = 128       // bytes of a claim, command or journal id
)

// EncodeRequest makes the record of a request; its key is the project, or the
// host for what is OfHost.
func EncodeRequest(q compute.Request) Record {
	m := &pb.Request{
		Project:  text(q.Project),
		Instance: text(q.Instance),
		Command:  text(q.Command),
		At:       stamp(q.At),
	}
	switch q.Op {
	case compute.OpBoot:
		m.Operation = &pb.Request_Boot{Boot: bootTo(q.Boot)}
	case compute.OpBootSet:
		m.Operation = &pb.Request_BootSet{BootSet: bootSetTo(q.Set)}
	case compute.OpReserve:
		m.Operation = &pb.Request_Reserve{Reserve: reserveTo(q.Reserve)}
	case compute.OpDelete:
		m.Operation = &pb.Request_Delete{Delete: &pb.DeleteInstance{}}
	case compute.OpStop:
		m.Operation = &pb.Request_Stop{Stop: &pb.StopInstance{Hard: q.Hard}}
	case compute.OpStart:
		m.Operation = &pb.Request_Start{Start: &pb.StartInstance{}}
	case compute.OpReboot:
		m.Operation = &pb.Request_Reboot{Reboot: &pb.RebootInstance{Hard: q.Hard}}
	case compute.OpFence:
		m.Operation = &pb.Request_Fence{Fence: &pb.FenceHost{Host: text(q.Host), Epoch: uint64(q.Fence)}}
	case compute.OpForget:
		m.Operation = &pb.Request_Forget{Forget: &pb.ForgetHost{Host: text(q.Host), Epoch: uint64(q.Fence)}}
	case compute.OpChange:
		m.Operation = &pb.Request_Change{Change: changeTo(q.Change)}
	case compute.OpConfirm:
		m.Operation = &pb.Request_Confirm{Confirm: &pb.ConfirmHost{Host: text(q.Host)}}
	}
	rec := seal(requestKey(q), m, q.Trace)
	switch {
	case q.Op == compute.OpBoot && q.Boot != nil:
		return rec.inLeastSchema(bootSays(q.Boot))
	case q.Op == compute.OpReserve:
		return rec.inLeastSchema(says{reserved: true})
	case q.Op == compute.OpBootSet:
		return rec.inLeastSchema(setSays(q.Set))
	}
	return rec
}

// setSays is what the boots of a set say together.
func setSays(set []compute.SetBoot) says {
	all := says{ofSet: true}
	for i := range set {
		all.ranked = all.ranked || set[i].Boot.Priority() != compute.PriorityNormal
	}
	return all
}

func bootSetTo(set []compute.SetBoot) *pb.BootSet {
	out := &pb.BootSet{}
	for i := range set {
		out.Boots = append(out.Boots, &pb.SetBoot{Instance: text(set[i].Instance), Boot: bootTo(&set[i].Boot)})
	}
	return out
}

func bootSetFrom(r *reader, m *pb.BootSet) (set []compute.SetBoot) {
	if r.atMost("boots", len(m.GetBoots()), compute.MaxSet); r.err != nil {
		return nil
	}
	r.needsSchema("boot_set", schemaSets)
	for _, b := range m.GetBoots() {
		set = append(set, compute.SetBoot{Instance: compute.InstanceID(b.GetInstance()), Boot: bootFrom(r, b.GetBoot())})
	}
	return set
}

func changeTo(c *compute.Change) *pb.ChangeInstance {
	if c == nil {
		return &pb.ChangeInstance{}
	}
	out := &pb.ChangeInstance{Set: textMap(c.Set), Remove: texts(c.Remove)}
	if c.Name != nil {
		name := text(*c.Name)
		out.Name = &name
	}
	return out
}

func requestKey(q compute.Request) []byte {
	if q.Op.OfHost() {
		return KeyHost(q.Host)
	}
	return []byte(q.Project)
}

// DecodeRequest reads a request, in protobuf or, if its content type says so,
// in JSON. What it answers has passed Request.Check; At is set if the record has
// a time, and is the broker's where that is known: the API node's clock may be wrong.
func DecodeRequest(rec Record) (compute.Request, error) {
	return decodeBody("request", rec, &pb.Request{}, requestBody(rec), requestFrom)
}

func requestFrom(r *reader, m *pb.Request) compute.Request {
	q := compute.Request{
		Project:  compute.Project(m.GetProject()),
		Instance: compute.InstanceID(m.GetInstance()),
		Command:  compute.CommandID(m.GetCommand()),
		At:       r.said("at", m.GetAt()),
		Trace:    r.trace(),
	}
	if q.At.IsZero() && r.rec.Time.Unix() > 0 { // a record may have no time: Kafka says -1 then
		q.At = r.rec.Time.UTC()
	}
	switch op := m.GetOperation().(type) {
	case *pb.Request_Boot:
		boot := bootFrom(r, op.Boot)
		q.Op, q.Boot = compute.OpBoot, &boot
	case *pb.Request_BootSet:
		q.Op, q.Set = compute.OpBootSet, bootSetFrom(r, op.BootSet)
	case *pb.Request_Reserve:
		q.Op, q.Reserve = compute.OpReserve, reserveFrom(r, op.Reserve)
	case *pb.Request_Delete:
		q.Op = compute.OpDelete
	case *pb.Request_Stop:
		q.Op, q.Hard = compute.OpStop, op.Stop.GetHard()
	case *pb.Request_Start:
		q.Op = compute.OpStart
	case *pb.Request_Reboot:
		q.Op, q.Hard = compute.OpReboot, op.Reboot.GetHard()
	case *pb.Request_Fence:
		q.Op, q.Host, q.Fence = compute.OpFence, compute.HostID(op.Fence.GetHost()),
			compute.FenceEpoch(op.Fence.GetEpoch())
	case *pb.Request_Forget:
		q.Op, q.Host, q.Fence = compute.OpForget, compute.HostID(op.Forget.GetHost()),
			compute.FenceEpoch(op.Forget.GetEpoch())
	case *pb.Request_Change:
		q.Op, q.Change = compute.OpChange, &compute.Change{
			Name: op.Change.Name, Set: wordMap[string, string](op.Change.GetSet()),
			Remove: words[string](op.Change.GetRemove()),
		}
	case *pb.Request_Confirm:
		q.Op, q.Host = compute.OpConfirm, compute.HostID(op.Confirm.GetHost())
	}
	r.atMost("command", len(q.Command), MaxID)
	r.check(q.Check())
	if !q.Op.OfHost() {
		r.key(requestKey(q))
	}
	return q
}

// requestBody chooses how to read a request's body, once its size is known to
// be harmless.
func requestBody(rec Record) func([]byte, proto.Message) error {
	return func(value []byte, m proto.Message) error {
		r := &reader{}
		if r.atMost("value", len(value), MaxRequest); r.err != nil {
			return r.err
		}
		contentType, _, _ := strings.Cut(string(rec.Header(HeaderContentType)), ";")
		switch strings.ToLower(strings.TrimSpace(contentType)) {
		case ContentJSON:
			return unmarshalJSON(value, m)
		case "", "application/protobuf", "application/x-protobuf":
			return unmarshal(value, m)
		}
		return compute.Invalid(HeaderContentType, cut(contentType, maxShown),
			"give "+ContentJSON+", or application/protobuf, or leave the header out")
	}
}

// unknownField finds the name in protojson's error, which has no field for it.
var unknownField = regexp.MustCompile(`unknown field "([^"]*)"`)

func unmarshalJSON(value []byte, m proto.Message) error {
	err := protojson.Unmarshal(value, m)
	if err == nil {
		return nil
	}
	if found := unknownField.FindStringSubmatch(err.Error()); found != nil {
		return &compute.Error{
			Kind: compute.KindInvalid, Field: "field", Value: cut(found[1], maxShown),
			Message: "is no field of this body", Remedy: "see proto/berth/v1/request.proto for the names",
			Cause: brief(err),
		}
	}
	return &compute.Error{
		Kind: compute.KindInvalid, Field: "value", Value: cut(string(value), maxShown),
		Message: "is no JSON of a request", Remedy: "see proto/berth/v1/request.proto for an example",
		Cause: brief(err),
	}
}
