// SPDX-License-Identifier: Apache-2.0

// Package tracingtest is a collector of traces for tests.
package tracingtest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/berth-project/berth/pkg/compute"
)

// Collector takes spans as OTLP over HTTP until the test ends.
type Collector struct {
	URL string

	mu  sync.Mutex
	all []Span
}

// Span is what came of one; ids are hexadecimal.
type Span struct {
	Service, Name       string
	TraceID, ID, Parent string // no Parent: it is the first of its trace
	From, To            time.Time
	Failed              string
	Attributes          map[string]string
}

// Context is the traceparent of what is below the span.
func (s Span) Context() compute.Trace { return compute.Trace("00-" + s.TraceID + "-" + s.ID + "-01") }

// New is a collector that has no spans yet.
func New(t *testing.T) *Collector {
	t.Helper()
	c := &Collector{}
	to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/traces" || r.Method != http.MethodPost {
			t.Errorf("spans go to %s %s", r.Method, r.URL)
		}
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err == nil {
			err = proto.Unmarshal(body, &data)
		}
		if err != nil {
			t.Error(err)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c.take(&data)
	}))
	t.Cleanup(to.Close)
	c.URL = to.URL
	return c
}

// Spans are all that have come, by when they begin.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.all)
	slices.SortStableFunc(all, func(a, b Span) int { return a.From.Compare(b.From) })
	return all
}

func (c *Collector) take(data *tracepb.TracesData) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range data.ResourceSpans {
		service := attributes(r.GetResource().GetAttributes())["service.name"]
		for _, scope := range r.ScopeSpans {
			for _, s := range scope.Spans {
				c.all = append(c.all, Span{
					Service: service, Name: s.Name, TraceID: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId),
					Parent: hex.EncodeToString(s.ParentSpanId), Failed: s.GetStatus().GetMessage(),
					From: time.Unix(0, int64(s.StartTimeUnixNano)), To: time.Unix(0, int64(s.EndTimeUnixNano)),
					Attributes: attributes(s.Attributes),
				})
			}
		}
	}
}

func attributes(all []*commonpb.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range all {
		switch v := a.Value.GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			out[a.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			out[a.Key] = strconv.FormatInt(v.IntValue, 10)
		}
	}
	return out
}
