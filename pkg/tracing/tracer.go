// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

// Options say where spans go. Endpoint is required.
type Options struct {
	Endpoint string  // http:// or https://, of a collector that takes OTLP over HTTP; without a path: /v1/traces there
	Ratio    float64 // of the boots whose callers say nothing of traces: 0 to 1
	Service  string  // what this process is: berth-api
	Log      *zap.Logger
}

// Tracer tells of the boots that are traced. A nil *Tracer begins no trace, tells nothing and costs nothing. Methods
// may be called from any goroutine.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	ratio    float64
}

// closeWithin is how long a process that ends waits for a collector to take its last spans.
const closeWithin = 3 * time.Second

// New has spans sent in the background until Close. A collector that does not answer is a line in the log and no error.
func New(o Options) *Tracer {
	exporter := otlptrace.NewUnstarted(newUploader(o))
	what := resource.NewSchemaless(attribute.String("service.name", o.Service))
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(exporter), sdk.WithResource(what), sdk.WithIDGenerator(ids{}),
		sdk.WithSampler(sdk.AlwaysSample()), // Begin has chosen
	)
	return &Tracer{provider: provider, tracer: provider.Tracer("github.com/berth-project/berth"), ratio: o.Ratio}
}

// Close sends what is left, for some seconds at most. Nothing is told afterwards.
func (t *Tracer) Close() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // spans that are lost are no reason to end with an error
	return nil
}
