// SPDX-License-Identifier: Apache-2.0

package share

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/pkg/wire"
)

// pullMetrics are about what pullers take.
type pullMetrics struct {
	telemetry.Bundle
	open                                            atomic.Int64
	withRecord, empty, failed                       prometheus.Counter
	acksDone, acksRefused, acksUnknown, acksDropped prometheus.Counter
	sessions                                        prometheus.Counter
	deliveries                                      prometheus.Histogram
}

// RegisterMetrics registers the metrics of pullers with r, so that they are shown before any is
// counted. It may be called again.
func RegisterMetrics(r prometheus.Registerer) { newMetrics(r) }

// newMetrics answers what was registered with r before, if anything; nil for a nil r.
func newMetrics(r prometheus.Registerer) *pullMetrics {
	if r == nil {
		return nil
	}
	p := &pullMetrics{}
	p.define()
	return telemetry.Shared(r, p)
}

func (p *pullMetrics) define() {
	fetches := p.Counters(
		"berth_pull_fetches_total", "Fetches from queues that have ended, by result: record, empty or failed.",
		"result",
	)
	p.withRecord, p.empty = fetches.WithLabelValues("record"), fetches.WithLabelValues("empty")
	p.failed = fetches.WithLabelValues("failed")
	acks := p.Counters(
		"berth_pull_acks_total",
		"Acknowledgements and renewals of pulled records, by result: done, refused (the lock had ended), "+
			"unanswered (may be done or not), or dropped (not sent: the session was gone). None is repeated; "+
			"grants make that harmless.",
		"result",
	)
	p.acksDone, p.acksRefused = acks.WithLabelValues("done"), acks.WithLabelValues("refused")
	p.acksUnknown, p.acksDropped = acks.WithLabelValues("unanswered"), acks.WithLabelValues("dropped")
	p.sessions = p.Counter(
		"berth_pull_lost_sessions_total",
		"Share sessions lost by an error: a broker went, or did not answer.",
	)
	p.deliveries = p.Histogram(
		"berth_pull_deliveries",
		"How often Kafka had delivered a record when it was pulled, this time included; after 25 Kafka drops "+
			"it, and Berth publishes it again.",
		[]float64{1, 2, 3, 5, 10, 20, 25},
	)
	p.Gauges("berth_pull_open_fetches", "Fetches from queues that are open: what this process waits on.").
		Ask(func(say telemetry.Say) { say(float64(p.open.Load())) })
}

// opened counts a fetch that begins.
func (m *pullMetrics) opened() {
	if m != nil {
		m.open.Add(1)
	}
}

// pulled counts a fetch that has ended.
func (m *pullMetrics) pulled(r wire.Pulled) {
	if m == nil {
		return
	}
	m.open.Add(-1)
	switch {
	case r.Err != nil:
		m.failed.Inc()
	case r.Record == nil:
		m.empty.Inc()
	default:
		m.withRecord.Inc()
		m.deliveries.Observe(float64(r.Ref.Delivery))
	}
}

// into has the counts of one puller go into the process's metrics too.
func (c *counters) into(m *pullMetrics) {
	if m == nil {
		return
	}
	c.sessions.too = m.sessions
	c.acksDone.too, c.acksRefused.too = m.acksDone, m.acksRefused
	c.acksUnknown.too, c.acksDropped.too = m.acksUnknown, m.acksDropped
}

// tally is a count that Counts reads and, if there are metrics, those too.
type tally struct {
	n   atomic.Uint64
	too prometheus.Counter // nil: none
}

func (c *tally) Load() uint64 { return c.n.Load() }

func (c *tally) Add(n uint64) {
	if c.n.Add(n); c.too != nil {
		c.too.Add(float64(n))
	}
}
