// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/kafkatest"
)

// fault is something that breaks.
type fault struct {
	name   string
	level  level
	stands bool          // nothing can be placed while it lasts
	lasts  time.Duration // at least
	// inject does it, and says to which process and how it is mended.
	inject func(c *chaos) (target string, repair func())
}

// faults are those that need nothing special of the machine.
func faults() []fault {
	return []fault{
		{name: "kill -9 the leader of a queue", inject: killed((*chaos).leaderOfAQueue)},
		{name: "kill -9 the leader of `instances`", level: inFull, inject: killed((*chaos).leaderOfInstances)},
		{
			name:   "kill -9 the coordinator of the conductors' group",
			level:  inFull,
			inject: killed((*chaos).coordinatorOfTheGroup),
		},
		{
			name:   "kill -9 the coordinator of a partition's producer epoch",
			level:  inFull,
			inject: killed((*chaos).coordinatorOfAnEpoch),
		},
		{
			name:   "kill -9 the coordinator of a queue's share state",
			level:  inFull,
			inject: killed((*chaos).coordinatorOfShares),
		},
		{name: "kill -9 the active controller", level: inShort, inject: killed((*chaos).controller)},
		{name: "kill -9 two of three brokers", level: inShort, stands: true, lasts: longerThan, inject: twoKilled},
		{
			name:   "freeze the leader of `instances`, thaw it",
			lasts:  longerThan,
			inject: frozen((*chaos).leaderOfInstances),
		},
		{
			name:   "freeze the active controller, thaw it",
			level:  inFull,
			lasts:  longerThan,
			inject: frozen((*chaos).controller),
		},
		{name: "restart one broker after the other", level: inFull, inject: rolled},
		{name: "cut three agents in four from all brokers", level: inShort, lasts: longerThan, inject: agentsCut},
		{name: "kill -9 a conductor", level: inFull, inject: daemonsKilled("conductor-a")},
		{name: "kill -9 an API node", level: inFull, inject: daemonsKilled("api-a")},
		{name: "kill -9 the agents of a rack", level: inFull, inject: daemonsKilled("rack")},
		{
			name:   "kill -9 the leader of `instances`, a conductor, an API node and a rack",
			level:  inShort,
			inject: everything,
		},
	}
}

// finder finds the broker that has a job.
type finder func(c *chaos, ctx context.Context) (int, error)

// the asks until somebody is known to have the job: just after a fault nobody may.
func (c *chaos) the(w finder) int {
	c.t.Helper()
	id := 0
	c.poll("the broker that has the job is found", func() bool {
		ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
		defer cancel()
		n, err := w(c, ctx)
		if err != nil {
			c.t.Log("asking which broker has the job:", err)
		}
		id = n
		return err == nil && n > 0
	})
	return id
}

func (c *chaos) topics() (build, instances, group string) {
	t := c.cell("test").Topics()
	return t.Build(c.queue.Name), t.Instances(), t.ConductorGroup()
}

func (c *chaos) leaderOfAQueue(ctx context.Context) (int, error) {
	build, _, _ := c.topics()
	return c.leads.Leader(ctx, build, 0)
}

func (c *chaos) leaderOfInstances(ctx context.Context) (int, error) {
	_, instances, _ := c.topics()
	return c.leads.Most(ctx, func(topic string) bool { return topic == instances })
}

func (c *chaos) coordinatorOfTheGroup(ctx context.Context) (int, error) {
	_, _, group := c.topics()
	return c.leads.Coordinator(ctx, kafkatest.OfGroup, group)
}

func (c *chaos) coordinatorOfAnEpoch(ctx context.Context) (int, error) {
	_, _, group := c.topics()
	return c.leads.Coordinator(ctx, kafkatest.OfTransaction, group+".0")
}

func (c *chaos) coordinatorOfShares(ctx context.Context) (int, error) {
	build, _, _ := c.topics()
	return c.leads.ShareCoordinator(ctx, c.queue.Group, build, 0)
}

func (c *chaos) controller(ctx context.Context) (int, error) { return c.leads.Controller(ctx) }

func (c *chaos) restart(ids ...int) {
	c.t.Helper()
	done := make(chan error, len(ids))
	for _, id := range ids {
		go func() { done <- c.on.Restart(c.t.Context(), id) }()
	}
	for range ids {
		c.must(<-done)
	}
}

func broker(ids ...int) string {
	return "broker " + strings.ReplaceAll(strings.Trim(fmt.Sprint(ids), "[]"), " ", " and ")
}

func killed(w finder) func(*chaos) (string, func()) {
	return func(c *chaos) (string, func()) {
		id := c.the(w)
		c.must(c.on.Kill(id))
		return broker(id), func() { c.restart(id) }
	}
}

func frozen(w finder) func(*chaos) (string, func()) {
	return func(c *chaos) (string, func()) {
		id := c.the(w)
		c.must(c.on.Pause(id))
		return broker(id), func() { c.must(c.on.Resume(id)) }
	}
}

func twoKilled(c *chaos) (string, func()) {
	first := c.the((*chaos).leaderOfInstances)
	second := first%c.on.Nodes() + 1
	c.must(c.on.Kill(first))
	c.must(c.on.Kill(second))
	return broker(first, second), func() { c.restart(first, second) }
}

// rolled stops and starts every broker, the next once all are in sync again.
func rolled(c *chaos) (string, func()) {
	for id := 1; id <= c.on.Nodes(); id++ {
		c.must(c.on.Stop(id))
		c.restart(id)
		c.whole()
	}
	return "all", func() {}
}

func agentsCut(c *chaos) (string, func()) {
	c.line.cut()
	return fmt.Sprintf("%d agents", len(c.hosts)), c.line.repair
}

func daemonsKilled(names ...string) func(*chaos) (string, func()) {
	return func(c *chaos) (string, func()) {
		for _, n := range names {
			c.kill(n)
		}
		return strings.Join(names, ", "), func() {
			for _, n := range names {
				c.run(n)
			}
		}
	}
}

func everything(c *chaos) (string, func()) {
	one, brokerBack := killed((*chaos).leaderOfInstances)(c)
	others, back := daemonsKilled("conductor-a", "api-a", "rack")(c)
	return one + ", " + others, func() {
		brokerBack()
		back()
	}
}
