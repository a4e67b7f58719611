// SPDX-License-Identifier: Apache-2.0

package read

import (
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/pkg/wire"
)

// readMetrics are about the topics that are read into views.
type readMetrics struct {
	telemetry.Bundle
	records, gaps, errors *prometheus.CounterVec
	behind                *telemetry.Gauges
}

// RegisterMetrics registers the metrics of readers with r, so that they are shown before any is
// counted. It may be called again.
func RegisterMetrics(r prometheus.Registerer) { newMetrics(r) }

// newMetrics answers what was registered with r before, if anything; nil for a nil r.
func newMetrics(r prometheus.Registerer) *readMetrics {
	if r == nil {
		return nil
	}
	m := &readMetrics{}
	m.define()
	return telemetry.Shared(r, m)
}

func (r *readMetrics) define() {
	r.records = r.Counters(
		"berth_read_records_total",
		"Records read from whole topics, by topic without the cell's prefix; host is any host's stream.", "topic",
	)
	r.gaps = r.Counters(
		"berth_read_gaps_total", "Times that records were removed before they were read, by topic.", "topic",
	)
	r.errors = r.Counters("berth_read_errors_total", "Failed tries to read, by topic; each is tried again.", "topic")
	r.behind = r.Gauges(
		"berth_read_behind",
		"Readers that have not reached the end of their topic, or do not know where it is as no broker tells them, by topic.",
		"topic",
	)
}

// readerMetrics is what one reader does; nil counts nothing.
type readerMetrics struct {
	all                     *readMetrics
	topic                   string
	records, gaps, failures prometheus.Counter
	atEnd                   atomic.Bool
}

func (m *readMetrics) reading(topic string) *readerMetrics {
	if m == nil {
		return nil
	}
	return &readerMetrics{
		all: m, topic: topic,
		records: m.records.WithLabelValues(topic), gaps: m.gaps.WithLabelValues(topic),
		failures: m.errors.WithLabelValues(topic),
	}
}

// show has the reader asked until stop is called.
func (r *readerMetrics) show() (stop func()) {
	if r == nil {
		return func() {}
	}
	return r.all.behind.Ask(func(say telemetry.Say) {
		behind := 1.0
		if r.atEnd.Load() {
			behind = 0
		}
		say(behind, r.topic)
	})
}

func (r *readerMetrics) took(records int, end bool) {
	if r != nil {
		r.records.Add(float64(records))
		r.atEnd.Store(end)
	}
}

func (r *readerMetrics) gap() {
	if r != nil {
		r.gaps.Inc()
	}
}

// failed: whether there is more to read is not known until it is answered again.
func (r *readerMetrics) failed() {
	if r != nil {
		r.failures.Inc()
		r.atEnd.Store(false)
	}
}

// kindOf is a topic as a label's value: there are few of them.
func kindOf(t wire.Topics, topic string) string {
	if _, ok := t.HostOf(topic); ok {
		return "host"
	}
	if _, ok := t.QueueOf(topic); ok {
		return "build"
	}
	name, _ := strings.CutPrefix(topic, t.Prefix)
	switch topic {
	case t.Catalog(),
		t.Requests(),
		t.Reports(),
		t.Instances(),
		t.Rejected(),
		t.Hosts(),
		t.Queues(),
		t.Advice(),
		t.Consoles(),
		t.Tokens(),
		t.Audit():
		return name
	}
	return "other"
}
