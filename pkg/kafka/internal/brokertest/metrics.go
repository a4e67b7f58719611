// SPDX-License-Identifier: Apache-2.0

package brokertest

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
)

// Counting gives a configuration metrics of its own.
func Counting(cfg kafka.Config) (kafka.Config, *prometheus.Registry) {
	reg := prometheus.NewRegistry()
	cfg.Metrics = kafka.NewMetrics(reg)
	return cfg, reg
}

// Becomes waits until a metric has a value.
func Becomes(t *testing.T, g prometheus.Gatherer, want float64, family string, labels ...string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ctx := Patient(t); ; {
		got, _ := telemetrytest.Value(t, g, family, labels...)
		if got == want {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s %v stays at %v, want %v", family, labels, got, want)
		}
	}
}
