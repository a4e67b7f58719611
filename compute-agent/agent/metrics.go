// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/telemetry"
)

// Metrics counts what the agents of a process do, all together, and says what
// each host is and has. A nil *Metrics counts nothing and costs nothing.
type Metrics struct {
	telemetry.Bundle
	offers, taken, released, claims, denied, launches, moved prometheus.Counter
	failed, savings                                          *prometheus.CounterVec
	calls                                                    *prometheus.HistogramVec
	answers, writes                                          prometheus.Histogram

	free, capacity, machines, building, offering, state, late *telemetry.Gauges
}

// NewMetrics registers with r, or answers what did before; a nil r gives nil.
func NewMetrics(r prometheus.Registerer) *Metrics {
	if r == nil {
		return nil
	}
	m := &Metrics{}
	m.offers = m.Counter(
		"berth_agent_offers_total",
		"Fetches from queues that were opened: times that a host offered room.",
	)
	m.taken = m.Counter("berth_agent_taken_total", "Builds that were taken and begun.")
	m.released = m.Counter(
		"berth_agent_released_total",
		"Records of queues that were given to others: they did not fit any more, or this host should not take them.",
	)
	m.claims = m.Counter("berth_agent_claims_total", "Claims sent, repeats included.")
	m.denied = m.Counter("berth_agent_denied_total", "Claims that were denied; what was prepared is undone.")
	m.launches = m.Counter("berth_agent_launches_total", "Machines that were launched.")
	m.failed = m.Counters("berth_agent_failed_total", "Builds that failed here, by class of failure.", "class")
	m.savings = m.Counters("berth_agent_savings_ended_total",
		"Times that a host stopped saving room for a queue, by why: taken (work of it was taken), time (the time was over), "+
			"gone (the work was), stopped (the host takes no work).", "why")
	m.moved = m.Counter("berth_agent_preempted_total",
		"Preemptible machines whose places this host has asked for, for work of the classes above.")
	m.calls = m.Histograms(
		"berth_agent_hypervisor_duration_seconds",
		"Time of calls of the hypervisor, by operation (prepare, launch, power, destroy) and result.",
		telemetry.Long(), "operation", "result",
	)
	m.answers = m.Histogram(
		"berth_agent_claim_answer_seconds", "Time from the first claim of a build until it was granted or denied.",
		telemetry.Short(),
	)
	m.writes = m.Histogram(
		"berth_agent_journal_write_duration_seconds",
		"Time of writing the journal to disk, fsync included.", telemetry.Short(),
	)
	m.free = m.Gauges(
		"berth_host_free",
		"What nothing on the host holds, by resource: processors, MiB of memory, GiB of disk, or the "+
			"operator's own. As all of berth_host_, up to 5 s old.",
		"host",
		"resource",
	)
	m.capacity = m.Gauges(
		"berth_host_capacity", "What the host has for machines, free or not, by resource.", "host", "resource",
	)
	m.machines = m.Gauges("berth_host_machines", "Machines on the host that run or are stopped, or that end.", "host")
	m.building = m.Gauges("berth_host_building", "Machines on the host that are being made.", "host")
	m.offering = m.Gauges(
		"berth_host_offering", "1 if the agent takes work: enabled, and caught up with what it was told.", "host",
	)
	m.state = m.Gauges(
		"berth_host_state", "1 for the state the host is in: enabled, disabled, draining or quarantined.", "host",
		"state",
	)
	m.late = m.Gauges(
		"berth_host_drain_late_seconds",
		"For how long a draining host should have been empty by its deadline, and is not; else 0.", "host",
	)
	return telemetry.Shared(r, m)
}

// into has the counts of one agent go into the process's metrics too.
func (c *counters) into(m *Metrics) {
	if m == nil {
		return
	}
	c.offers.too, c.taken.too, c.released.too = m.offers, m.taken, m.released
	c.claims.too, c.denied.too, c.launches.too = m.claims, m.denied, m.launches
}

