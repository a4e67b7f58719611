// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"net/http"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics is what one process says about itself in numbers. Every process makes
// its own; nothing is registered anywhere else. A nil *Metrics registers nothing.
type Metrics struct{ registry *prometheus.Registry }

// NewMetrics has what every process has: the Go runtime, the process as the
// operating system sees it, and which build this is.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		buildInfo(),
	)
	return m
}

// Registerer is where components register their metrics; nil if m is nil, which
// every component takes as "do not count".
func (m *Metrics) Registerer() prometheus.Registerer {
	if m == nil {
		return nil
	}
	return m.registry
}

// Gatherer is where all of them are read.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Handler answers GET /metrics, in the text format or in OpenMetrics as asked.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, EnableOpenMetrics: true})
}

func buildInfo() prometheus.Collector {
	version, revision := "unknown", "unknown"
	if b, ok := debug.ReadBuildInfo(); ok {
		version = b.Main.Version
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "berth_build_info", Help: "1; which build of Berth this process is.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "go": runtime.Version()},
	})
	g.Set(1)
	return g
}
