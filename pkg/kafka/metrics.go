package kafka

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/telemetry"
)

// Metrics counts what all Kafka clients of a process do: requests, what the
// producers write, what the pullers take, how the loops turn. A nil *Metrics
// counts nothing and costs next to nothing.
type Metrics struct {
	telemetry.Bundle
	requests requestMetrics
	produces produceMetrics
	pulls    pullMetrics
	loops    loopMetrics
	reads    readMetrics
}

// NewMetrics registers with r, or answers what did before; a nil r gives nil.
func NewMetrics(r prometheus.Registerer) *Metrics {
	if r == nil {
		return nil
	}
	m := &Metrics{}
	m.requests.define(m)
	m.produces.define(m)
	m.pulls.define(m)
	m.loops.define(m)
	m.reads.define(m)
	return telemetry.Shared(r, m)
}
