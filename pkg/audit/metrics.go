// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/telemetry"
)

// metrics count entries. A nil *metrics counts nothing.
type metrics struct {
	telemetry.Bundle
	entries *prometheus.CounterVec // result
}

// RegisterMetrics registers with r what a Log counts.
func RegisterMetrics(r prometheus.Registerer) { newMetrics(r) }

func newMetrics(r prometheus.Registerer) *metrics {
	if r == nil {
		return nil
	}
	m := &metrics{}
	m.entries = m.Counters("berth_api_audit_entries_total",
		"Audit entries of this node: written, failed (of a change, may be missing), or left_out (of a refusal: there "+
			"were too many, or Kafka did not answer).", "result")
	for _, result := range []string{"written", "failed", "left_out"} {
		m.entries.WithLabelValues(result) // from 0 on, so that the first one is an increase
	}
	return telemetry.Shared(r, m)
}

func (m *metrics) count(result string) {
	if m != nil {
		m.entries.WithLabelValues(result).Inc()
	}
}
