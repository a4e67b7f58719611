// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// Cell is what an API node said at a moment.
type Cell struct {
	At     time.Time // zero: nothing yet
	Queues []client.Queue
	Hosts  []client.Host
	Hidden bool // hosts are not for this caller
}

// Look asks an API node.
func Look(ctx context.Context, c *client.Client) (Cell, error) {
	queues, err := c.Queues(ctx, "")
	if err != nil {
		return Cell{}, err
	}
	hosts, err := c.Hosts(ctx)
	if compute.KindOf(err) == compute.KindForbidden {
		return Cell{At: time.Now(), Queues: queues, Hidden: true}, nil
	}
	return Cell{At: time.Now(), Queues: queues, Hosts: hosts}, err
}

// totals are what all hosts have that were heard of lately, and what of it is free.
func (c Cell) totals() (all, free compute.Resources) {
	all, free = compute.Resources{}, compute.Resources{}
	for _, h := range c.Hosts {
		if h.State == compute.HostSilent.String() {
			continue
		}
		for class, n := range h.Totals {
			all[class] += n
		}
		for class, n := range h.Free {
			free[class] += n
		}
	}
	return all, free
}

// instances are how many there are on hosts, by state.
func (c Cell) instances() map[string]int {
	n := map[string]int{}
	for _, h := range c.Hosts {
		for state, of := range h.Instances {
			n[state] += of
		}
	}
	return n
}

// waiting is how much waits, in how many queues, and since when.
func (c Cell) waiting() (work, queues int, since time.Time) {
	for _, q := range c.Queues {
		if q.Queued == 0 {
			continue
		}
		work, queues = work+q.Queued, queues+1
		if at := oldest(q); !at.IsZero() && (since.IsZero() || at.Before(since)) {
			since = at
		}
	}
	return work, queues, since
}

// oldest is since when the first in a queue waits, as the queue manager said last.
func oldest(q client.Queue) time.Time {
	if q.Advice == nil || q.Queued == 0 {
		return time.Time{}
	}
	return q.Advice.Oldest
}
