// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/berth-project/berth/pkg/compute"
)

// seal makes the record of a message. Equal messages give equal bytes.
func seal(key []byte, m proto.Message, trace compute.Trace) Record {
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		// Only text that is not UTF-8 could do it, and text sees to that.
		panic("wire: " + err.Error())
	}
	headers := []Header{{Key: HeaderSchema, Value: schemaValue(compute.FirstSchema)}}
	if travels(trace) {
		headers = append(headers, Header{Key: HeaderTrace, Value: []byte(trace)})
	}
	return Record{Key: key, Value: value, Headers: headers}
}

// decode reads what kind of record rec is into m and then into words.
func decode[M proto.Message, W any](kind string, rec Record, m M, from func(*reader, M) W) (W, error) {
	return decodeBody(kind, rec, m, unmarshal, from)
}

// decodeBody is decode for a body that need not be binary.
func decodeBody[M proto.Message, W any](
	kind string, rec Record, m M, body func([]byte, proto.Message) error, from func(*reader, M) W,
) (W, error) {
	var zero W
	if err := open(rec, m, body); err != nil {
		return zero, refused(kind, err)
	}
	r := &reader{rec: rec}
	w := from(r, m)
	if r.err != nil {
		return zero, refused(kind, r.err)
	}
	return w, nil
}

func open(rec Record, m proto.Message, body func([]byte, proto.Message) error) error {
	if rec.Unread != nil {
		return rec.Unread
	}
	if err := checkSchema(rec); err != nil {
		return err
	}
	if rec.Value == nil {
		return &compute.Error{
			Kind: compute.KindInvalid, Field: "value",
			Message: "is missing: this is a tombstone", Remedy: "send a record with a body",
		}
	}
	return body(rec.Value, m)
}

// checkSchema refuses what a later Berth wrote: reading half of it would mislead.
func checkSchema(rec Record) error {
	header := rec.Header(HeaderSchema)
	if header == nil {
		return nil
	}
	n, err := strconv.Atoi(string(header))
	if err != nil || n < 1 {
		return compute.Invalid(HeaderSchema, string(header),
			fmt.Sprintf("give a whole number from 1 to %d, or leave the header out", Schema))
	}
	if n > Schema {
		return &compute.Error{
			Kind: compute.KindInvalid, Field: HeaderSchema, Value: string(header),
			Message: fmt.Sprintf("is newer than %d, the newest this version reads", Schema),
			Remedy:  "upgrade the readers of this topic before its writers",
		}
	}
	return nil
}

func unmarshal(value []byte, m proto.Message) error {
	err := proto.Unmarshal(value, m)
	if err == nil {
		return nil
	}
	e := &compute.Error{
		Kind: compute.KindInvalid, Field: "value", Value: fmt.Sprintf("%d bytes", len(value)),
		Message: "is no protobuf " + string(m.ProtoReflect().Descriptor().FullName()),
		Remedy:  "encode it as proto/berth/v1 says",
		Cause:   brief(err),
	}
	if value[0] == '{' {
		e.Remedy = "if it is meant as JSON, which only requests may be, add the header " + HeaderContentType +
			": " + ContentJSON
	}
	return e
}

// refused adds what was being read. Whatever comes in, a *compute.Error of
// KindInvalid goes out.
func refused(kind string, err error) error {
	var e *compute.Error
	if !errors.As(err, &e) {
		e = &compute.Error{Kind: compute.KindInvalid, Message: "cannot be read", Cause: err}
	}
	out := *e
	out.Op, out.Kind, out.Value = "read "+kind, compute.KindInvalid, cut(out.Value, maxShown)
	return &out
}

// maxShown keeps a hostile value from filling the rejected topic, in bytes.
const maxShown = 256

// brief is err, with a text of bounded length.
func brief(err error) error { return errors.New(cut(err.Error(), maxShown)) }

// maxTrace is well above a W3C traceparent (55 bytes).
const maxTrace = 128

// travels says whether t may be a header: a traceparent as W3C has it, and in later versions what is longer. A trace
// that is none is dropped, as W3C asks, and never a reason to refuse a record.
func travels(t compute.Trace) bool {
	const form = "00-00000000000000000000000000000000-0000000000000000-00"
	if len(t) < len(form) || len(t) > maxTrace ||
		len(t) > len(form) && (string(t[:2]) == form[:2] || t[len(form)] != '-') {
		return false
	}
	for i, c := range []byte(t) {
		switch {
		case i >= len(form): // of a later version
			if c <= ' ' || c > '~' {
				return false
			}
		case form[i] == '-':
			if c != '-' {
				return false
			}
		case (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return false
		}
	}
	return true
}
