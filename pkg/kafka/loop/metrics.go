// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/pkg/wire"
)

// loopMetrics are about turns and partitions.
type loopMetrics struct {
	telemetry.Bundle
	turns, records, commits, restores prometheus.Histogram
	undone, anew, restored            prometheus.Counter
	effects                           *prometheus.CounterVec
	delivered, homeless, undelivered  prometheus.Counter
	partitions, behind, unsent        *telemetry.Gauges
}

// RegisterMetrics registers the metrics of loops with r, so that they are shown before any is
// counted. It may be called again.
func RegisterMetrics(r prometheus.Registerer) { newMetrics(r) }

// newMetrics answers what was registered with r before, if anything; nil for a nil r.
func newMetrics(r prometheus.Registerer) *loopMetrics {
	if r == nil {
		return nil
	}
	l := &loopMetrics{}
	l.define()
	return telemetry.Shared(r, l)
}

func (l *loopMetrics) define() {
	l.turns = l.Histogram("berth_loop_turn_duration_seconds",
		"Time of one turn: deciding, and writing what could not be taken and what has changed.", telemetry.Short())
	l.records = l.Histogram(
		"berth_loop_turn_records", "Inputs decided in one turn; 0 for a turn of timers and news alone.",
		[]float64{0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000},
	)
	l.commits = l.Histogram("berth_loop_commit_duration_seconds",
		"Time of writing one turn: the changed instances and the positions of the inputs.", telemetry.Short())
	l.restores = l.Histogram("berth_loop_restore_duration_seconds",
		"Time from being given a partition until all its instances were read.", telemetry.Long())
	l.restored = l.Counter("berth_loop_restored_records_total", "Records of instances read in restoring partitions.")
	l.undone = l.Counter("berth_loop_undone_turns_total",
		"Times that what a turn decided of a partition could not be written; the partition was then restored "+
			"from the log.")
	l.anew = l.Counter(
		"berth_loop_restarts_total",
		"Times the loop began anew as another member of the group, after an error.",
	)
	l.effects = l.Counters(
		"berth_loop_effects_total",
		"Builds and commands published after their turn, by result: ok, no-topic (its topic is gone), or "+
			"failed (published again later).",
		"result",
	)
	l.delivered, l.undelivered = l.effects.WithLabelValues("ok"), l.effects.WithLabelValues("failed")
	l.homeless = l.effects.WithLabelValues("no-topic")
	l.partitions = l.Gauges(
		"berth_loop_partitions",
		"Partitions of this process, by state: ready, restoring, or aside (its position lies behind the end of "+
			"its topic, or its records are of a later version).",
		"state",
	)
	l.behind = l.Gauges("berth_loop_lag_records", "Inputs of the owned partitions that are in the log and not decided.")
	l.unsent = l.Gauges(
		"berth_loop_unsent_effects",
		"Builds and commands of committed turns that no broker has acknowledged yet.",
	)
}

// loopGauges is what a session says of itself: the loop's goroutine writes, the metrics read.
type loopGauges struct{ ready, restoring, aside, behind, unsent atomic.Int64 }

// show is called by the loop's goroutine between two turns.
func (g *loopGauges) show(r *loopRun) {
	var ready int64
	for _, o := range r.owned {
		if o.ready {
			ready++
		}
	}
	g.ready.Store(ready)
	g.restoring.Store(int64(len(r.owned)) - ready)
	g.aside.Store(int64(len(r.aside)))
	behind := int64(r.inputs.buffered) + r.inputs.unread
	for p := range r.inputs.parked {
		behind += int64(r.inputs.bufferedOf(p))
	}
	g.behind.Store(behind)
	g.unsent.Store(int64(r.outbox.unsent))
}

// show has a session asked until stop is called.
func (m *loopMetrics) show(g *loopGauges) (stop func()) {
	if m == nil {
		return func() {}
	}
	stops := []func(){
		m.partitions.Ask(func(say telemetry.Say) {
			say(float64(g.ready.Load()), "ready")
			say(float64(g.restoring.Load()), "restoring")
			say(float64(g.aside.Load()), "aside")
		}),
		m.behind.Ask(func(say telemetry.Say) { say(float64(g.behind.Load())) }),
		m.unsent.Ask(func(say telemetry.Say) { say(float64(g.unsent.Load())) }),
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

func (m *loopMetrics) turned(began time.Time, records int) {
	if m != nil {
		m.turns.Observe(telemetry.Since(began))
		m.records.Observe(float64(records))
	}
}

func (m *loopMetrics) committed(began time.Time) {
	if m != nil {
		m.commits.Observe(telemetry.Since(began))
	}
}

func (m *loopMetrics) undid() {
	if m != nil {
		m.undone.Inc()
	}
}

func (m *loopMetrics) beganAnew() {
	if m != nil {
		m.anew.Inc()
	}
}

func (m *loopMetrics) read(records int) {
	if m != nil {
		m.restored.Add(float64(records))
	}
}

func (m *loopMetrics) restoredSince(began time.Time) {
	if m != nil {
		m.restores.Observe(telemetry.Since(began))
	}
}

func (m *loopMetrics) published(err error) {
	switch {
	case m == nil:
	case err == nil:
		m.delivered.Inc()
	case errors.Is(err, wire.ErrNoTopic):
		m.homeless.Inc()
	default:
		m.undelivered.Inc()
	}
}
