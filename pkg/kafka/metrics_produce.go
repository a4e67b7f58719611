package kafka

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/pkg/wire"
)

// produceMetrics are about what producers write.
type produceMetrics struct {
	durations prometheus.Histogram
	errors    *prometheus.CounterVec
	buffered  *telemetry.Gauges
}

func (p *produceMetrics) define(b *Metrics) {
	p.durations = b.Histogram("berth_produce_duration_seconds",
		"Time from handing a record to the producer until all replicas in sync had it.", telemetry.Short())
	p.errors = b.Counters("berth_produce_errors_total",
		"Records that were not acknowledged, by kind: no-topic, unavailable, timeout, invalid (no broker takes them as they are), forbidden or internal.", "kind")
	p.buffered = b.Gauges("berth_produce_buffered_records", "Records handed to producers and not acknowledged yet.")
}

// producing has a producer asked until stop is called.
func (m *Metrics) producing(buffered func() int64) (stop func()) {
	if m == nil {
		return func() {}
	}
	return m.produces.buffered.Ask(func(say telemetry.Say) { say(float64(buffered())) })
}

// produced counts one record. err is as of Producer.Send.
func (m *Metrics) produced(began time.Time, err error) {
	switch {
	case m == nil:
	case err == nil:
		m.produces.durations.Observe(telemetry.Since(began))
	case errors.Is(err, wire.ErrNoTopic):
		m.produces.errors.WithLabelValues("no-topic").Inc()
	default:
		m.produces.errors.WithLabelValues(compute.KindOf(err).String()).Inc()
	}
}
