// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
)

const (
	drainLate  = "the host should be drained by now and is not: what is left stays until it is deleted"
	drainEmpty = "the host is drained: nothing is left on it"
)

func (c *cell) drain(v compute.Version, by time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.say(compute.Command{Op: compute.CommandHost, Desired: &compute.HostDesired{
		State: compute.HostDraining, Reason: "because", Version: v, Deadline: by,
	}})
}

func (c *cell) wantLeft(s compute.HostState, by time.Time, machines uint32) {
	c.t.Helper()
	if b := c.beacon(); b.State != s || !b.Deadline.Equal(by) || b.Machines != machines || b.Building != 0 {
		c.t.Errorf(
			"the beacon says %s until %s, %d machines, %d building; want %s until %s, %d", b.State, b.Deadline,
			b.Machines, b.Building, s, by, machines,
		)
	}
}

// A deadline that passes is told, once, and ends nothing; the last delete is
// told too. Calling the drain off takes the deadline away.
func TestDrainDeadline(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		reg := prometheus.NewRegistry()
		core, logs := observer.New(zapcore.InfoLevel)
		said := func(message string, want int) {
			c.t.Helper()
			if got := logs.FilterMessage(message).Len(); got != want {
				c.t.Errorf("it says %d times, and should %d: %s", got, want, message)
			}
		}
		lateFor := func() float64 {
			v, _ := telemetrytest.Value(c.t, reg, "berth_host_drain_late_seconds", "host", "h1")
			return v
		}
		n := c.start(dir, fake.Options{}, func(o *Options) { o.Metrics, o.Log = NewMetrics(reg), zap.New(core) })
		c.boot(1, "small")
		c.boot(2, "small")
		pass(time.Second)
		by := time.Now().Add(time.Minute).UTC()
		c.drain(1, by)
		pass(30 * time.Second)
		c.wantLeft(compute.HostDraining, by, 2)
		said(drainLate, 0)
		if lateFor() != 0 {
			c.t.Errorf("late for %v s before its deadline", lateFor())
		}
		c.delete(1)
		pass(5 * time.Minute)
		c.want(compute.StateDeleted, compute.StateActive)
		c.wantLeft(compute.HostDraining, by, 1)
		said(drainLate, 1)
		said(drainEmpty, 0)
		if lateFor() != 270 {
			c.t.Errorf("late for %v s", lateFor())
		}
		c.delete(2)
		pass(time.Minute)
		c.wantLeft(compute.HostDraining, by, 0)
		said(drainEmpty, 1)
		if lateFor() != 0 {
			c.t.Errorf("empty, and late for %v s", lateFor())
		}
		c.desire(compute.HostEnabled, 2)
		pass(10 * time.Second)
		c.wantLeft(compute.HostEnabled, time.Time{}, 0)
		c.boot(3, "small")
		pass(10 * time.Second)
		c.wantOne(3, compute.StateActive)
		c.drain(3, time.Time{}) // no hurry
		pass(time.Hour)
		said(drainLate, 1)
		c.wantLeft(compute.HostDraining, time.Time{}, 1)
		stop(c, n)
	})
}

// The log says at the deadline itself that a host is late, however long nothing
// happens there.
func TestDrainIsLateAtItsDeadline(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		core, logs := observer.New(zapcore.WarnLevel)
		n := c.start(dir, fake.Options{}, func(o *Options) { o.Log = zap.New(core) })
		c.boot(1, "small")
		pass(time.Second)
		by := time.Now().Add(17*time.Minute + 300*time.Millisecond).UTC()
		c.drain(1, by)
		pass(18 * time.Minute)
		if late := logs.FilterMessage(drainLate).All(); len(late) != 1 || !late[0].Time.Equal(by) {
			c.t.Errorf("said %+v, want it at %s", late, by)
		}
		stop(c, n)
	})
}

// A drain and its deadline outlive the agent, and one that is said while the
// agent is down is obeyed before anything is offered.
func TestDrainAcrossRestarts(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(time.Second)
		by := time.Now().Add(time.Hour).UTC()
		c.drain(1, by)
		pass(time.Second)
		stop(c, n)
		n = c.start(dir, fake.Options{}, nil)
		pass(10 * time.Second)
		c.wantLeft(compute.HostDraining, by, 1)
		c.desire(compute.HostEnabled, 2)
		pass(10 * time.Second)
		stop(c, n)

		later := time.Now().Add(2 * time.Hour).UTC()
		c.drain(3, later)
		c.boot(2, "small")
		n = c.start(dir, fake.Options{}, nil)
		pass(time.Minute)
		c.want(compute.StateActive, compute.StateQueued)
		c.wantLeft(compute.HostDraining, later, 1)
		stop(c, n)
	})
}

// A host is not empty because its hypervisor does not answer after a restart: what the journal knows of is counted.
func TestDrainIsNotEmptyForLackOfAnswers(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(time.Second)
		c.drain(1, time.Time{})
		pass(10 * time.Second)
		stop(c, n)
		n = c.start(dir, fake.Options{Fault: func(call fake.Call) *fake.Fault {
			if call.Method == "List" {
				return &fake.Fault{Err: errors.New("no connection")}
			}
			return nil
		}}, nil)
		began := time.Now()
		pass(time.Minute)
		if b := c.beacon(); b.At.Before(began) || b.State != compute.HostDraining || b.Machines+b.Building != 1 {
			c.t.Errorf("the beacon says %+v", b)
		}
		stop(c, n)
	})
}
