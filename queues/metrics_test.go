// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
	"github.com/berth-project/berth/queues/advise"
)

func counting(reg prometheus.Registerer) func(*Options) {
	return func(o *Options) { o.Metrics = NewMetrics(reg) }
}

func TestMetrics(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		reg := prometheus.NewRegistry()
		is := func(want float64, family string, labels ...string) {
			t.Helper()
			telemetrytest.Is(t, reg, want, family, labels...)
		}
		shown := func(want bool, family string, labels ...string) {
			t.Helper()
			if _, ok := telemetrytest.Value(t, reg, family, labels...); ok != want {
				t.Errorf("%s %v is shown: %v", family, labels, ok)
			}
		}
		m := f.join(t, "a", counting(reg))
		f.publish(names.Hosts(), beacon("h1", 4), beacon("h2", 0))
		f.publish(names.Catalog(), flavor("x"), flavor("y"))
		f.publish(names.Instances(), instance(9, "x", compute.StateQueued))
		settle(time.Minute)
		is(0, "berth_queue_manager_active")
		shown(false, "berth_queue_depth")
		shown(false, "berth_hosts")

		m.elected <- true
		settle(2 * time.Second)
		is(1, "berth_queue_manager_active")
		is(2, "berth_queues", "state", "open")
		is(2, "berth_hosts", "state", "silent")
		is(2, "berth_hosts_missing")
		is(2, "berth_queue_manager_steps_total", "step", "create-topic", "result", "ok")
		is(2, "berth_queue_manager_steps_total", "step", "list", "result", "ok")
		is(1, "berth_queue_depth", "queue", "x")
		is(62, "berth_queue_oldest_age_seconds", "queue", "x")
		is(0, "berth_queue_depth", "queue", "y")
		shown(true, "berth_queue_depth", "queue", "y")
		is(0, "berth_queue_oldest_age_seconds", "queue", "y")

		f.publish(names.Hosts(), beacon("h1", 5), beacon("h2", 0))
		f.publish(names.Instances(), instance(9, "x", compute.StateStarting),
			instance(3, "y", compute.StateQueued), instance(4, "y", compute.StateQueued))
		settle(2 * time.Second)
		is(2, "berth_hosts", "state", "enabled")
		is(0, "berth_hosts", "state", "silent")
		is(0, "berth_hosts_missing")
		is(1, "berth_queue_eligible_hosts", "queue", "y")
		is(0, "berth_queue_depth", "queue", "x")
		is(2, "berth_queue_depth", "queue", "y")
		is(2, "berth_queue_oldest_age_seconds", "queue", "y")

		f.publish(names.Catalog(), noFlavor("x"))
		settle(2 * time.Second)
		is(1, "berth_queues", "state", "closed")
		f.publish(names.Instances(), instance(9, "x", compute.StateActive))
		settle(time.Minute)
		shown(false, "berth_queue_depth", "queue", "x")
		shown(false, "berth_queue_oldest_age_seconds", "queue", "x")
		shown(false, "berth_queue_eligible_hosts", "queue", "x")
		is(1, "berth_queues")

		m.elected <- false
		settle(time.Second)
		is(0, "berth_queue_manager_active")
		shown(false, "berth_queue_depth")
		shown(false, "berth_queues")
	})
}

func TestMetricsOfQueuesThatCannotBeMade(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		reg := prometheus.NewRegistry()
		f.fault = func(c call) fault {
			if c.op == "create" && strings.Contains(c.name, "bad") {
				return fault{refuse: compute.Conflict("topic", "bad", "cannot be made", "make room")}
			}
			return fault{}
		}
		m := f.join(t, "a", counting(reg))
		f.publish(names.Catalog(), flavor("bad"), flavor("good"))
		m.elected <- true
		settle(10 * time.Minute)
		telemetrytest.Is(t, reg, 1, "berth_queues", "state", "missing")
		telemetrytest.Is(t, reg, 1, "berth_queues", "state", "open")
		if n, _ := telemetrytest.Value(t, reg, "berth_queue_manager_steps_total", "result", "failed"); n < 8 {
			t.Errorf("%v steps failed", n)
		}
	})
}

// However many queues there are, a scrape stays of a bounded size.
func TestMetricsOfVeryManyQueues(t *testing.T) {
	v := newView(Options{Advice: advise.DefaultRules()}.withDefaults())
	for i := range mostSeries + 5 {
		q := compute.QueueName(fmt.Sprint("q", i))
		v.listed[q] = compute.Queue{Name: q, TopicID: "t"}
	}
	v.instance(instance(1, "q17", compute.StateQueued), time.Now())
	v.stray["q18"] = 2
	if got := fmt.Sprint(v.shown()); got != "[q17 q18]" {
		t.Errorf("shown: %s", got)
	}
	for i := range mostSeries + 5 {
		v.stray[compute.QueueName(fmt.Sprint("q", i))] = 1
	}
	if n := len(v.shown()); n != mostSeries {
		t.Errorf("%d are shown", n)
	}
}
