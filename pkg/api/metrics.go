// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/telemetry"
)

// Metrics counts what the API nodes of a process do. A nil *Metrics counts
// nothing.
type Metrics struct {
	telemetry.Bundle
	requests *prometheus.CounterVec   // operation, status
	took     *prometheus.HistogramVec // operation
	refused  *prometheus.CounterVec   // kind, reason
	boots    *prometheus.CounterVec   // new or repeated
	gone     prometheus.Counter       // boots that conductors refused
	publish  *prometheus.HistogramVec // result
	waiting  *telemetry.Gauges        // what
	silent   *telemetry.Gauges        // what
	alone    *telemetry.Gauges        // what
	age      *telemetry.Gauges        // view
	later    *telemetry.Gauges
	hearing  *telemetry.Gauges
	ended    *prometheus.CounterVec // listeners to events, by why
}

// NewMetrics registers with r, or answers what did before; a nil r gives nil.
func NewMetrics(r prometheus.Registerer) *Metrics {
	if r == nil {
		return nil
	}
	m := &Metrics{}
	m.requests = m.Counters("berth_api_requests_total", "HTTP requests answered, by operation and status; 500 also for "+
		"one whose connection ended since its handler panicked.", "operation", "status")
	m.took = m.Histograms("berth_api_request_seconds", "Seconds until a request was answered, by operation.",
		telemetry.Short(), "operation")
	m.refused = m.Counters("berth_api_refused_total",
		"HTTP requests refused, by the kind of the problem and its reason code, if there is one.", "kind",
		"reason")
	m.boots = m.Counters("berth_api_boots_total",
		"Boots answered with 202: new ones, and repetitions of earlier ones.", "boot")
	m.gone = m.Counter("berth_api_dropped_boots_total",
		"Boots that this node showed as accepted until the conductors had refused them: rejected says why. Every node "+
			"counts them.")
	m.publish = m.Histograms("berth_api_publish_seconds",
		"Seconds until Kafka answered a publication, by the kind of error or ok.", telemetry.Short(), "result")
	m.waiting = m.Gauges("berth_api_waiting",
		"Requests that wait for Kafka now: publications, and readers that catch up.", "what")
	m.silent = m.Gauges("berth_api_kafka_silent_seconds",
		"Seconds since Kafka last failed to answer and nothing succeeded; 0 while it answers.", "what")
	m.alone = m.Gauges("berth_api_silent_partitions",
		"Partitions and topics that did not answer when this node last asked for them, while others did.", "what")
	m.age = m.Gauges("berth_api_view_age_seconds",
		"Seconds since this node last took a record of the topic, or began to read it.", "view")
	m.later = m.Gauges("berth_api_later_instances",
		"Instances whose record a later version of Berth wrote: this node shows none of them.")
	m.hearing = m.Gauges("berth_api_listeners", "Listeners to events now.")
	m.ended = m.Counters("berth_api_listeners_ended_total", "Listeners to events that ended, by why: left by themselves, "+
		"caught-up as they had asked for, slow or blocked and cut off, stopping with the node, signed-out.", "why")
	return telemetry.Shared(r, m)
}

// show lets the metrics ask a node.
func (m *Metrics) show(s *Server) (stop func()) {
	if m == nil {
		return func() {}
	}
	var stops []func()
	for _, g := range []*breaker{s.writes, s.reads} {
		stops = append(stops,
			m.waiting.Ask(func(say telemetry.Say) { n, _, _ := g.state(time.Now()); say(float64(n), g.name) }),
			m.silent.Ask(func(say telemetry.Say) { _, d, _ := g.state(time.Now()); say(d.Seconds(), g.name) }),
			m.alone.Ask(func(say telemetry.Say) { _, _, n := g.state(time.Now()); say(float64(n), g.name) }))
	}
	stops = append(stops, m.age.Ask(func(say telemetry.Say) {
		for i, name := range viewNames {
			say(time.Since(*s.views.lastRecord[i].Load()).Seconds(), name)
		}
	}))
	stops = append(stops, m.later.Ask(func(say telemetry.Say) { say(float64(s.views.instances.unreadable())) }))
	stops = append(stops, m.hearing.Ask(func(say telemetry.Say) { say(float64(s.events.Listeners())) }))
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// begin counts the failures of every operation from 0 on, so that the first one is an increase.
func (m *Metrics) begin(doc *huma.OpenAPI) {
	if m == nil {
		return
	}
	for _, path := range doc.Paths {
		for _, op := range []*huma.Operation{path.Get, path.Put, path.Post, path.Patch, path.Delete} {
			if op != nil {
				m.requests.WithLabelValues(op.OperationID, strconv.Itoa(http.StatusInternalServerError))
			}
		}
	}
}

// count is huma's way to see every request, those it refuses itself too.
func (m *Metrics) count(ctx huma.Context, next func(huma.Context)) {
	if m == nil {
		next(ctx)
		return
	}
	began, status := time.Now(), http.StatusInternalServerError // where it panics, which ends the connection
	defer func() {
		op := ctx.Operation().OperationID
		m.requests.WithLabelValues(op, strconv.Itoa(status)).Inc()
		if op != followEvents { // that takes as long as somebody listens
			m.took.WithLabelValues(op).Observe(telemetry.Since(began))
		}
	}()
	next(ctx)
	status = ctx.Status()
}

func (m *Metrics) listenerEnded(why string) {
	if m != nil {
		m.ended.WithLabelValues(why).Inc()
	}
}

// unrouted counts a request that no operation took.
func (m *Metrics) unrouted(status int, kind compute.Kind) {
	if m != nil {
		m.requests.WithLabelValues("none", strconv.Itoa(status)).Inc()
		m.refusal(kind.String(), "")
	}
}

func (m *Metrics) refusal(kind string, reason compute.ReasonCode) {
	if m != nil {
		m.refused.WithLabelValues(kind, string(reason)).Inc()
	}
}

func (m *Metrics) accepted() {
	if m != nil {
		m.boots.WithLabelValues("new").Inc()
	}
}

func (m *Metrics) repeated() {
	if m != nil {
		m.boots.WithLabelValues("repeated").Inc()
	}
}

func (m *Metrics) dropped() {
	if m != nil {
		m.gone.Inc()
	}
}

func (m *Metrics) published(began time.Time, err error) {
	if m == nil {
		return
	}
	result := "ok"
	if err != nil {
		result = compute.KindOf(err).String()
	}
	m.publish.WithLabelValues(result).Observe(telemetry.Since(began))
}