// show has an agent asked until stop is called.
func (m *Metrics) show(a *Agent) (stop func()) {
	if m == nil {
		return func() {}
	}
	host := string(a.opts.Host)
	var stops []func()
	ask := func(g *telemetry.Gauges, say func(b *compute.Beacon, say telemetry.Say)) {
		stops = append(stops, g.Ask(func(to telemetry.Say) {
			if b := a.seen.Load(); b != nil { // else the hypervisor has not answered yet
				say(b, to)
			}
		}))
	}
	ask(m.free, func(b *compute.Beacon, say telemetry.Say) {
		for class, n := range b.Free {
			say(float64(n), host, string(class))
		}
	})
	ask(m.capacity, func(b *compute.Beacon, say telemetry.Say) {
		for class, n := range b.Inventory.Totals {
			say(float64(n-b.Inventory.Reserved[class]), host, string(class))
		}
	})
	ask(m.machines, func(b *compute.Beacon, say telemetry.Say) { say(float64(b.Machines), host) })
	ask(m.building, func(b *compute.Beacon, say telemetry.Say) { say(float64(b.Building), host) })
	ask(m.state, func(b *compute.Beacon, say telemetry.Say) { say(1, host, b.State.String()) })
	ask(m.late, func(b *compute.Beacon, say telemetry.Say) { say(late(b, time.Now()).Seconds(), host) })
	stops = append(stops, m.offering.Ask(func(say telemetry.Say) { say(oneIf(a.counts.offering.Load()), host) }))
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// late is how long a host has not been empty though it should be.
func late(b *compute.Beacon, now time.Time) time.Duration {
	if b.State != compute.HostDraining || b.Deadline.IsZero() || b.Machines+b.Building == 0 {
		return 0
	}
	return max(0, now.Sub(b.Deadline))
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// see keeps what the host is, for the metrics.
func (a *Agent) see(b compute.Beacon) {
	if a.opts.Metrics != nil {
		kept := b
		a.seen.Store(&kept)
	}
}

// called counts a call of the hypervisor; one that never began is none.
func (m *Metrics) called(c *call, err error) {
	if m == nil || c.began.IsZero() {
		return
	}
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.calls.WithLabelValues(operation(c.stage), result).Observe(telemetry.Since(c.began))
}

// operation is what a task in this stage has the hypervisor do.
func operation(s task.Stage) string {
	switch s {
	case task.Preparing:
		return "prepare"
	case task.Launching:
		return "launch"
	case task.Running:
		return "power"
	}
	return "destroy"
}

// answered counts the end of waiting for an answer to a claim. One of a set waits for other hosts.
func (m *Metrics) answered(t *task.Task) {
	if m != nil && t.Stage == task.Claiming && !t.Since.IsZero() && t.Hold == 0 {
		m.answers.Observe(telemetry.Since(t.Since))
	}
}

func (m *Metrics) wrote(began time.Time) {
	if m != nil {
		m.writes.Observe(telemetry.Since(began))
	}
}

func (m *Metrics) savingEnded(why string) {
	if m != nil {
		m.savings.WithLabelValues(why).Inc()
	}
}

func (m *Metrics) preempted() {
	if m != nil {
		m.moved.Inc()
	}
}

func (m *Metrics) failedAs(c compute.FailureClass) {
	if m != nil {
		m.failed.WithLabelValues(c.String()).Inc()
	}
}

// tally is a count that Stats reads and, if there are metrics, those too.
type tally struct {
	n   atomic.Int64
	too prometheus.Counter // nil: none
}

func (t *tally) Load() int64 { return t.n.Load() }

func (t *tally) Add(n int64) {
	if t.n.Add(n); t.too != nil {
		t.too.Add(float64(n))
	}
}

// Stats count what an agent did since it was made.
type Stats struct {
	Offers   int64 // fetches opened
	Taken    int64 // builds taken
	Released int64 // records given to others
	Claims   int64 // claims sent, repeats included
	Denied   int64
	Launches int64 // launches that succeeded
	Failed   int64 // builds that failed here
	Offering bool  // reconciled, caught up with its stream and allowed to offer
}

// counters are Stats that one goroutine counts and others read.
type counters struct {
	offers, taken, released, claims, denied, launches, failed tally
	offering                                                  atomic.Bool
}

func (c *counters) stats() Stats {
	return Stats{
		Offers: c.offers.Load(), Taken: c.taken.Load(), Released: c.released.Load(), Claims: c.claims.Load(),
		Denied: c.denied.Load(), Launches: c.launches.Load(), Failed: c.failed.Load(), Offering: c.offering.Load(),
	}
}
