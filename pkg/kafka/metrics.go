// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/telemetry"
)

// Metrics counts the requests of all Kafka clients of a process. What producers
// write, pullers take, readers read and loops decide is counted beside them, in the
// same registry. A nil *Metrics counts nothing and costs next to nothing.
type Metrics struct {
	telemetry.Bundle
	requests requestMetrics
	registry prometheus.Registerer
}

// NewMetrics registers with r, or answers what did before; a nil r gives nil.
func NewMetrics(r prometheus.Registerer) *Metrics {
	if r == nil {
		return nil
	}
	m := &Metrics{registry: r}
	m.requests.define(m)
	return telemetry.Shared(r, m)
}

// Registerer is where these metrics are registered; nil if m is nil.
func (m *Metrics) Registerer() prometheus.Registerer {
	if m == nil {
		return nil
	}
	return m.registry
}
