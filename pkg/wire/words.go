// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/berth-project/berth/pkg/compute"
)

// reader turns a message into words and keeps the first thing that is wrong.
type reader struct {
	rec Record
	err error
}

func (r *reader) refuse(err error) {
	if r.err == nil {
		r.err = err
	}
}

// check keeps the verdict of a word's own Check.
func (r *reader) check(err error) {
	if err != nil {
		r.refuse(err)
	}
}

// atMost refuses what is longer than most bytes.
func (r *reader) atMost(field string, got, most int) {
	if got > most {
		r.refuse(compute.Invalid(field, fmt.Sprintf("%d bytes", got), fmt.Sprintf("give at most %d bytes", most)))
	}
}

// key refuses a record whose key, if it has one, is not want: a compacted topic
// would keep it in another's place, a partitioned one in another's order.
func (r *reader) key(want []byte) {
	if len(r.rec.Key) > 0 && string(r.rec.Key) != string(want) {
		r.refuse(&compute.Error{
			Kind: compute.KindInvalid, Field: "key", Value: string(r.rec.Key),
			Message: fmt.Sprintf("is not that of its body, %q", cut(string(want), maxShown)),
			Remedy:  "give the key that the body asks for, or none",
		})
	}
}

// trace is the record's; empty if there is none that can be used.
func (r *reader) trace() compute.Trace {
	if t := compute.Trace(r.rec.Header(HeaderTrace)); travels(t) {
		return t
	}
	return ""
}

func (r *reader) time(field string, t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	if !t.IsValid() {
		r.refuse(compute.Invalid(field, fmt.Sprintf("%d s %d ns", t.Seconds, t.Nanos),
			"give a time from year 1 to 9999, nanoseconds from 0 to 999999999"))
		return time.Time{}
	}
	return t.AsTime()
}

// said is when a record was written: by the broker's clock where that is known, else
// by its producer's.
func (r *reader) said(field string, t *timestamppb.Timestamp) time.Time {
	at := r.time(field, t)
	if r.rec.Logged && r.rec.Time.Unix() > 0 {
		return r.rec.Time.UTC()
	}
	return at
}

func (r *reader) duration(field string, d *durationpb.Duration) time.Duration {
	if d != nil && !d.IsValid() {
		r.refuse(compute.Invalid(field, fmt.Sprintf("%d s %d ns", d.Seconds, d.Nanos),
			"give seconds and nanoseconds of the same sign, below 10,000 years"))
	}
	return d.AsDuration()
}

// stamp is absent for the zero time, and for times that no reader would take.
func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	if ts := timestamppb.New(t); ts.IsValid() {
		return ts
	}
	return nil
}

// span is absent for zero.
func span(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// text is s for a protobuf string, which must be UTF-8; what comes from a
// hypervisor or a log need not be.
func text[S ~string](s S) string { return strings.ToValidUTF8(string(s), "\uFFFD") }

// cut is the first most bytes of s, without half a character at the end.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// texts is a list of words for protobuf.
func texts[S ~string](in []S) []string {
	var out []string
	for _, s := range in {
		out = append(out, text(s))
	}
	return out
}

// words is a protobuf list as words; nil if empty.
func words[S ~string](in []string) []S {
	var out []S
	for _, s := range in {
		out = append(out, S(s))
	}
	return out
}

// textMap is a map of words for protobuf.
func textMap[K, V ~string](in map[K]V) map[string]string {
	out := make(map[string]string, len(in))
	for k, v := range in {
		out[text(k)] = text(v)
	}
	return out
}

// wordMap is a protobuf map as words; nil if empty.
func wordMap[K, V ~string](in map[string]string) map[K]V {
	if len(in) == 0 {
		return nil
	}
	out := make(map[K]V, len(in))
	for k, v := range in {
		out[K(k)] = V(v)
	}
	return out
}

func amounts(in compute.Resources) map[string]int64 {
	out := make(map[string]int64, len(in))
	for class, n := range in {
		out[text(class)] = n
	}
	return out
}

// resources is nil if empty.
func resources(in map[string]int64) compute.Resources {
	if len(in) == 0 {
		return nil
	}
	out := make(compute.Resources, len(in))
	for class, n := range in {
		out[compute.ResourceClass(class)] = n
	}
	return out
}

// bytesOrNil makes empty and absent one.
func bytesOrNil(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}
