// SPDX-License-Identifier: Apache-2.0

package flavors

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/telemetry"
)

// Metrics counts what the catalogs of a process are asked to change. A nil
// *Metrics counts nothing.
type Metrics struct {
	telemetry.Bundle
	changes *prometheus.CounterVec
}

// NewMetrics registers with r, or answers what did before; a nil r gives nil.
func NewMetrics(r prometheus.Registerer) *Metrics {
	if r == nil {
		return nil
	}
	m := &Metrics{}
	m.changes = m.Counters("berth_catalog_changes_total",
		"Changes of the catalog that were asked for, by result: ok, refused (the request was wrong, or "+
			"another change came first), or failed (not written, or nobody knows). Dry runs are not counted.",
		"change", "result")
	return telemetry.Shared(r, m)
}

func (m *Metrics) changed(op string, how How, err error) {
	if m == nil || how.DryRun {
		return
	}
	result := "ok"
	switch compute.KindOf(err) {
	case compute.KindInternal, compute.KindUnavailable, compute.KindTimeout:
		if err != nil {
			result = "failed"
		}
	default:
		result = "refused"
	}
	m.changes.WithLabelValues(strings.ReplaceAll(op, " ", "-"), result).Inc()
}
