// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/bench/mixed"
)

// newMixedCloud is hosts that are all alike, and a flavor for each size.
func newMixedCloud(l mixed.Load) *cloud {
	c := &cloud{}
	for _, size := range l.Sizes {
		f := compute.Flavor{
			Name: compute.FlavorName(fmt.Sprintf("m%d", size)),
			Resources: compute.Resources{
				compute.VCPU: int64(size), compute.MemoryMB: int64(size) << 10, compute.DiskGB: int64(10 * size),
			},
		}
		c.flavors = append(c.flavors, f)
		c.addQueue(queue{flavor: f.Name, class: onPlain, weight: 1 / float64(len(l.Sizes))})
	}
	c.newHosts(fleet{plain: l.Hosts}, l.Processors())
	return c
}

// mortal is a boot whose machine lives for a while.
type mortal struct {
	*boot
	mixed.Arrival
	size int // in processors
}

// newMortals are a boot for each arrival, in their order.
func newMortals(l mixed.Load, arrivals []mixed.Arrival) []mortal {
	out := make([]mortal, len(arrivals))
	for i, a := range arrivals {
		out[i] = mortal{&boot{
			name: fmt.Sprintf("mix-%d", i), project: project(a.Project), queue: a.Size,
			rules: compute.RulesOf(a.Group, compute.Set{}, a.Priority), waits: compute.MaxDeadline,
		}, a, l.Sizes[a.Size]}
	}
	return out
}

// grouping makes the group of a boot before it is sent.
type grouping struct {
	overHTTP
	mu   sync.Mutex
	made map[compute.GroupKey]func() error
}

func (g *grouping) boot(ctx context.Context, b *boot, what compute.Boot) error {
	if name := what.Group(); name != "" {
		if err := g.make(ctx, compute.GroupKey{Project: b.project, Name: name}); err != nil {
			return fmt.Errorf("the boot's group: %w", err)
		}
	}
	return g.overHTTP.boot(ctx, b, what)
}

// make makes a group once.
func (g *grouping) make(ctx context.Context, key compute.GroupKey) error {
	g.mu.Lock()
	if g.made[key] == nil {
		g.made[key] = sync.OnceValue(func() error {
			_, err := g.clients[key.Project].CreateGroup(ctx, compute.Group{
				Project: key.Project, Name: key.Name, Policy: compute.AntiAffinity, Most: 1,
			})
			return err
		})
	}
	made := g.made[key]
	g.mu.Unlock()
	return made()
}

// reaper deletes machines when their lives are over.
type reaper struct {
	load  *load
	lives map[*boot]time.Duration
	all   chan struct{} // closed: every life is over, also of what becomes active later
	stop  chan struct{} // closed: it is done
}

// run answers when stop is closed and what was begun to be deleted is acknowledged.
func (r reaper) run(ctx context.Context) error {
	var ends mixed.Lives[*boot]
	deletes, ctx := errgroup.WithContext(ctx)
	deletes.SetLimit(64)
	timer := time.NewTimer(0)
	defer timer.Stop()
	over := r.all
	for {
		news := r.load.ledger.wait()
		for _, b := range r.load.ledger.oldest(0) {
			ends.Add(b, b.active.Add(r.lives[b]))
		}
		dead := ends.Ended(time.Now())
		if over == nil {
			dead = append(dead, ends.All()...)
		}
		for _, b := range dead {
			deletes.Go(func() error { return r.load.sender.delete(ctx, b) })
		}
		timer.Stop()
		if next := ends.Next(); !next.IsZero() {
			timer.Reset(time.Until(next))
		}
		select {
		case <-news:
		case <-timer.C:
		case <-over:
			over = nil
		case <-r.stop:
			return deletes.Wait()
		case <-ctx.Done():
			return cmp.Or(deletes.Wait(), ctx.Err())
		}
	}
}
