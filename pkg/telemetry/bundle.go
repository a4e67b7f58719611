// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Bundle is the metrics of one kind of component, for embedding: they are made
// by its methods and registered together, by Shared.
type Bundle struct{ all []prometheus.Collector }

// Shared registers what m has, or answers the bundle that is registered under
// the same names: several components of one kind in one process count into the
// same metrics. It panics if some of the names belong to something else, which
// is a fault of the program.
func Shared[C prometheus.Collector](r prometheus.Registerer, m C) C {
	err := r.Register(m)
	if err == nil {
		return m
	}
	var there prometheus.AlreadyRegisteredError
	if errors.As(err, &there) {
		if same, ok := there.ExistingCollector.(C); ok {
			return same
		}
	}
	panic(err)
}

// Counter counts one thing.
func (b *Bundle) Counter(name, help string) prometheus.Counter {
	return with(b, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

// Counters counts one thing for each combination of labels.
func (b *Bundle) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	return with(b, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

// Histogram sorts values of one thing into buckets.
func (b *Bundle) Histogram(name, help string, buckets []float64) prometheus.Histogram {
	return with(b, prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}))
}

// Histograms sorts values into buckets for each combination of labels.
func (b *Bundle) Histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return with(b,
		prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels))
}

// Gauges are worked out when somebody asks.
func (b *Bundle) Gauges(name, help string, labels ...string) *Gauges {
	return with(b, NewGauges(name, help, labels...))
}

func with[C prometheus.Collector](b *Bundle, c C) C {
	b.all = append(b.all, c)
	return c
}

// Describe describes all.
func (b *Bundle) Describe(to chan<- *prometheus.Desc) {
	for _, c := range b.all {
		c.Describe(to)
	}
}

// Collect collects all.
func (b *Bundle) Collect(to chan<- prometheus.Metric) {
	for _, c := range b.all {
		c.Collect(to)
	}
}

// Short are buckets of what takes from less than a millisecond to half a minute:
// a request, a write, a turn.
func Short() []float64 {
	return []float64{.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
}

// Long are buckets of what takes from some milliseconds to an hour: a wait for
// room, a build.
func Long() []float64 {
	return []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}
}

// Since is how long ago that was, in seconds.
func Since(began time.Time) float64 { return time.Since(began).Seconds() }
