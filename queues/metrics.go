// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/queues/plan"
)

// Metrics is what queue managers say of queues, of hosts and of their own work.
// Of queues and hosts only the active manager speaks. A nil *Metrics says nothing
// and costs nothing.
type Metrics struct {
	telemetry.Bundle
	depth, oldest, eligible *telemetry.Gauges
	queues, hosts, active   *telemetry.Gauges
	missing                 *telemetry.Gauges
	twins, unsigned         *telemetry.Gauges
	savedFor, savers        *telemetry.Gauges
	back                    prometheus.Counter
	proved                  *prometheus.CounterVec
	steps                   *prometheus.CounterVec
	advice                  prometheus.Counter
	rings                   *prometheus.CounterVec
}

// NewMetrics registers with r, or answers what did before; a nil r gives nil.
func NewMetrics(r prometheus.Registerer) *Metrics {
	if r == nil {
		return nil
	}
	m := &Metrics{}
	m.depth = m.Gauges("berth_queue_depth",
		"Instances whose work waits in a queue, or is being prepared. From the active queue manager; of more "+
			"than 20,000 queues, only those with work.", "queue")
	m.oldest = m.Gauges("berth_queue_oldest_age_seconds",
		"For how long the oldest work of a queue has waited; 0 if none does. From the active queue manager, as "+
			"the depth.", "queue")
	m.eligible = m.Gauges("berth_queue_eligible_hosts",
		"Hosts that could take a queue's work now, by their last beacons. From the active queue manager, as the "+
			"depth.", "queue")
	m.queues = m.Gauges("berth_queues",
		"Queues that are listed, by state: open, closed, or missing (could not be made yet). From the active "+
			"queue manager.",
		"state")
	m.hosts = m.Gauges("berth_hosts",
		"Hosts by state: enabled, disabled, draining, quarantined or silent (not heard of for 60 s). From "+
			"the active queue manager.",
		"state")
	m.missing = m.Gauges("berth_hosts_missing",
		"Silent hosts that had machines when last heard of, or were neither disabled nor draining. From the active queue "+
			"manager.")
	m.twins = m.Gauges("berth_hosts_with_twins",
		"Hosts that several agents speak for: a copied disk, or one name given twice. From the active queue manager.")
	m.savedFor = m.Gauges("berth_queues_saved_for",
		"Queues with work that has waited for long and fits no host, for which hosts save room. From the active queue "+
			"manager.")
	m.savers = m.Gauges("berth_hosts_saving",
		"Hosts that save room for work of one queue that has waited for long. From the active queue manager.")
	m.unsigned = m.Gauges("berth_hosts_unsigned",
		"Hosts whose last beacon had no MAC, or none that could be checked where the queue manager has masters: "+
			"to be 0 before hosts.trust is set to keys. From the active queue manager.")
	m.proved = m.Counters("berth_queue_manager_beacons_total",
		"Beacons by what their MAC says: signed, unsigned (taken), or refused as Unsigned, Forged or Replayed; "+
			"the refused ones are in the rejected topic. Of managers that have masters.", "result")
	for _, refused := range []compute.ReasonCode{compute.Unsigned, compute.Forged, compute.Replayed} {
		m.proved.WithLabelValues(string(refused)) // from 0 on, so that the first one is an increase
	}
	m.active = m.Gauges("berth_queue_manager_active",
		"Queue managers of this process that are active: 1, or 0 while standing by.")
	m.steps = m.Counters("berth_queue_manager_steps_total",
		"Steps of making and removing queues, one for each queue, by result: ok, or failed (tried again).", "step",
		"result")
	m.back = m.Counter("berth_queue_positions_set_back_total",
		"Times that the position of a queue was found to have gone back, which brokers never do: a process with READ on "+
			"its share group has set it, and finished work is handed out again. From the active queue manager.")
	m.advice = m.Counter("berth_queue_manager_advice_total", "Records of advice written.")
	m.rings = m.Counters("berth_queue_manager_rings_total",
		"Hosts that were rung to look at a queue, or to wait on it, by result: ok, or failed (dropped, or not "+
			"acknowledged).", "result")
	return telemetry.Shared(r, m)
}

// mostSeries is how many queues are shown one by one at most.
const mostSeries = 20_000

// standBy has a manager asked, as long as it runs, whether it is active.
func (m *Metrics) standBy() (stop func()) {
	if m == nil {
		return func() {}
	}
	return m.active.Ask(func(say telemetry.Say) { say(0) })
}

