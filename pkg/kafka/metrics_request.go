// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/telemetry"
)

// requestMetrics is hooked into every client. Each hook is a few atomic
// additions: it is called for each request, by the goroutine that reads answers.
type requestMetrics struct {
	durations *prometheus.HistogramVec
	errors    *prometheus.CounterVec
	apis      [mostAPIs]atomic.Pointer[apiMetrics] // made when first used
	sent      prometheus.Counter
	received  prometheus.Counter
	throttled prometheus.Counter
	connects  prometheus.Counter
	refused   prometheus.Counter
	open      atomic.Int64
}

// mostAPIs is more than Kafka has: 92 in 4.3. Those beyond share the last place.
const mostAPIs = 128

// apiMetrics are the metrics of one kind of request.
type apiMetrics struct {
	duration prometheus.Observer
	errors   prometheus.Counter
}

func (m *requestMetrics) define(b *Metrics) {
	m.durations = b.Histograms("berth_kafka_request_duration_seconds",
		"Time from writing a request until its answer was read, by Kafka API. Fetch and ShareFetch include the "+
			"time a broker waits for records: 5 s when idle.",
		telemetry.Short(), "api")
	m.errors = b.Counters(
		"berth_kafka_request_errors_total",
		"Requests that got no answer, by Kafka API: the connection broke, or the time was up. Those that Berth "+
			"itself gave up are not counted.",
		"api",
	)
	m.sent = b.Counter("berth_kafka_sent_bytes_total", "Bytes of requests written to brokers.")
	m.received = b.Counter("berth_kafka_received_bytes_total", "Bytes of answers read from brokers.")
	m.throttled = b.Counter(
		"berth_kafka_throttled_seconds_total",
		"Time for which brokers told clients to hold back because of quotas.",
	)
	connects := b.Counters("berth_kafka_connects_total",
		"Connections to brokers that were tried, by result: ok, or failed (not reached, or no greeting).", "result")
	m.connects, m.refused = connects.WithLabelValues("ok"), connects.WithLabelValues("failed")
	b.Gauges("berth_kafka_connections", "Connections to brokers that are open.").
		Ask(func(say telemetry.Say) { say(float64(m.open.Load())) })
}

func (m *requestMetrics) api(key int16) *apiMetrics {
	place, name := int(key), "other"
	if key < 0 || key >= mostAPIs {
		place = mostAPIs - 1
	} else {
		name = kmsg.NameForKey(key)
	}
	if a := m.apis[place].Load(); a != nil {
		return a
	}
	a := &apiMetrics{m.durations.WithLabelValues(name), m.errors.WithLabelValues(name)}
	m.apis[place].Store(a)
	return a
}

// OnBrokerE2E counts a request and its answer.
func (m *requestMetrics) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e kgo.BrokerE2E) {
	m.sent.Add(float64(e.BytesWritten))
	m.received.Add(float64(e.BytesRead))
	switch err := e.Err(); {
	case err == nil:
		m.api(key).duration.Observe(e.DurationE2E().Seconds())
	case !givenUp(err):
		m.api(key).errors.Inc()
	}
}

// givenUp says whether a request ended because nobody wanted its answer any more.
func givenUp(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed) || errors.Is(err, kgo.ErrClientClosed) ||
		errors.Is(err, io.ErrClosedPipe)
}

// OnBrokerConnect counts a connection. One that failed after it was opened ends
// like any other, by OnBrokerDisconnect.
func (m *requestMetrics) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, conn net.Conn, err error) {
	if conn != nil {
		m.open.Add(1)
	}
	switch {
	case err == nil:
		m.connects.Inc()
	case !givenUp(err):
		m.refused.Inc()
	}
}

// OnBrokerDisconnect counts the end of a connection.
func (m *requestMetrics) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) { m.open.Add(-1) }

// OnBrokerThrottle counts what a broker asks for.
func (m *requestMetrics) OnBrokerThrottle(_ kgo.BrokerMetadata, d time.Duration, _ bool) {
	m.throttled.Add(d.Seconds())
}
