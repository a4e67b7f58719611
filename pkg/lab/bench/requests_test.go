// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// What was asked before is not counted, and all parts of a kind count together.
func TestRequestsAndBytesForEachBoot(t *testing.T) {
	c := newCounters()
	reg := c.of("agent")
	sent := prometheus.NewCounter(prometheus.CounterOpts{Name: sentMetric})
	received := prometheus.NewCounter(prometheus.CounterOpts{Name: receivedMetric})
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: requestsMetric}, []string{"api"})
	reg.MustRegister(sent, received, took)
	sent.Add(1000)
	took.WithLabelValues("Produce").Observe(1)
	before, err := c.read()
	if err != nil {
		t.Fatal(err)
	}
	sent.Add(500)
	received.Add(50)
	took.WithLabelValues("Produce").Observe(0.002)
	after, err := c.read()
	if err != nil {
		t.Fatal(err)
	}
	if got := bytesBetween(before.traffic, after.traffic, 10)["agent"]; got != (Bytes{Sent: 50, Received: 5}) {
		t.Errorf("bytes %+v", got)
	}
	if got := between(before.traffic, after.traffic, 10)["agent"]["Produce"]; got != (Requests{PerBoot: 0.1, MeanMS: 2}) {
		t.Errorf("requests %+v", got)
	}
}

func TestSavingsAsCounted(t *testing.T) {
	c := newCounters()
	saving := prometheus.NewGauge(prometheus.GaugeOpts{Name: savingMetric})
	ended := prometheus.NewCounterVec(prometheus.CounterOpts{Name: savingsMetric}, []string{"why"})
	c.of("queues").MustRegister(saving)
	c.of("agent").MustRegister(ended)
	saving.Set(2)
	ended.WithLabelValues("time").Add(3)
	ended.WithLabelValues("taken").Inc()
	got, err := c.read()
	if want := map[string]int64{"time": 3, "taken": 1}; err != nil || got.saving != 2 || !maps.Equal(got.ended, want) {
		t.Errorf("%d hosts save, ended %v, %v", got.saving, got.ended, err)
	}
}
