// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"testing"
	"time"

	"github.com/berth-project/berth/conductor/admit"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/tracing"
	"github.com/berth-project/berth/pkg/tracing/tracingtest"
	"github.com/berth-project/berth/pkg/wire"
)

// tracedCell is a cell whose conductor traces every boot, and counts nothing. told waits until so many spans have come,
// and answers all that do.
func tracedCell(t *testing.T) (k *cell, told func(n int) []tracingtest.Span) {
	t.Helper()
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1") // they are sent at once: Close waits for some seconds only
	collector := tracingtest.New(t)
	tracer := tracing.New(tracing.Options{Endpoint: collector.URL, Ratio: 1, Service: "berth-conductor"})
	k = newCell(t)
	k.c.cfg.Tracer = tracer
	return k, func(n int) []tracingtest.Span {
		tick, late := time.NewTicker(time.Millisecond), time.After(time.Minute)
		defer tick.Stop()
		for len(collector.Spans()) < n {
			select {
			case <-tick.C:
			case <-late:
				t.Fatalf("told is %+v, want %d spans", collector.Spans(), n)
			}
		}
		if err := tracer.Close(); err != nil {
			t.Error(err)
		}
		return collector.Spans()
	}
}

// untraced is a boot that was published without a trace.
func (k *cell) untraced(n int, f compute.FlavorName) wire.Record {
	return k.requested(compute.Request{
		Op: compute.OpBoot, Project: "p", Instance: id(n), Boot: &compute.Boot{Flavor: f},
	})
}

func TestTraceOfDecisions(t *testing.T) {
	k, told := tracedCell(t)
	first := k.untraced(1, "m1.small")
	k.read(first, k.boot(2, "p"), k.untraced(3, "none"))
	under := k.c.states[first.Partition].Instance(id(1)).Trace
	k.read(first) // again: it is decided
	if again := k.c.states[first.Partition].Instance(id(1)).Trace; under == "" || again != under {
		t.Errorf("the boot travels under %q, and under %q when it is repeated", under, again)
	}
	claim := k.reported(compute.Report{
		Op: compute.ReportClaim, Host: "h1", Project: "p", Instance: id(1), Attempt: 1, Claim: "c1", Trace: under,
	})
	k.read(claim, claim) // a claim that is repeated is granted once

	got := map[string]tracingtest.Span{}
	for _, s := range told(4) {
		what := s.Name + " " + s.Attributes["berth.instance"]
		if _, twice := got[what]; twice {
			t.Errorf("%s is told twice", what)
		}
		got[what] = s
	}
	decide, grant := got["decide "+string(id(1))], got["grant "+string(id(1))]
	if len(got) != 4 || decide.Parent != "" || decide.Context() != under || grant.Parent != decide.ID {
		t.Errorf("told was %+v", got)
	}
	if s := got["decide "+string(id(2))]; s.TraceID != "0af7651916cd43dd8448eb211c80319c" ||
		s.Parent != "b7ad6b7169203331" {
		t.Errorf("of a boot that had a trace: %+v", s)
	}
	if s := got["decide "+string(id(3))]; s.Failed != "NoSuchFlavor" {
		t.Errorf("of a boot that was refused: %+v", s)
	}
}

// A boot whose trace is of the form and can be none, as all zeros, is traced as one without.
func TestTraceThatCannotBe(t *testing.T) {
	k, told := tracedCell(t)
	rec := k.requested(compute.Request{
		Op: compute.OpBoot, Project: "p", Instance: id(1), Boot: &compute.Boot{Flavor: "m1.small"},
		Trace: "00-00000000000000000000000000000000-0000000000000000-01",
	})
	k.read(rec)
	if spans := told(1); len(spans) != 1 || spans[0].Name != "decide" || spans[0].Parent != "" {
		t.Errorf("told was %+v", spans)
	}
}

// A conductor that traces nothing allocates nothing for it.
func TestNoTraceCostsNothing(t *testing.T) {
	k := newCell(t)
	rec, turn := k.boot(1, "p"), k.c.turn(k.now)
	r, err := wire.DecodeRequest(rec)
	if err != nil {
		t.Fatal(err)
	}
	done := &tally{}
	done.add(rec.Partition, admit.Output{})
	if n := testing.AllocsPerRun(100, func() {
		turn.traceRequest(rec, &r)
		turn.trace(r.Instance, r.Trace, input{at: rec.Time})
		turn.tell(done)
	}); n != 0 || turn.tally != nil {
		t.Errorf("%v allocations, and the tally %v", n, turn.tally)
	}
}
