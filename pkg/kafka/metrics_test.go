// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
)

func TestMetricsOfRequests(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := &NewMetrics(reg).requests
	b := kgo.BrokerMetadata{NodeID: 1}
	conn, other := net.Pipe()
	defer conn.Close()
	defer other.Close()
	m.OnBrokerConnect(b, 0, nil, errors.New("refused"))
	m.OnBrokerConnect(b, 0, conn, nil)
	m.OnBrokerE2E(
		b, 0, kgo.BrokerE2E{BytesWritten: 10, BytesRead: 5, TimeToWrite: time.Second, TimeToRead: time.Second},
	)
	m.OnBrokerE2E(b, 0, kgo.BrokerE2E{BytesWritten: 10, ReadErr: errors.New("reset")})
	m.OnBrokerE2E(b, 0, kgo.BrokerE2E{ReadErr: net.ErrClosed}) // by ourselves
	m.OnBrokerE2E(b, 1000, kgo.BrokerE2E{})
	m.OnBrokerE2E(b, -1, kgo.BrokerE2E{})
	m.OnBrokerThrottle(b, 1500*time.Millisecond, true)
	for _, c := range []struct {
		want   float64
		family string
		labels []string
	}{
		{1, "berth_kafka_connects_total", []string{"result", "failed"}},
		{1, "berth_kafka_connects_total", []string{"result", "ok"}},
		{1, "berth_kafka_connections", nil},
		{1, "berth_kafka_request_duration_seconds", []string{"api", "Produce"}},
		{2, "berth_kafka_request_duration_seconds", []string{"api", "other"}},
		{1, "berth_kafka_request_errors_total", nil},
		{20, "berth_kafka_sent_bytes_total", nil},
		{5, "berth_kafka_received_bytes_total", nil},
		{1.5, "berth_kafka_throttled_seconds_total", nil},
	} {
		telemetrytest.Is(t, reg, c.want, c.family, c.labels...)
	}
	if sum := telemetrytest.Sum(t, reg, "berth_kafka_request_duration_seconds", "api", "Produce"); sum != 2 {
		t.Errorf("%v s", sum)
	}
	m.OnBrokerDisconnect(b, conn)
	telemetrytest.Is(t, reg, 0, "berth_kafka_connections")
}

func BenchmarkMetricsOfARequest(b *testing.B) {
	m := &NewMetrics(prometheus.NewRegistry()).requests
	e := kgo.BrokerE2E{BytesWritten: 100, BytesRead: 100, TimeToRead: 3 * time.Millisecond}
	for b.Loop() {
		m.OnBrokerE2E(kgo.BrokerMetadata{}, 78, e)
	}
}
