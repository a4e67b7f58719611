// SPDX-License-Identifier: Apache-2.0

package write

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
	telemetry.Bundle
	durations prometheus.Histogram
	errors    *prometheus.CounterVec
	buffered  *telemetry.Gauges
}

// RegisterMetrics registers the metrics of producers with r, so that they are shown before any is
// counted. It may be called again.
func RegisterMetrics(r prometheus.Registerer) { newMetrics(r) }

// newMetrics answers what was registered with r before, if anything; nil for a nil r.
func newMetrics(r prometheus.Registerer) *produceMetrics {
	if r == nil {
		return nil
	}
	p := &produceMetrics{}
	p.define()
	return telemetry.Shared(r, p)
}

func (p *produceMetrics) define() {
	p.durations = p.Histogram("berth_produce_duration_seconds",
		"Time from handing a record to the producer until all replicas in sync had it.", telemetry.Short())
	p.errors = p.Counters(
		"berth_produce_errors_total",
		"Records that were not acknowledged, by kind: no-topic, unavailable, timeout, invalid (no broker takes "+
			"them as they are), forbidden or internal.",
		"kind",
	)
	p.buffered = p.Gauges("berth_produce_buffered_records", "Records handed to producers and not acknowledged yet.")
}

// producing has a producer asked until stop is called.
func (m *produceMetrics) producing(buffered func() int64) (stop func()) {
	if m == nil {
		return func() {}
	}
	return m.buffered.Ask(func(say telemetry.Say) { say(float64(buffered())) })
}

// produced counts one record. err is as of Producer.Send.
func (m *produceMetrics) produced(began time.Time, err error) {
	switch {
	case m == nil:
	case err == nil:
		m.durations.Observe(telemetry.Since(began))
	case errors.Is(err, wire.ErrNoTopic):
		m.errors.WithLabelValues("no-topic").Inc()
	default:
		m.errors.WithLabelValues(compute.KindOf(err).String()).Inc()
	}
}
