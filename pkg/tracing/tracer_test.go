// SPDX-License-Identifier: Apache-2.0

package tracing_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/leaktest"
	"github.com/berth-project/berth/pkg/tracing"
	"github.com/berth-project/berth/pkg/tracing/tracingtest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Main(m.Run)) }

const (
	id     = compute.InstanceID("0af76519-16cd-43dd-8448-eb211c80319c")
	caller = compute.Trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
)

func at(seconds int) time.Time { return time.Date(2026, 5, 1, 2, 3, seconds, 0, time.UTC) }

// soon has spans sent at once, and not when some seconds have passed or with Close, which gives a collector no more than
// a few.
func soon(t *testing.T) { t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1") }

// until waits for what a collector is told to come true.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick, late := time.NewTicker(time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func TestSpans(t *testing.T) {
	soon(t)
	collector := tracingtest.New(t)
	tracer := tracing.New(tracing.Options{Endpoint: collector.URL, Ratio: 1, Service: "berth-api"})
	under := tracer.Begin(id, caller, at(0))
	tracer.Tell(tracing.Span{
		Name: "boot", Trace: under, Boot: true, Caller: caller, From: at(0), To: at(1), Instance: id, Project: "p",
	})
	tracer.Tell(tracing.Span{
		Name: "prepare", Trace: under, From: at(2), To: at(4), Failed: "no disk", Instance: id, Project: "p",
		Queue: "q", Host: "h1", Attempt: 2,
	})
	tracer.Tell(tracing.Span{Name: "claim", Trace: under, From: at(5), To: at(4), Instance: id})
	tracer.Tell(tracing.Span{Name: "launch", Trace: caller[:len(caller)-1] + "0", From: at(5), To: at(6)}) // not traced
	tracer.Tell(tracing.Span{Name: "launch", From: at(5), To: at(6)})
	until(t, "three spans have come", func() bool { return len(collector.Spans()) >= 3 })
	if err := tracer.Close(); err != nil {
		t.Fatal(err)
	}
	tracer.Tell(tracing.Span{Name: "late", Trace: under, From: at(5), To: at(6)})

	all := collector.Spans()
	if len(all) != 3 {
		t.Fatalf("%d spans came: %+v", len(all), all)
	}
	boot, prepare, claim := all[0], all[1], all[2]
	for _, s := range all {
		if s.TraceID != "4bf92f3577b34da6a3ce929d0e0e4736" || s.Service != "berth-api" {
			t.Errorf("%+v", s)
		}
	}
	if boot.Parent != "00f067aa0ba902b7" || boot.Context() != under || boot.Failed != "" {
		t.Errorf("the span of the boot is %+v; its context is %s", boot, under)
	}
	if prepare.Parent != boot.ID || !prepare.From.Equal(at(2)) || !prepare.To.Equal(at(4)) || prepare.Failed != "no disk" {
		t.Errorf("%+v", prepare)
	}
	for key, want := range map[string]string{
		"berth.instance": string(id), "berth.project": "p", "berth.queue": "q", "berth.host": "h1", "berth.attempt": "2",
	} {
		if prepare.Attributes[key] != want {
			t.Errorf("%s is %q, not %q", key, prepare.Attributes[key], want)
		}
	}
	if !claim.From.Equal(at(5)) || !claim.To.Equal(at(5)) {
		t.Errorf("a span that ends before it begins is %+v", claim)
	}
}

// A collector that is not there is a line in the log, once in a while, and nothing waits for it.
func TestCollectorFails(t *testing.T) {
	soon(t)
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not here", http.StatusNotFound)
	}))
	defer refuses.Close()
	core, seen := observer.New(zapcore.WarnLevel)
	tracer := tracing.New(tracing.Options{Endpoint: refuses.URL, Ratio: 1, Service: "berth-api", Log: zap.New(core)})
	under := tracer.Begin(id, "", at(0))
	for range 5000 {
		tracer.Tell(tracing.Span{Name: "boot", Trace: under, Boot: true, From: at(0), To: at(1), Instance: id})
	}
	until(t, "the log says so", func() bool { return seen.Len() > 0 })
	if err := tracer.Close(); err != nil {
		t.Error(err)
	}
	if lines := seen.All(); len(lines) != 1 {
		t.Errorf("the log says: %v", lines)
	}
}

// A collector that sends spans elsewhere does not get them there.
func TestCollectorRedirects(t *testing.T) {
	soon(t)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("spans are sent elsewhere")
	}))
	defer elsewhere.Close()
	sends := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer sends.Close()
	core, seen := observer.New(zapcore.WarnLevel)
	tracer := tracing.New(tracing.Options{Endpoint: sends.URL, Ratio: 1, Service: "berth-api", Log: zap.New(core)})
	tracer.Tell(tracing.Span{Name: "boot", Trace: tracer.Begin(id, "", at(0)), Boot: true, From: at(0), To: at(1), Instance: id})
	until(t, "the log says so", func() bool { return seen.Len() > 0 })
	if err := tracer.Close(); err != nil {
		t.Error(err)
	}
	if lines := seen.All(); len(lines) != 1 {
		t.Errorf("the log says: %v", lines)
	}
}

func TestCheckEndpoint(t *testing.T) {
	for endpoint, ok := range map[string]bool{
		"": true, "http://127.0.0.1:4318": true, "https://otel.example/v1/traces": true,
		"127.0.0.1:4318": false, "grpc://h:4317": false, "http://": false, "http://user:pw@h": false, "http://[": false,
	} {
		if err := tracing.CheckEndpoint("tracing.endpoint", endpoint); (err == nil) != ok {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}

// Off, and for boots that are not traced, a span costs no allocation.
func TestNothingIsAllocatedForNothing(t *testing.T) {
	var off *tracing.Tracer
	collector := tracingtest.New(t)
	on := tracing.New(tracing.Options{Endpoint: collector.URL, Service: "berth-api"})
	span := tracing.Span{Name: "queue", From: at(0), To: at(1), Instance: id, Project: "p", Host: "h1"}
	traced := span
	traced.Trace = caller
	if n := testing.AllocsPerRun(100, func() {
		off.Tell(traced)
		_ = off.Begin(id, "", at(0))
		on.Tell(span)
		_ = tracing.ID("")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { on.Tell(traced) }); n == 0 {
		t.Error("a span costs nothing: this test proves nothing")
	}
	if err := on.Close(); err != nil {
		t.Error(err)
	}
}

// BenchmarkTell is what a step of a boot costs: off, left out by the ratio, and traced.
func BenchmarkTell(b *testing.B) {
	on := tracing.New(tracing.Options{Endpoint: "http://127.0.0.1:1", Service: "berth-api"})
	defer func() { _ = on.Close() }()
	span := tracing.Span{Name: "queue", From: at(0), To: at(1), Instance: id, Project: "p", Host: "h1"}
	traced := span
	traced.Trace = caller
	for _, c := range []struct {
		name   string
		tracer *tracing.Tracer
		span   tracing.Span
	}{{"off", nil, traced}, {"left out", on, span}, {"traced", on, traced}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.tracer.Tell(c.span)
			}
		})
	}
}
