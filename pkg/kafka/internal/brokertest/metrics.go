// SPDX-License-Identifier: Apache-2.0

package brokertest

import (
	"fmt"
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
	becomes(t, want, fmt.Sprint(family, labels), func() float64 {
		got, _ := telemetrytest.Value(t, g, family, labels...)
		return got
	})
}

// SumBecomes waits until what a histogram has seen adds up to a value.
func SumBecomes(t *testing.T, g prometheus.Gatherer, want float64, family string, labels ...string) {
	t.Helper()
	becomes(t, want, fmt.Sprint("the sum of ", family, labels), func() float64 {
		return telemetrytest.Sum(t, g, family, labels...)
	})
}

func becomes(t *testing.T, want float64, what string, read func() float64) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ctx := Patient(t); ; {
		got := read()
		if got == want {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s stays at %v, want %v", what, got, want)
		}
	}
}
