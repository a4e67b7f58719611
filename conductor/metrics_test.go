// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/conductor/admit"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
	"github.com/berth-project/berth/pkg/tracing"
	"github.com/berth-project/berth/pkg/wire"
)

// counted is a cell whose conductor counts and runs.
func counted(t *testing.T) (*cell, *prometheus.Registry) {
	reg := prometheus.NewRegistry()
	k := newCellWith(t, NewMetrics(reg))
	run(t, k.c)
	return k, reg
}

func run(t *testing.T, c *Conductor) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// becomes waits until a conductor that has just begun to run, or to end, is seen to.
func becomes(t *testing.T, g prometheus.Gatherer, want float64, family string, labels ...string) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	defer tick.Stop()
	for {
		if v, shown := telemetrytest.Value(t, g, family, labels...); shown && v == want {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s never became %v", family, want)
		}
	}
}

func TestMetricsOfDecisions(t *testing.T) {
	k, reg := counted(t)
	is := func(want float64, decision, reason string) {
		t.Helper()
		telemetrytest.Is(t, reg, want, "berth_conductor_decisions_total", "decision", decision, "reason", reason)
	}
	var boots []wire.Record
	for i := range 6 { // the quota is 5
		boots = append(boots, k.boot(i, "poor"))
	}
	k.read(append(boots, boots[0], k.bootOf(9, "poor", "none"))...)
	is(5, "admitted", "")
	is(1, "refused", "QuotaExceeded")
	is(1, "refused", "NoSuchFlavor")
	telemetrytest.Is(t, reg, 5, "berth_conductor_effects_total", "effect", "publish")

	k.now = k.now.Add(2 * time.Second)
	k.read(k.report(compute.ReportClaim, 0, "poor", "h1"), k.report(compute.ReportClaim, 1, "poor", "h1"))
	is(2, "granted", "")
	telemetrytest.Is(t, reg, 2, "berth_conductor_effects_total", "effect", "grant")
	if sum := telemetrytest.Sum(t, reg, "berth_conductor_granted_seconds"); sum != 4 {
		t.Errorf("granted after %v s in all", sum)
	}
	k.read(k.report(compute.ReportClaim, 0, "poor", "h1"), k.report(compute.ReportClaim, 0, "poor", "h2"))
	is(2, "granted", "") // said again, and decided once
	is(1, "denied", "AttemptOver")
	telemetrytest.Is(t, reg, 3, "berth_conductor_effects_total", "effect", "grant")

	k.read(k.report(compute.ReportStarted, 0, "poor", "h1"), k.report(compute.ReportFailed, 1, "poor", "h1"))
	is(1, "active", "")
	is(1, "requeued", "BuildFailed")
	k.read(k.requested(compute.Request{Op: compute.OpStop, Project: "poor", Instance: id(0), Command: "c"}))
	telemetrytest.Is(t, reg, 1, "berth_conductor_effects_total", "effect", "power")
	is(1, "active", "") // it changed, and became nothing else
	telemetrytest.Is(t, reg, 1, "berth_conductor_active_seconds")

	k.read(k.requested(compute.Request{Op: compute.OpDelete, Project: "poor", Instance: id(0)}),
		k.requested(compute.Request{Op: compute.OpDelete, Project: "poor", Instance: id(2)}))
	is(1, "deleting", "")
	is(1, "deleted", "Cancelled")
	k.read(k.report(compute.ReportGone, 0, "poor", "h1"))
	is(1, "deleted", "")
	k.pass(2 * time.Hour)
	is(3, "error", "DeadlineExceeded") // 1, 3 and 4

	bad := k.boot(7, "poor")
	bad.Value = []byte{0xff}
	k.read(bad)
	telemetrytest.Is(t, reg, 1, "berth_conductor_rejected_records_total", "topic", "requests")
}

