// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/kafka/loop"
)

// brokerLines has a line of its own to each broker.
type brokerLines struct {
	mu    sync.Mutex
	lines map[string]*line // by address
}

func newBrokerLines() *brokerLines { return &brokerLines{lines: map[string]*line{}} }

func (b *brokerLines) to(address string) *line {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lines[address] == nil {
		b.lines[address] = newLine()
	}
	return b.lines[address]
}

func (b *brokerLines) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return b.to(address).dial(ctx, network, address)
}

// aloneConductor is a conductor of this process that reaches each broker by a line of
// its own.
const aloneConductor = "conductor-c"

func (c *chaos) startAlone() {
	straight := c.net
	c.net.dial = c.brokerLines.dial
	c.startConductor(aloneConductor)
	c.net = straight
}

// trusting are faults after which a part goes on though it must not, or is told what is not so.
func trusting() []fault {
	return []fault{
		{
			name: "cut a conductor from the coordinator of its group alone", level: inFull,
			lasts: 20 * time.Second, inject: cutFromCoordinator,
		},
		{name: "start a second agent under the name of a host", level: inFull, inject: twinStarted},
		{name: "start a second agent on a copy of a host's journal", level: inFull, inject: copyStarted},
		{name: "move a partition's position behind the end of its topic", level: inFull, inject: positionMoved},
	}
}

func cutFromCoordinator(c *chaos) (string, func()) {
	id := c.the((*chaos).coordinatorOfTheGroup)
	by := c.brokerLines.to(c.on.Addrs()[id-1])
	by.cut()
	return aloneConductor + " from " + broker(id), by.repair
}

// twinStarted runs an agent with a host's name and an empty journal.
func twinStarted(c *chaos) (string, func()) { return secondAgent(c, c.hosts[0], c.t.TempDir()) }

// copyStarted runs an agent with a host's name, and its journal as it is now.
func copyStarted(c *chaos) (string, func()) {
	h, state := c.hosts[1], c.t.TempDir()
	is, err := os.ReadFile(cell.JournalFile(c.data, h.ID))
	c.must(err)
	c.must(os.WriteFile(cell.JournalFile(state, h.ID), is, 0o600))
	return secondAgent(c, h, state)
}

// sameHome is a driver of an empty hypervisor that keeps its machines where the host does: a copied
// disk has the same folders.
type sameHome struct {
	hypervisor.Driver
	home string
}

func (s sameHome) Capabilities() hypervisor.Capabilities {
	can := s.Driver.Capabilities()
	can.Home = s.home
	return can
}

// secondAgent runs an agent with a host's name and an empty hypervisor, as on a copied disk. It is
// to end by itself, and to have launched nothing.
func secondAgent(c *chaos, h cell.SimulatedHost, state string) (string, func()) {
	world := fake.NewWorld()
	host, err := world.Host(h.ID, h.Inventory)
	c.must(err)
	part, err := cell.NewAgent(
		c.prepared("twin"),
		cell.AgentOptions{
			Host: h.ID, State: state, Timing: chatty,
			Driver: sameHome{fake.NewDriver(host, h.Driver), c.world.Dir()},
		},
	)
	c.must(err)
	ended := make(chan error, 1)
	go func() { ended <- part.Run(c.t.Context()) }()
	return string(h.ID), func() {
		select {
		case err := <-ended:
			if err == nil {
				c.t.Errorf("the second agent of %s ended without a word", h.ID)
			}
		case <-time.After(patience):
			c.t.Errorf("the second agent of %s goes on after %s", h.ID, patience)
		}
		done, err := world.Events()
		c.must(err)
		for _, e := range done {
			c.t.Errorf("the second agent of %s had its hypervisor do something: %+v", h.ID, e)
		}
	}
}

// movedPartition is the partition of which the position is moved.
const movedPartition = 1

// positionMoved has a partition's position say more than there is, as when the tail of its inputs
// is lost. The partition is set aside, and no other, until an operator resets it.
func positionMoved(c *chaos) (string, func()) {
	topics := c.cell("test").Topics()
	c.kill("conductor-a")
	c.kill("conductor-b")
	c.stop(aloneConductor)
	c.poll("the group is empty", func() bool {
		ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
		defer cancel()
		return c.leads.Commit(ctx, topics.ConductorGroup(), topics.Reports(), movedPartition, 1<<40) == nil
	})
	c.run("conductor-a")
	c.run("conductor-b")
	c.startAlone()
	c.poll("the partition is set aside", func() bool {
		p, err := loop.PositionOf(c.t.Context(), c.cell("test").Kafka, movedPartition)
		return err == nil && p.Aside
	})
	return fmt.Sprint("partition ", movedPartition), func() {
		cfg := c.cell("test").Kafka
		was, err := loop.PositionOf(c.t.Context(), cfg, movedPartition)
		c.must(err)
		becomes, err := was.Reset(loop.ResetNoticed)
		c.must(err)
		c.must(loop.ResetPosition(c.t.Context(), cfg, becomes))
	}
}
