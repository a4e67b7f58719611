// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Gauges is one family of gauges that are worked out when metrics are collected, by
// the sources in this process. What several sources say of the same labels is added
// up, and what none says any more is gone. It costs nothing
// between two questions. A nil *Gauges asks nobody.
type Gauges struct {
	desc *prometheus.Desc

	mu      sync.Mutex
	sources map[int]func(Say)
	next    int
}

// Say tells one value, with the values of the labels in their order.
type Say func(value float64, labels ...string)

// NewGauges makes a family that nobody has anything to say about yet.
func NewGauges(name, help string, labels ...string) *Gauges {
	return &Gauges{desc: prometheus.NewDesc(name, help, labels, nil), sources: map[int]func(Say){}}
}

// Ask has source asked from now on until stop is called, and perhaps once more
// just after. It is called from any goroutine, several at once too, and the
// collector waits for it, so it takes no lock for long and asks
// nobody outside the process.
func (g *Gauges) Ask(source func(Say)) (stop func()) {
	if g == nil {
		return func() {}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	id := g.next
	g.next++
	g.sources[id] = source
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.sources, id)
	}
}

// Describe is the one description of the family.
func (g *Gauges) Describe(to chan<- *prometheus.Desc) { to <- g.desc }

// Collect asks everybody.
func (g *Gauges) Collect(to chan<- prometheus.Metric) {
	type sum struct {
		value  float64
		labels []string
	}
	sums := map[string]*sum{}
	for _, source := range g.asked() {
		source(func(value float64, labels ...string) {
			for i, l := range labels {
				labels[i] = strings.ToValidUTF8(l, "?") // others are refused, with everything else
			}
			key := strings.Join(labels, "\xff")
			if s := sums[key]; s != nil {
				s.value += value
				return
			}
			sums[key] = &sum{value, labels}
		})
	}
	for _, s := range sums {
		to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, s.value, s.labels...)
	}
}

func (g *Gauges) asked() []func(Say) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]func(Say), 0, len(g.sources))
	for _, s := range g.sources {
		all = append(all, s)
	}
	return all
}
