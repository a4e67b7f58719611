// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
)

func TestMetrics(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		reg := prometheus.NewRegistry()
		is := func(want float64, family string, labels ...string) {
			c.t.Helper()
			telemetrytest.Is(c.t, reg, want, family, labels...)
		}
		n := c.start(
			dir, fake.Options{PrepareTime: 10 * time.Second, LaunchTime: time.Second},
			func(o *Options) { o.Metrics = NewMetrics(reg) },
		)
		pass(time.Second)
		is(16, "berth_host_free", "host", "h1", "resource", "VCPU")
		is(16, "berth_host_capacity", "host", "h1", "resource", "VCPU")
		is(1, "berth_host_offering", "host", "h1")
		is(1, "berth_host_state", "host", "h1", "state", "enabled")
		c.boot(1, "small")
		c.boot(2, "small")
		pass(6 * time.Second)
		is(2, "berth_host_building", "host", "h1")
		is(14, "berth_host_free", "host", "h1", "resource", "VCPU")
		pass(10 * time.Second)
		is(2, "berth_agent_taken_total")
		is(2, "berth_agent_claims_total")
		is(2, "berth_agent_launches_total")
		is(2, "berth_agent_claim_answer_seconds")
		is(2, "berth_agent_hypervisor_duration_seconds", "operation", "prepare", "result", "ok")
		is(2, "berth_agent_hypervisor_duration_seconds", "operation", "launch", "result", "ok")
		is(0, "berth_host_building", "host", "h1")
		is(2, "berth_host_machines", "host", "h1")
		if sum := telemetrytest.Sum(
			c.t, reg, "berth_agent_hypervisor_duration_seconds", "operation", "prepare",
		); sum != 20 {
			c.t.Errorf("prepared in %v s", sum)
		}
		if n, _ := telemetrytest.Value(c.t, reg, "berth_agent_journal_write_duration_seconds"); n < 2 {
			c.t.Errorf("the journal was written %v times", n)
		}
		if n, _ := telemetrytest.Value(c.t, reg, "berth_agent_offers_total"); n < 3 {
			c.t.Errorf("offered %v times", n)
		}
		c.delete(1)
		pass(time.Second)
		is(1, "berth_agent_hypervisor_duration_seconds", "operation", "destroy", "result", "ok")
		pass(6 * time.Second)
		is(1, "berth_host_machines", "host", "h1")
		c.desire(compute.HostDisabled, 1)
		pass(6 * time.Second) // as often as it may be said
		is(0, "berth_host_offering", "host", "h1")
		is(1, "berth_host_state", "host", "h1", "state", "disabled")
		is(0, "berth_host_state", "host", "h1", "state", "enabled")
		stop(c, n)
		for _, gone := range []string{
			"berth_host_free", "berth_host_capacity", "berth_host_machines", "berth_host_building",
			"berth_host_offering", "berth_host_state",
		} {
			if _, shown := telemetrytest.Value(c.t, reg, gone); shown {
				c.t.Errorf("%s is shown of an agent that has ended", gone)
			}
		}
	})
}

func TestMetricsOfWhatGoesWrong(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		reg := prometheus.NewRegistry()
		is := func(want float64, family string, labels ...string) {
			c.t.Helper()
			telemetrytest.Is(c.t, reg, want, family, labels...)
		}
		d := fake.Options{PrepareTime: 5 * time.Second, Fault: func(call fake.Call) *fake.Fault {
			if call.Method == "Launch" && call.Instance == id(3) {
				return &fake.Fault{Err: &hypervisor.Error{Class: compute.FailureHost, Message: "no room"}}
			}
			return nil
		}}
		n := c.start(dir, d, func(o *Options) { o.Metrics = NewMetrics(reg) })
		c.boot(1, "small")
		pass(2 * time.Second)
		c.delete(1) // while it is prepared: the claim will be denied
		pass(10 * time.Second)
		is(1, "berth_agent_denied_total")
		is(1, "berth_agent_claim_answer_seconds")
		is(0, "berth_agent_launches_total")
		c.boot(2, "small", func(b *compute.Build) { b.Avoid = []compute.HostID{"h1"} })
		pass(time.Second)
		is(1, "berth_agent_released_total")
		c.delete(2)
		c.mu.Lock()
		c.queues["small"].items[1].done = true
		c.attempts = 1
		c.mu.Unlock()
		c.boot(3, "small")
		pass(20 * time.Second)
		is(1, "berth_agent_failed_total", "class", "host")
		is(1, "berth_agent_hypervisor_duration_seconds", "operation", "launch", "result", "failed")
		stop(c, n)
	})
}

// Many agents of one process share what they count and are told apart in what
// they say of their hosts.
func TestMetricsOfSeveralAgents(t *testing.T) {
	reg := prometheus.NewRegistry()
	if first, second := NewMetrics(reg), NewMetrics(reg); first != second {
		t.Fatal("two agents of one process count apart")
	}
	for _, host := range []compute.HostID{"h1", "h2"} {
		a := &Agent{opts: Options{Host: host, Metrics: NewMetrics(reg)}}
		a.counts.into(a.opts.Metrics)
		a.counts.taken.Add(2)
		a.see(compute.Beacon{Host: host, Free: compute.Resources{compute.VCPU: 3}})
		defer a.opts.Metrics.show(a)()
	}
	telemetrytest.Is(t, reg, 4, "berth_agent_taken_total")
	telemetrytest.Is(t, reg, 3, "berth_host_free", "host", "h2")
	telemetrytest.Is(t, reg, 6, "berth_host_free")
}

func BenchmarkMetrics(b *testing.B) {
	for name, m := range map[string]*Metrics{"on": NewMetrics(prometheus.NewRegistry()), "off": nil} {
		b.Run(strings.ToLower(name), func(b *testing.B) {
			a := &Agent{opts: Options{Metrics: m}}
			a.counts.into(m)
			began := time.Now()
			for b.Loop() { // what one boot counts
				a.counts.offers.Add(1)
				a.counts.taken.Add(1)
				a.counts.claims.Add(1)
				a.counts.launches.Add(1)
				m.called(&call{began: began}, nil)
				m.called(&call{began: began, stage: 2}, nil)
				m.wrote(began)
				a.see(compute.Beacon{})
			}
		})
	}
}
