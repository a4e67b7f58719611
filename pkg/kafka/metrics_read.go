package kafka

import (
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/pkg/wire"
)

// readMetrics are about the topics that are read into views.
type readMetrics struct {
	records, gaps, errors *prometheus.CounterVec
	behind                *telemetry.Gauges
}

func (r *readMetrics) define(b *Metrics) {
	r.records = b.Counters("berth_read_records_total", "Records read from whole topics, by topic without the cell's prefix; host is any host's stream.", "topic")
	r.gaps = b.Counters("berth_read_gaps_total", "Times that records were removed before they were read, by topic.", "topic")
	r.errors = b.Counters("berth_read_errors_total", "Failed tries to read, by topic; each is tried again.", "topic")
	r.behind = b.Gauges("berth_read_behind", "Readers that have not reached the end of their topic as they last saw it, by topic.", "topic")
}

// readerMetrics is what one reader does; nil counts nothing.
type readerMetrics struct {
	all                     *readMetrics
	topic                   string
	records, gaps, failures prometheus.Counter
	atEnd                   atomic.Bool
}

func (m *Metrics) reading(topic string) *readerMetrics {
	if m == nil {
		return nil
	}
	r := &m.reads
	return &readerMetrics{
		all: r, topic: topic,
		records: r.records.WithLabelValues(topic), gaps: r.gaps.WithLabelValues(topic), failures: r.errors.WithLabelValues(topic),
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

func (r *readerMetrics) failed() {
	if r != nil {
		r.failures.Inc()
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
	case t.Catalog(), t.Requests(), t.Reports(), t.Instances(), t.Rejected(), t.Hosts(), t.Queues(), t.Advice(), t.Consoles():
		return name
	}
	return "other"
}
