// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/berth-project/berth/compute-agent/agent"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/statusserver"
)

// Berth is the product itself.
type Berth struct{}

// seldom is how long beacons may be held back where parts wait as daemons do, which is in
// simulations: to hear them is most of what an idle process does.
const seldom = time.Second

func (Berth) cell(s Site, r Role, name string) cell.Cell {
	k := cell.KafkaSettings{Brokers: s.Brokers, Prefix: s.Prefix, Partitions: s.Partitions, Replication: s.Replication}
	c := cell.New(k, s.Dial, s.Log, name)
	c.Reads, c.Clock = s.Reads, cell.Clocks{Clock: s.Clock}
	if s.Waits {
		c.Gather = seldom
	}
	if s.Metrics != nil {
		c = c.Measured(s.Metrics(r))
	}
	return c
}

// part is a process that has what build makes.
func (b Berth) part(s Site, c cell.Cell, build func(context.Context, cell.Cell) (service.Part, error)) service.Part {
	return service.Made(func(ctx context.Context) (service.Part, error) {
		if s.Waits {
			if err := c.Await(ctx, func(string) {}); err != nil {
				return nil, err
			}
		}
		return build(ctx, c)
	})
}

// Prepare makes the topics.
func (b Berth) Prepare(ctx context.Context, s Site) error {
	c := b.cell(s, RoleLoad, "bench")
	return c.Prepare(ctx)
}

// Part is one of the centre.
func (b Berth) Part(s Site, r Role, name string) (service.Part, func() string) {
	nowhere := func() string { return "" }
	switch r {
	case RoleQueues:
		return b.part(s, b.cell(s, r, "queues"), func(_ context.Context, c cell.Cell) (service.Part, error) {
			return cell.NewQueueManager(c, cell.QueueManagerOptions{Hosts: s.Hosts, Savings: s.Savings})
		}), nowhere
	case RoleConductor:
		return b.part(s, b.cell(s, r, "conductor"), func(_ context.Context, c cell.Cell) (service.Part, error) {
			return cell.NewConductor(c, cell.ConductorOptions{
				Name: name, Hosts: s.Hosts, Publishers: s.Publishers, TurnBytes: s.TurnBytes, Share: s.Share,
			})
		}), nowhere
	case RoleAPI:
		return b.node(s)
	}
	return service.Made(func(context.Context) (service.Part, error) {
		return nil, fmt.Errorf("the centre has no part of the role %q", r)
	}), nowhere
}

// node is an API node.
func (b Berth) node(s Site) (service.Part, func() string) {
	o := statusserver.Options{Address: s.Address, Listen: s.Listen}
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	var at atomic.Pointer[statusserver.Server]
	part := b.part(s, b.cell(s, RoleAPI, "api"), func(_ context.Context, c cell.Cell) (service.Part, error) {
		node, f := cell.NewAPIWithServer(c, o, cell.APIOptions{Key: s.Key})
		at.Store(f)
		return node, nil
	})
	return part, func() string { return at.Load().Addr().String() }
}

// Agent is one host's.
func (b Berth) Agent(s Site, h Host) (service.Part, func() agent.Stats) {
	var made atomic.Pointer[agent.Agent]
	o := cell.AgentOptions{
		Host: h.ID, State: h.State, Home: h.Home, Driver: h.Driver, Slots: h.Slots, Journal: h.Journal,
		Made: made.Store, Key: h.Key, Timing: h.Timing,
	}
	c := b.cell(s, RoleAgent, "agent")
	part := cell.AgentPart(c, o)
	if s.Waits {
		part = b.part(s, c, func(_ context.Context, c cell.Cell) (service.Part, error) { return cell.NewAgent(c, o) })
	}
	return part, func() agent.Stats {
		if a := made.Load(); a != nil {
			return a.Stats()
		}
		return agent.Stats{}
	}
}
