// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab"
)

// readyTime is how long nothing may change while queues and agents get ready.
const readyTime = 5 * time.Minute

// offer adds capabilities and flavors, and waits until all queues are open.
func (r *run) offer(ctx context.Context, api string) error {
	c, err := client.New(client.Config{Address: api, Timeout: time.Minute})
	if err != nil {
		return err
	}
	defer c.Close()
	for _, a := range r.cloud.axes {
		if err := patient(ctx, func(ctx context.Context) error {
			_, err := c.AddCapability(ctx, a, false)
			return err
		}); err != nil {
			return err
		}
	}
	for _, f := range r.cloud.flavors {
		if err := patient(ctx, func(ctx context.Context) error {
			_, err := c.AddFlavor(ctx, f, false)
			return err
		}); err != nil {
			return err
		}
	}
	return await(ctx, func(ctx context.Context) (string, bool, error) {
		open, err := openQueues(ctx, c)
		return fmt.Sprintf("%d of %d queues are open", open, r.o.Queues), open == r.o.Queues, err
	})
}

// awaitAgents waits until all agents take work.
func (r *run) awaitAgents(ctx context.Context) error {
	return await(ctx, func(ctx context.Context) (string, bool, error) {
		now, err := r.reports(ctx)
		n := sum(now[lab.RoleAgent]...).Offering + sum(now[lab.RoleLoad]...).Offering
		return fmt.Sprintf("%d of %d agents take work", n, r.o.Hosts), n == r.o.Hosts, err
	})
}

// patient does again what a busy machine has no time for.
func patient(ctx context.Context, do func(context.Context) error) error {
	return await(ctx, func(ctx context.Context) (string, bool, error) {
		err := do(ctx)
		if k := compute.KindOf(err); err != nil && (k == compute.KindUnavailable || k == compute.KindTimeout) {
			return err.Error(), false, nil
		}
		return "", err == nil, err
	})
}

// await asks again and again until it is so, or what is said has not changed for
// as long as readyTime.
func await(ctx context.Context, ask func(context.Context) (said string, so bool, err error)) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last, since := "", time.Now()
	for {
		said, so, err := ask(ctx)
		switch {
		case so || err != nil:
			return err
		case said != last:
			last, since = said, time.Now()
		case time.Since(since) >= readyTime:
			return &compute.Error{
				Op:      "get ready",
				Kind:    compute.KindTimeout,
				Message: "nothing has changed for " + readyTime.String() + ": " + said,
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func openQueues(ctx context.Context, c *client.Client) (int, error) {
	flavors, err := c.Flavors(ctx)
	open := 0
	for _, f := range flavors {
		open += f.Queues.Open
	}
	return open, err
}