func TestMetricsOfInstances(t *testing.T) {
	k, reg := counted(t)
	states := func(want ...float64) {
		t.Helper()
		for i, state := range []string{"queued", "starting", "active", "deleting", "deleted", "error"} {
			telemetrytest.Is(t, reg, want[i], "berth_conductor_instances", "state", state)
		}
	}
	becomes(t, reg, 0, "berth_conductor_instances", "state", "error")
	becomes(t, reg, 0, "berth_conductor_oldest_grant_seconds")
	states(0, 0, 0, 0, 0, 0)
	for i := range 4 {
		k.read(k.boot(i, compute.Project(fmt.Sprint("p", i))))
	}
	states(4, 0, 0, 0, 0, 0)
	k.read(k.report(compute.ReportClaim, 0, "p0", "h1"))
	k.read(k.report(compute.ReportClaim, 1, "p1", "h1"), k.report(compute.ReportStarted, 1, "p1", "h1"))
	states(2, 1, 1, 0, 0, 0)
	oldest := func(want float64) {
		t.Helper()
		if age, there := telemetrytest.Value(t, reg, "berth_conductor_oldest_grant_seconds"); !there || age != want {
			t.Errorf("the oldest grant is %v s old (shown: %v), and was made %v s ago", age, there, want)
		}
	}
	k.pass(2 * time.Second)
	oldest(2)

	part := wire.Partition("p0", partitions)
	in := k.c.Turn(wire.Turn{Now: k.now, Records: []wire.Record{k.boot(9, "p0")}})
	if len(in.Changes) == 0 {
		t.Fatal("nothing was decided")
	}
	k.c.Lose(part) // and not committed: others have it now
	oldest(0)
	others := 0.0
	for i := range 4 {
		if wire.Partition(compute.Project(fmt.Sprint("p", i)), partitions) != part {
			others++
		}
	}
	if all, _ := telemetrytest.Value(t, reg, "berth_conductor_instances"); all != others {
		t.Errorf("%v instances are shown, %v are here", all, others)
	}
	k.gain(part, 100)
	states(2, 1, 1, 0, 0, 0)
	oldest(2)
	telemetrytest.Is(t, reg, 4, "berth_conductor_decisions_total", "decision", "admitted")

	k.read(k.requested(compute.Request{Op: compute.OpDelete, Project: "p2", Instance: id(2)}))
	states(1, 1, 1, 0, 1, 0)
	k.read(k.report(compute.ReportStarted, 0, "p0", "h1"))
	oldest(0)
	k.pass(admit.Defaults().KeepEnded)
	if _, there := telemetrytest.Value(t, reg, "berth_conductor_instances", "state", "deleted"); !there {
		t.Error("a state without instances is not shown")
	}
	telemetrytest.Is(t, reg, 0, "berth_conductor_instances", "state", "deleted")
}

// How old a grant is goes by the log, whatever this conductor's clock says.
// TestMetricsOfWhatIsHeld: what a project has beyond its share is counted until it is in the queue.
func TestMetricsOfWhatIsHeld(t *testing.T) {
	k, reg := counted(t)
	const more = 3
	for n := range compute.UsualShare + more {
		k.read(k.boot(n, "rich"))
	}
	becomes(t, reg, more, "berth_conductor_held_builds", "by", "share")
	k.read(k.report(compute.ReportClaim, 0, "rich", "h1"))
	becomes(t, reg, more-1, "berth_conductor_held_builds", "by", "share")
	becomes(t, reg, 0, "berth_conductor_held_builds", "by", "group")
}

func TestOldestGrantByTheLog(t *testing.T) {
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		k, reg := counted(t)
		k.off = off
		becomes(t, reg, 0, "berth_conductor_oldest_grant_seconds")
		k.read(k.boot(0, "p"))
		k.read(k.report(compute.ReportClaim, 0, "p", "h1"))
		k.pass(2 * time.Second)
		telemetrytest.Is(t, reg, 2, "berth_conductor_oldest_grant_seconds")
	}
}

