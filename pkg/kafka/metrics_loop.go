package kafka

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
	turns, records, commits, restores prometheus.Histogram
	undone, anew, restored            prometheus.Counter
	effects                           *prometheus.CounterVec
	delivered, homeless, undelivered  prometheus.Counter
	partitions, behind, unsent        *telemetry.Gauges
}

func (l *loopMetrics) define(b *Metrics) {
	l.turns = b.Histogram("berth_loop_turn_duration_seconds",
		"Time of one turn: deciding, and writing what could not be taken and what has changed.", telemetry.Short())
	l.records = b.Histogram("berth_loop_turn_records",
		"Inputs decided in one turn; 0 for a turn of timers and news alone.", []float64{0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000})
	l.commits = b.Histogram("berth_loop_commit_duration_seconds",
		"Time of writing one turn: the changed instances and the positions of the inputs.", telemetry.Short())
	l.restores = b.Histogram("berth_loop_restore_duration_seconds",
		"Time from being given a partition until all its instances were read.", telemetry.Long())
	l.restored = b.Counter("berth_loop_restored_records_total", "Records of instances read in restoring partitions.")
	l.undone = b.Counter("berth_loop_undone_turns_total",
		"Times that what a turn decided of a partition could not be written; the partition was then restored from the log.")
	l.anew = b.Counter("berth_loop_restarts_total", "Times the loop began anew as another member of the group, after an error.")
	l.effects = b.Counters("berth_loop_effects_total",
		"Builds and commands published after their turn, by result: ok, no-topic (its topic is gone), or failed (published again later).", "result")
	l.delivered, l.homeless, l.undelivered = l.effects.WithLabelValues("ok"), l.effects.WithLabelValues("no-topic"), l.effects.WithLabelValues("failed")
	l.partitions = b.Gauges("berth_loop_partitions", "Partitions of this process, by state: ready, restoring, or aside (its position lies behind the end of its topic, or its records are of a later version).", "state")
	l.behind = b.Gauges("berth_loop_lag_records", "Inputs of the owned partitions that are in the log and not decided.")
	l.unsent = b.Gauges("berth_loop_unsent_effects", "Builds and commands of committed turns that no broker has acknowledged yet.")
}

// loopGauges is what a session says of itself, by the loop's goroutine, for
// whoever asks.
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
func (m *Metrics) show(g *loopGauges) (stop func()) {
	if m == nil {
		return func() {}
	}
	stops := []func(){
		m.loops.partitions.Ask(func(say telemetry.Say) {
			say(float64(g.ready.Load()), "ready")
			say(float64(g.restoring.Load()), "restoring")
			say(float64(g.aside.Load()), "aside")
		}),
		m.loops.behind.Ask(func(say telemetry.Say) { say(float64(g.behind.Load())) }),
		m.loops.unsent.Ask(func(say telemetry.Say) { say(float64(g.unsent.Load())) }),
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

func (m *Metrics) turned(began time.Time, records int) {
	if m != nil {
		m.loops.turns.Observe(telemetry.Since(began))
		m.loops.records.Observe(float64(records))
	}
}

func (m *Metrics) committed(began time.Time) {
	if m != nil {
		m.loops.commits.Observe(telemetry.Since(began))
	}
}

func (m *Metrics) undid() {
	if m != nil {
		m.loops.undone.Inc()
	}
}

func (m *Metrics) beganAnew() {
	if m != nil {
		m.loops.anew.Inc()
	}
}

func (m *Metrics) read(records int) {
	if m != nil {
		m.loops.restored.Add(float64(records))
	}
}

func (m *Metrics) restored(began time.Time) {
	if m != nil {
		m.loops.restores.Observe(telemetry.Since(began))
	}
}

func (m *Metrics) published(err error) {
	switch {
	case m == nil:
	case err == nil:
		m.loops.delivered.Inc()
	case errors.Is(err, wire.ErrNoTopic):
		m.loops.homeless.Inc()
	default:
		m.loops.undelivered.Inc()
	}
}
