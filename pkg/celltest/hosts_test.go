// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// hostIs waits until the host says that it is in this state and has acted upon
// the wish.
func (r *rig) hostIs(c *client.Client, h compute.HostID, want compute.HostState, asked client.HostAsked) {
	r.t.Helper()
	r.poll("the host obeys", func() bool {
		host, err := c.Host(r.t.Context(), h)
		r.must(err)
		return host.State == want.String() && host.DesiredSeen >= asked.Version
	})
}

// A drained or disabled host takes nothing, keeps what it has, still obeys a
// delete, and takes again once enabled.
func TestDrainedHostTakesNothing(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c := oneFlavor(t, b, smallHosts(2)...)
		before := r.boot(c, 4, compute.Boot{Flavor: "m1.small", Host: "host-01"})
		r.await(before, compute.StateActive)
		by := time.Now().Add(time.Hour)
		asked := answered(r, func() (client.HostAsked, error) { return c.Drain(t.Context(), "host-01", "new kernel", by) })
		r.hostIs(c, "host-01", compute.HostDraining, asked)
		if host, err := c.Host(t.Context(), "host-01"); err != nil || !host.Deadline.Equal(by) || host.Machines != 4 {
			t.Errorf(
				"it has %d machines and drains until %s, want 4 and %s (%v)",
				host.Machines,
				host.Deadline,
				by,
				err,
			)
		}

		ids := r.boot(c, 10, compute.Boot{Flavor: "m1.small"})
		r.await(ids, compute.StateActive)
		for _, id := range ids {
			if h := r.seen.get(id).Host; h != "host-02" {
				t.Errorf("host-01 drains, and %s is on %s", id, h)
			}
		}
		r.delete(c, before[:2])
		r.await(before[:2], compute.StateDeleted)
		r.await(before[2:], compute.StateActive)
		r.poll("two machines are left", func() bool {
			host, err := c.Host(t.Context(), "host-01")
			r.must(err)
			left, err := c.HostInstances(t.Context(), "host-01")
			r.must(err)
			return host.Machines+host.Building == 2 && len(left) == 2
		})

		asked = answered(r, func() (client.HostAsked, error) { return c.Enable(t.Context(), "host-01", "") })
		r.hostIs(c, "host-01", compute.HostEnabled, asked)
		more := r.boot(c, 12, compute.Boot{Flavor: "m1.small"}) // host-02 has room for six
		r.await(more, compute.StateActive)
		r.exactlyOnce(append(append(before, ids...), more...))
	})
}

// What an operator wants of a host outlives its agent.
func TestDisabledStaysDisabledAcrossARestart(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c := oneFlavor(t, b, smallHosts(1)...)
		asked := answered(r, func() (client.HostAsked, error) { return c.Disable(t.Context(), "host-01", "broken fan") })
		r.hostIs(c, "host-01", compute.HostDisabled, asked)
		r.stop("host-01")
		r.startAgents(r.hosts...)
		id := r.failsAtOnce(c, "m1.small", compute.NoEligibleHost)
		if n := r.seen.get(id).Reason.Hosts.Disabled; n != 1 {
			t.Errorf("the reason counts %d disabled hosts, want 1", n)
		}
	})
}

// Of two queue managers one works; when it is killed the other makes the queues
// of the next flavor, and meanwhile what exists goes on placing.
func TestStandbyQueueManagerTakesOver(t *testing.T) {
	t.Parallel()
	r := processRig(t)
	active := r.daemonOf("queues-a", "queues", map[string]any{})
	active.says("elected")
	standby := r.daemonOf("queues-b", "queues", map[string]any{})
	r.conductorProcess("conductor")
	r.apiProcess("api")
	r.agentProcess("rack", 3, 0)
	c := r.as("p")
	r.offer(c, nil, []compute.Flavor{small("m1.before")})
	active.kill()
	ids := r.boot(c, 20, compute.Boot{Flavor: "m1.before"})
	r.await(ids, compute.StateActive)
	r.offer(c, nil, []compute.Flavor{small("m1.after")})
	standby.says("elected")
	later := r.boot(c, 20, compute.Boot{Flavor: "m1.after"})
	r.await(later, compute.StateActive)
	r.exactlyOnce(append(ids, later...))
}
