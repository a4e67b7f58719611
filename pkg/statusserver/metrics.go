// SPDX-License-Identifier: Apache-2.0

package statusserver

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/telemetry"
)

// httpMetrics are about what reaches the server before it reaches a handler. A nil one counts nothing.
type httpMetrics struct {
	telemetry.Bundle
	connections *telemetry.Gauges
	closed      *prometheus.CounterVec // bound
	limited     prometheus.Counter
	expires     *telemetry.Gauges
	unusable    *telemetry.Gauges
}

// RegisterMetrics registers the metrics of servers with r, so that they are shown where nothing
// is bound, too. It may be called again.
func RegisterMetrics(r prometheus.Registerer) { newMetrics(r) }

func newMetrics(r prometheus.Registerer) *httpMetrics {
	if r == nil {
		return nil
	}
	m := &httpMetrics{}
	m.connections = m.Gauges("berth_http_connections", "Connections to the HTTP server that are open.")
	m.closed = m.Counters("berth_http_connections_closed_total",
		"Connections closed as soon as they were made, by what there was too much of.", "bound")
	m.limited = m.Counter("berth_http_limited_total",
		"Requests refused with 429, since too many came from their address.")
	m.expires = m.Gauges("berth_http_certificate_expires_timestamp_seconds",
		"When the server's certificate expires, in seconds since 1970; 0 without TLS.")
	m.unusable = m.Gauges("berth_http_certificate_unusable",
		"1 while the certificate's files on the disk cannot be used: the last good ones are in use.")
	for _, g := range []*telemetry.Gauges{m.connections, m.expires, m.unusable} {
		g.Ask(func(say telemetry.Say) { say(0) })
	}
	for _, bound := range []string{boundAll, boundAddress, boundRate} {
		m.closed.WithLabelValues(bound)
	}
	return telemetry.Shared(r, m)
}

func (m *httpMetrics) countClosed(bound string) {
	if m != nil {
		m.closed.WithLabelValues(bound).Inc()
	}
}

func (m *httpMetrics) countLimited() {
	if m != nil {
		m.limited.Inc()
	}
}

// show lets the metrics ask a server, until stop.
func (m *httpMetrics) show(l *bounded, o Options) (stop func()) {
	if m == nil {
		return func() {}
	}
	stops := []func(){m.connections.Ask(func(say telemetry.Say) { say(float64(l.Open())) })}
	if o.TLS != nil {
		stops = append(stops, m.expires.Ask(func(say telemetry.Say) {
			at, _ := o.TLS.Expires()
			say(float64(at.Unix()))
		}), m.unusable.Ask(func(say telemetry.Say) {
			if _, unusable := o.TLS.Expires(); unusable {
				say(1)
			}
		}))
	}
	return func() {
		for _, s := range stops {
			s()
		}
	}
}
