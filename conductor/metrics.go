// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/pkg/tracing"
)

// Metrics counts what the conductors of a process decide. What is undone is not
// counted: a turn counts when it is committed. A nil *Metrics counts nothing and
// costs nothing.
type Metrics struct {
	telemetry.Bundle
	decisions         *prometheus.CounterVec
	effects           *prometheus.CounterVec
	rejected          *prometheus.CounterVec
	proved            *prometheus.CounterVec
	published         *prometheus.CounterVec
	granted, active   prometheus.Histogram
	instances, oldest *telemetry.Gauges
	held              *telemetry.Gauges

	admitted, grants, actives, publishes prometheus.Counter // the frequent ones, found once
}

// NewMetrics registers with r, or answers what did before; a nil r gives nil.
func NewMetrics(r prometheus.Registerer) *Metrics {
	if r == nil {
		return nil
	}
	m := &Metrics{}
	m.decisions = m.Counters("berth_conductor_decisions_total",
		"What became of requests, claims and instances: admitted, refused, granted, denied, active, requeued "+
			"(next attempt), deleting, deleted or error; with the reason code, where there is one.",
		"decision", "reason")
	m.effects = m.Counters("berth_conductor_effects_total",
		"What was sent: publish (work into its queue) or a command to a host; repeated ones are counted each time.",
		"effect")
	m.rejected = m.Counters("berth_conductor_rejected_records_total",
		"Records that could not be read or made no sense, by topic; each is in the rejected topic with the reason.",
		"topic")
	m.proved = m.Counters("berth_conductor_host_records_total",
		"Reports and beacons by what their MAC says: signed, unsigned (taken), or refused as Unsigned, Forged or "+
			"Replayed. Beacons are counted by every conductor.", "topic", "result")
	m.published = m.Counters("berth_conductor_publisher_records_total",
		"Requests by what their signature says, where publish.masters is set: signed, or Unsigned, Forged or "+
			"ForeignProject, which publish.trust all takes and keys refuses.", "result")
	m.granted = m.Histogram("berth_conductor_granted_seconds",
		"Time from an API node taking a boot to its claim being granted, by the time of the log; of later "+
			"attempts too.", telemetry.Long())
	m.active = m.Histogram("berth_conductor_active_seconds",
		"Time from an API node taking a boot to its machine running, by the time of the log.", telemetry.Long())
	m.instances = m.Gauges("berth_conductor_instances",
		"Instances of the partitions of this process, by state; deleted and failed ones are kept for 15 days, "+
			"of each project at most limits.ended.", "state")
	m.oldest = m.Gauges("berth_conductor_oldest_grant_seconds",
		"For how long the oldest grant of this process's partitions has no answer: its host has said neither that the "+
			"machine runs nor that it failed. 0 if there is none.")
	m.held = m.Gauges("berth_conductor_held_builds",
		"Builds of this process's partitions that wait and are in no queue: by their group, or since their "+
			"project has as many in the queue as its share.", "by")
	for _, topic := range []string{"requests", "reports", "instances"} {
		m.rejected.WithLabelValues(topic) // from 0 on, so that the first one is an increase
	}
	for _, c := range codes { // shown before the first, so that this is an increase
		m.decisions.WithLabelValues("error", string(c))
	}
	m.admitted, m.grants = m.decisions.WithLabelValues("admitted", ""), m.decisions.WithLabelValues("granted", "")
	m.actives, m.publishes = m.decisions.WithLabelValues("active", ""), m.effects.WithLabelValues("publish")
	return telemetry.Shared(r, m)
}

// show has the counts asked until stop is called.
func (m *Metrics) show(c *stateCounts) (stop func()) {
	if m == nil {
		return func() {}
	}
	all, oldest, held := m.instances.Ask(c.say), m.oldest.Ask(c.sayOldestGrant), m.held.Ask(c.sayHeld)
	return func() {
		all()
		held()
		oldest()
	}
}

// believed counts a report or beacon whose MAC was looked at, as soon as it was: one that is
// decided again after a failure counts again.
func (m *Metrics) believed(topic string, proved hostkey.Proved, reason *compute.Reason) {
	if m != nil {
		m.proved.WithLabelValues(topic, hostkey.Result(proved, reason)).Inc()
	}
}

// vouched counts a request whose signature was looked at, as believed does.
func (m *Metrics) vouched(reason *compute.Reason) {
	if m == nil {
		return
	}
	result := "signed"
	if reason != nil {
		result = string(reason.Code)
	}
	m.published.WithLabelValues(result).Inc()
}

// decided counts one record that changed. examples: its times may name its trace, where this process tells of traces;
// whoever reads metrics sees such a name, and mostly it is the instance's id.
func (m *Metrics) decided(was compute.State, inst *compute.Instance, examples bool) {
	trace := compute.Trace("")
	if examples {
		trace = inst.Trace
	}
	switch d := decisionOf(was, inst.State); d {
	case "":
	case "admitted":
		m.admitted.Inc()
	case "granted":
		m.grants.Inc()
		observe(m.granted, seconds(inst.AcceptedAt, inst.StartingAt), trace)
	case "active":
		m.actives.Inc()
		observe(m.active, seconds(inst.AcceptedAt, inst.ActiveAt), trace)
	default:
		m.decisions.WithLabelValues(d, codeOf(inst.Reason)).Inc()
	}
}

// observe counts a time, with the trace of the boot as its example, if it is traced.
func observe(h prometheus.Histogram, seconds float64, trace compute.Trace) {
	if id := tracing.ID(trace); id != "" {
		if e, ok := h.(prometheus.ExemplarObserver); ok {
			e.ObserveWithExemplar(seconds, prometheus.Labels{"trace_id": id})
			return
		}
	}
	h.Observe(seconds)
}

// seconds is never negative, whatever the clocks of two processes say.
func seconds(from, to time.Time) float64 { return max(0, to.Sub(from).Seconds()) }

// decisionOf names a change of state; empty for what is none.
func decisionOf(was, is compute.State) string {
	switch {
	case was == is:
		return ""
	case was == compute.StateNone && is == compute.StateError:
		return "refused"
	case was == compute.StateNone && is == compute.StateQueued:
		return "admitted"
	case is == compute.StateQueued:
		return "requeued"
	case is == compute.StateStarting:
		return "granted"
	}
	return is.String() // active, deleting, deleted, error
}

// codes are the reasons that what conductors decide may have, each a label's value.
var codes = []compute.ReasonCode{
	compute.QuotaExceeded, compute.NoSuchFlavor, compute.NoSuchCapability, compute.QueueClosedReason,
	compute.NeverFits, compute.NoEligibleHost, compute.WaitingForCapacity, compute.GroupRule, compute.NoSuchGroup,
	compute.SetWaits, compute.SetFailed, compute.NoSuchReservation, compute.ReservationFull, compute.ReservationWaits,
	compute.ReservationEnded, compute.PinnedHostUnavailable, compute.BuildFailed, compute.AttemptsExhausted,
	compute.DeadlineExceeded, compute.Cancelled, compute.HostLost, compute.Preempted, compute.Malformed,
	compute.RequestDiffers, compute.AttemptOver,
}

// codeOf is a reason's code as a label's value. A record that another version
// wrote may have any; what this one does not know is one value.
func codeOf(r *compute.Reason) string {
	switch {
	case r == nil:
		return ""
	case slices.Contains(codes, r.Code):
		return string(r.Code)
	}
	return "other"
}
