// SPDX-License-Identifier: Apache-2.0

// Package telemetrytest reads metrics in tests.
package telemetrytest

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Value adds up what a family shows where the labels are as given, names and
// values in turn: a counter's or gauge's value, or how many values a histogram
// has. ok is false if it shows nothing there.
func Value(t testing.TB, g prometheus.Gatherer, family string, labels ...string) (v float64, ok bool) {
	t.Helper()
	each(t, g, family, labels, func(m *dto.Metric) {
		ok = true
		v += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	})
	return v, ok
}

// Sum adds up the values of a histogram.
func Sum(t testing.TB, g prometheus.Gatherer, family string, labels ...string) (v float64) {
	t.Helper()
	each(t, g, family, labels, func(m *dto.Metric) { v += m.GetHistogram().GetSampleSum() })
	return v
}

// Is fails the test if Value is another; what shows nothing is 0.
func Is(t testing.TB, g prometheus.Gatherer, want float64, family string, labels ...string) {
	t.Helper()
	if v, _ := Value(t, g, family, labels...); v != want {
		t.Errorf("%s %v is %v, not %v", family, labels, v, want)
	}
}

func each(t testing.TB, g prometheus.Gatherer, family string, labels []string, use func(*dto.Metric)) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == family && has(m, labels) {
				use(m)
			}
		}
	}
}

func has(m *dto.Metric, labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		found := false
		for _, l := range m.Label {
			found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}