// show has the active manager asked for what it sees, until stop is called.
func (m *Metrics) show(v *view) (stop func()) {
	if m == nil {
		return func() {}
	}
	stops := []func(){
		m.active.Ask(func(say telemetry.Say) { say(1) }),
		m.depth.Ask(v.sayDepth), m.oldest.Ask(v.sayOldest), m.eligible.Ask(v.sayEligible),
		m.queues.Ask(v.sayQueues), m.hosts.Ask(v.sayHosts), m.missing.Ask(v.sayMissing), m.twins.Ask(v.sayTwins),
		m.unsigned.Ask(v.sayUnsigned),
		m.savedFor.Ask(v.saySavings(func(queues, _ int) int { return queues })),
		m.savers.Ask(v.saySavings(func(_, hosts int) int { return hosts })),
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

func (m *Metrics) did(step plan.Op, queues int, err error) {
	if m == nil {
		return
	}
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.steps.WithLabelValues(strings.ReplaceAll(step.String(), " ", "-"), result).Add(float64(queues))
}

func (m *Metrics) positionWentBack() {
	if m != nil {
		m.back.Inc()
	}
}

func (m *Metrics) believed(proved hostkey.Proved, reason *compute.Reason) {
	if m != nil {
		m.proved.WithLabelValues(hostkey.Result(proved, reason)).Inc()
	}
}

func (m *Metrics) advised() {
	if m != nil {
		m.advice.Inc()
	}
}

func (m *Metrics) rang(n int, err error) {
	if m == nil {
		return
	}
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.rings.WithLabelValues(result).Add(float64(n))
}

// shown lists the queues that are shown one by one.
func (v *view) shown() []compute.QueueName {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.listed) <= mostSeries {
		return slices.Collect(maps.Keys(v.listed))
	}
	var some []compute.QueueName
	for q := range v.listed {
		if l := v.loads[q]; l != nil && l.waiting.Len() > 0 || v.stray[q] > 0 {
			some = append(some, q)
		}
	}
	slices.Sort(some)
	return some[:min(len(some), mostSeries)]
}

// The functions below say what there is. They hold the lock for one queue at a
// time, so that readers of records are not held up.

func (v *view) sayDepth(say telemetry.Say) {
	at := v.logTime(v.now())
	for _, q := range v.shown() {
		v.mu.Lock()
		p := v.progress(q, at)
		v.mu.Unlock()
		say(float64(p.Depth-p.Stray), string(q))
	}
}

func (v *view) sayOldest(say telemetry.Say) {
	at := v.logTime(v.now())
	for _, q := range v.shown() {
		v.mu.Lock()
		p := v.progress(q, at)
		v.mu.Unlock()
		age := 0.0
		if !p.Oldest.IsZero() {
			age = max(0, at.Sub(p.Oldest).Seconds())
		}
		say(age, string(q))
	}
}

func (v *view) sayEligible(say telemetry.Say) {
	names := v.shown()
	v.mu.Lock()
	defer v.mu.Unlock()
	hosts := v.advisor.AllEligible()
	for _, q := range names {
		if n, ok := hosts[q]; ok {
			say(float64(n), string(q))
		}
	}
}

func (v *view) sayQueues(say telemetry.Say) {
	v.mu.Lock()
	defer v.mu.Unlock()
	open, closed, missing := 0, 0, 0
	for _, q := range v.listed {
		switch {
		case q.CannotBeMade():
			missing++
		case q.State == compute.QueueClosed:
			closed++
		default:
			open++
		}
	}
	say(float64(open), compute.QueueOpen.String())
	say(float64(closed), compute.QueueClosed.String())
	say(float64(missing), "missing")
}

func (v *view) sayHosts(say telemetry.Say) {
	v.mu.Lock()
	states := v.advisor.States()
	v.mu.Unlock()
	for s := compute.HostEnabled; s <= compute.HostSilent; s++ {
		say(float64(states[s]), s.String())
	}
}

func (v *view) sayMissing(say telemetry.Say) {
	v.mu.Lock()
	n := v.advisor.Missing()
	v.mu.Unlock()
	say(float64(n))
}

func (v *view) sayUnsigned(say telemetry.Say) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := 0
	for _, is := range v.unsigned {
		if is {
			n++
		}
	}
	say(float64(n))
}
