// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

// NewID makes the name of an instance that is still to be booted. Keep it: it
// is what a repeat of the request is recognised by.
func NewID() compute.InstanceID { return compute.InstanceID(uuid.NewString()) }

// Record makes the record of a request, as Publish sends it: no topic, no
// partition. A request that Berth would not take is refused with an error of
// KindInvalid that names field, value and remedy.
func Record(q compute.Request) (wire.Record, error) {
	if err := check(q); err != nil {
		return wire.Record{}, refused(q, err)
	}
	rec := wire.EncodeRequest(q)
	// The conductor reads it with this, so what passes here passes there.
	if _, err := wire.DecodeRequest(rec); err != nil {
		return wire.Record{}, refused(q, err)
	}
	return rec, nil
}

// JSON makes the record of a request with a JSON body, for a Kafka client that
// the caller drives. It differs from Record in the body and in one header,
// content-type: application/json. Key and partition are the same.
func JSON(q compute.Request) (wire.Record, error) {
	rec, err := Record(q)
	if err != nil {
		return wire.Record{}, err
	}
	m := &pb.Request{}
	if err := proto.Unmarshal(rec.Value, m); err != nil {
		return wire.Record{}, refused(q, err)
	}
	spaced, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return wire.Record{}, refused(q, err)
	}
	var body bytes.Buffer
	if err := json.Compact(&body, spaced); err != nil { // protojson varies its spaces
		return wire.Record{}, refused(q, err)
	}
	rec.Value = body.Bytes()
	rec.Headers = append(rec.Headers, wire.Header{Key: wire.HeaderContentType, Value: []byte(wire.ContentJSON)})
	if _, err := wire.DecodeRequest(rec); err != nil { // Base64 makes user data longer
		return wire.Record{}, refused(q, err)
	}
	return rec, nil
}

// check is what a publisher asks of a request beyond compute.Request.Check.
func check(q compute.Request) error {
	host := q.Op.OfHost()
	if q.Instance == "" && !host && q.Op != compute.OpNone {
		return &compute.Error{
			Kind: compute.KindInvalid, Field: "instance id", Value: "", Message: "is missing",
			Remedy: "give the UUID of the instance, chosen before a boot is first published (publish.NewID " +
				"makes one) and kept for its repeats",
		}
	}
	if q.Op != compute.OpBoot && q.Boot != nil {
		return compute.Invalid("boot", q.Op.String(), "leave it out: only a boot carries what to boot")
	}
	if q.Op != compute.OpBootSet && q.Set != nil {
		return compute.Invalid("set", q.Op.String(), "leave it out: only a boot-set carries several boots")
	}
	if q.Op != compute.OpChange && q.Change != nil {
		return compute.Invalid("change", q.Op.String(), "leave it out: only a change says what is to change")
	}
	if err := q.Check(); err != nil {
		return err
	}
	if host && (q.Project != "" || q.Instance != "") {
		return compute.Invalid("project", string(q.Project),
			"leave project and instance out: "+q.Op.String()+" is about a host")
	}
	if q.Op == compute.OpReboot && q.Command == "" {
		return compute.Invalid("command", "", "give the reboot an id, so that a repeat reboots once")
	}
	return checkText(q)
}

// checkText refuses text that protobuf and JSON cannot carry as it is.
func checkText(q compute.Request) error {
	if q.Op == compute.OpBootSet {
		for _, b := range q.Boots() {
			if err := checkText(b); err != nil {
				return err
			}
		}
		return nil
	}
	texts := map[string]string{"command": string(q.Command)}
	var metadata map[string]string
	if q.Boot != nil {
		texts["name"], texts["image"] = q.Boot.Name, q.Boot.Image
		metadata = q.Boot.Metadata
	}
	if c := q.Change; c != nil {
		if c.Name != nil {
			texts["name"] = *c.Name
		}
		metadata = c.Set
		texts["metadata to remove"] = strings.Join(c.Remove, ", ")
	}
	for k, v := range metadata {
		texts["metadata"] = k
		texts["metadata of "+k] = v
		if !utf8.ValidString(k) {
			break
		}
	}
	for field, text := range texts {
		if !utf8.ValidString(text) {
			return compute.Invalid(field, fmt.Sprintf("%+q", text), "give text in UTF-8; user data may be any bytes")
		}
	}
	return nil
}

// refused adds what was being done.
func refused(q compute.Request, err error) error {
	var e *compute.Error
	if !errors.As(err, &e) {
		e = &compute.Error{Kind: compute.KindInvalid, Message: "cannot be encoded", Cause: err}
	}
	out := *e
	out.Op = op(q)
	return &out
}
