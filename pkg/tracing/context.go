// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
)

// Begin answers the context that a boot is to travel under, from the first process of Berth that sees it. With a caller
// that is traced it is a span of the caller's trace; a caller that is not keeps its context. Without a caller so many
// boots are traced as the ratio says, always the same ones whatever process asks: those traces have the instance's id,
// without its dashes. Empty: the boot is not traced, and its records carry nothing.
//
// The answer depends on the arguments alone, so that it may be asked for again.
func (t *Tracer) Begin(id compute.InstanceID, caller compute.Trace, at time.Time) compute.Trace {
	if t == nil {
		return caller
	}
	parent := contextOf(caller)
	if parent.IsValid() && !parent.IsSampled() {
		return caller
	}
	in := parent.TraceID()
	if !parent.IsValid() {
		if in = traceOf(id); !in.IsValid() || !t.samples(id) {
			return ""
		}
	}
	span := hash(string(id), string(caller), at.UTC().Format(time.RFC3339Nano)) | 1 // never 0, which is none
	return compute.Trace(fmt.Sprintf("00-%s-%016x-%s", in, span, trace.FlagsSampled))
}

// samples says whether a boot without a caller's trace is traced.
func (t *Tracer) samples(id compute.InstanceID) bool {
	return t.ratio >= 1 || float64(hash(string(id))) < t.ratio*(1<<64)
}

// ID is the id of the trace that a context is in; empty if it is none, or is not recorded.
func ID(t compute.Trace) string {
	if t == "" {
		return ""
	}
	if c := contextOf(t); c.IsSampled() {
		return c.TraceID().String()
	}
	return ""
}

// Valid says whether a context is one: of the right form, and of a trace and a span that there can be.
func Valid(t compute.Trace) bool { return contextOf(t).IsValid() }

// Field is the id of a trace in a line of a log; nothing where there is none.
func Field(t compute.Trace) zap.Field {
	if id := ID(t); id != "" {
		return zap.String("trace", id)
	}
	return zap.Skip()
}

// traceOf is the trace of an instance that nobody's trace asked for.
func traceOf(id compute.InstanceID) (out trace.TraceID) {
	b, err := hex.DecodeString(strings.ReplaceAll(string(id), "-", ""))
	if err != nil || len(b) != len(out) {
		return trace.TraceID{}
	}
	return trace.TraceID(b)
}

// contextOf reads a traceparent; what is none gives a context that is not valid.
func contextOf(t compute.Trace) trace.SpanContext {
	if t == "" {
		return trace.SpanContext{}
	}
	header := propagation.MapCarrier{"traceparent": string(t)}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), header))
}

func hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p)) // a hash takes everything
		_, _ = h.Write([]byte{0})
	}
	// FNV leaves alike what differs in its last letters alone: this spreads it, as the end of MurmurHash3 does.
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// chosenIDs in a context is the trace.SpanContext that the next span is to have.
type chosenIDs struct{}

// ids makes the ids of spans: those that were chosen, or random ones.
type ids struct{}

func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if c, ok := ctx.Value(chosenIDs{}).(trace.SpanContext); ok {
		return c.TraceID(), c.SpanID()
	}
	var id trace.TraceID
	_, _ = rand.Read(id[:]) // it never fails
	return id, random()
}

func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if c, ok := ctx.Value(chosenIDs{}).(trace.SpanContext); ok {
		return c.SpanID()
	}
	return random()
}

func random() (id trace.SpanID) {
	_, _ = rand.Read(id[:]) // it never fails
	binary.BigEndian.PutUint64(id[:], binary.BigEndian.Uint64(id[:])|1)
	return id
}
