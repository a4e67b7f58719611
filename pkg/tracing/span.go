// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/berth-project/berth/pkg/compute"
)

// Span is one step of a boot that is over.
type Span struct {
	Name     string
	Trace    compute.Trace // the context that the boot travels under
	From, To time.Time
	Failed   string // why it came to nothing; empty: it did not

	// Boot says that it is the span that Trace itself names, which all others of the boot are below; Caller is the
	// context of what asked for the boot, if anything. Else the span is below Trace.
	Boot   bool
	Caller compute.Trace

	Instance compute.InstanceID
	Project  compute.Project
	Queue    compute.QueueName // this and what follows: empty or 0 if the step knows of none
	Host     compute.HostID
	Attempt  compute.Attempt
}

// Tell sends a span to the collector, if its boot is traced. It neither blocks nor fails: spans that come faster than
// the collector takes them are left out.
func (t *Tracer) Tell(s Span) {
	if t == nil || s.Trace == "" {
		return
	}
	of := contextOf(s.Trace)
	if !of.IsSampled() {
		return
	}
	ctx, kind := context.Background(), trace.SpanKindInternal
	if s.Boot {
		ctx, kind = context.WithValue(ctx, chosenIDs{}, of), trace.SpanKindServer
		of = contextOf(s.Caller)
	}
	if of.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, of)
	}
	_, span := t.tracer.Start(ctx, s.Name,
		trace.WithTimestamp(s.From), trace.WithSpanKind(kind), trace.WithAttributes(s.attributes()...))
	if s.Failed != "" {
		span.SetStatus(codes.Error, s.Failed)
	}
	span.End(trace.WithTimestamp(later(s.From, s.To)))
}

// later keeps spans of two clocks from ending before they begin.
func later(from, to time.Time) time.Time {
	if to.Before(from) {
		return from
	}
	return to
}

func (s Span) attributes() []attribute.KeyValue {
	all := []attribute.KeyValue{
		attribute.String("berth.instance", string(s.Instance)), attribute.String("berth.project", string(s.Project)),
	}
	if s.Queue != "" {
		all = append(all, attribute.String("berth.queue", string(s.Queue)))
	}
	if s.Host != "" {
		all = append(all, attribute.String("berth.host", string(s.Host)))
	}
	if s.Attempt != 0 {
		all = append(all, attribute.Int64("berth.attempt", int64(s.Attempt)))
	}
	return all
}