// How long a traced boot took shows which one it was, where this conductor tells of traces.
func TestExemplars(t *testing.T) {
	const want = "trace_id=0af7651916cd43dd8448eb211c80319c"
	found := examplesOf(t, tracing.New(tracing.Options{Endpoint: "http://127.0.0.1:1", Service: "berth-conductor"}))
	if len(found) != 2 || found["berth_conductor_granted_seconds"] != want ||
		found["berth_conductor_active_seconds"] != want {
		t.Errorf("the examples are %v", found)
	}
	if found := examplesOf(t, nil); len(found) > 0 {
		t.Errorf("it tells of no traces, and shows %v", found)
	}
}

func examplesOf(t *testing.T, tracer *tracing.Tracer) map[string]string {
	t.Helper()
	k, reg := counted(t)
	k.c.cfg.Tracer = tracer
	defer func() { _ = tracer.Close() }() // nothing takes its spans
	k.read(k.boot(1, "p"), k.untraced(2, "m1.small"))
	for n := range 2 {
		k.read(k.report(compute.ReportClaim, n+1, "p", "h1"), k.report(compute.ReportStarted, n+1, "p", "h1"))
	}
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, f := range all {
		for _, b := range f.Metric[0].GetHistogram().GetBucket() {
			for _, l := range b.GetExemplar().GetLabel() {
				found[f.GetName()] += l.GetName() + "=" + l.GetValue()
			}
		}
	}
	return found
}

// The log may hold what another version wrote: labels stay few.
func TestReasonLabelsAreFew(t *testing.T) {
	for _, c := range []struct {
		reason *compute.Reason
		want   string
	}{
		{nil, ""}, {&compute.Reason{Code: compute.HostLost}, "HostLost"},
		{&compute.Reason{Code: compute.ReservationEnded}, "ReservationEnded"},
		{&compute.Reason{Code: "Whatever-17"}, "other"},
	} {
		if got := codeOf(c.reason); got != c.want {
			t.Errorf("%v is %q, not %q", c.reason, got, c.want)
		}
	}
}

// What ends in error is shown before the first does: nothing that begins above zero is an increase.
func TestErrorsBeginAtZero(t *testing.T) {
	reg := prometheus.NewRegistry()
	newCellWith(t, NewMetrics(reg))
	becomes(t, reg, 0, "berth_conductor_decisions_total", "decision", "error", "reason", "SetFailed")
}

// Two conductors of one process show what they have between them; one that has
// ended shows nothing.
func TestMetricsOfSeveralConductors(t *testing.T) {
	reg := prometheus.NewRegistry()
	one, two := newCellWith(t, NewMetrics(reg)), newCellWith(t, NewMetrics(reg))
	run(t, one.c)
	becomes(t, reg, 0, "berth_conductor_instances", "state", "queued")
	t.Run("both", func(t *testing.T) {
		run(t, two.c)
		one.read(one.boot(1, "a"))
		two.read(two.boot(2, "b"))
		becomes(t, reg, 2, "berth_conductor_instances", "state", "queued")
	})
	telemetrytest.Is(t, reg, 1, "berth_conductor_instances", "state", "queued")
	telemetrytest.Is(t, reg, 2, "berth_conductor_decisions_total", "decision", "admitted")
}

func BenchmarkTurn(b *testing.B) {
	for name, m := range map[string]*Metrics{"counting": NewMetrics(prometheus.NewRegistry()), "not counting": nil} {
		b.Run(name, func(b *testing.B) {
			t := &turn{Conductor: &Conductor{cfg: Config{Metrics: m}, counts: newStateCounts(time.Now)}}
			inst := &compute.Instance{State: compute.StateQueued}
			out := admit.Output{
				Changed: []*compute.Instance{inst}, Was: []compute.State{compute.StateNone},
				Effects: []admit.Effect{admit.Publish{}},
			}
			for b.Loop() {
				t.tally = nil
				if m != nil {
					t.tally = map[int32]*tally{}
				}
				for range 100 {
					t.of(0).add(0, out)
				}
				if m != nil {
					t.committed(0)
				}
			}
		})
	}
}
