// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"testing"

	"github.com/berth-project/berth/compute-agent/agent"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// An agent is told to stop while its claim is not answered: it still hears the
// answer, launches, and only then ends.
func TestAgentFinishesWhatItHasClaimed(t *testing.T) {
	t.Parallel()
	host := smallHost(1)
	r := newRig(t, kafkatest.Embedded(t), host)
	r.startQueues()
	r.startConductor("conductor")
	r.startAPI()
	on, err := r.world.Host(host.ID, host.Inventory)
	r.must(err)
	prepare := make(chan struct{})
	waits := fake.Options{Fault: func(c fake.Call) *fake.Fault {
		if c.Method == "Prepare" {
			<-prepare
		}
		return nil
	}}
	var a *agent.Agent
	part, err := cell.NewAgent(r.prepared("agent"), cell.AgentOptions{
		Host: host.ID, State: r.data, Driver: fake.NewDriver(on, waits),
		Timing: agent.Timing{BeaconApart: chatty.BeaconApart, Stop: 2 * patience},
		Made:   func(made *agent.Agent) { a = made },
	})
	r.must(err)
	r.start("agent", part)
	r.known(host)
	c := r.as("p")
	r.offer(c, nil, []compute.Flavor{small("m1.small")})
	ids := r.boot(c, 1, compute.Boot{Flavor: "m1.small"})
	r.poll("the agent has taken it", func() bool { return a.Stats().Taken == 1 })
	r.stop("conductor")
	close(prepare)
	r.poll("the agent has claimed it", func() bool { return a.Stats().Claims > 0 })
	r.parts["agent"].cancel()
	r.startConductor("conductor")
	r.await(ids, compute.StateActive)
	r.stop("agent")
	r.exactlyOnce(ids)
}
