// SPDX-License-Identifier: Apache-2.0

package flavors

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/flavors/catalog"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Log takes records for Kafka.
type Log interface {
	// Send returns when all records are acknowledged, or with the first error;
	// with an error it is not known which of them were written.
	Send(ctx context.Context, recs ...wire.Record) error
}

// View brings what it is of up to now.
type View interface {
	// Sync returns when everything that was acknowledged to anybody before the
	// call has been applied.
	Sync(ctx context.Context) error
}

// Options are what a service needs of the outside.
type Options struct {
	Topics  wire.Topics
	Log     Log
	View    View            // of the catalog: Service.Apply
	Work    catalog.Work    // counts the queued and starting instances of a queue
	Members catalog.Members // counts the members of a group
	Counted View            // of what those two look at; only removals wait for it. nil: View is of that, too
	Limits  catalog.Limits  // zero: catalog.DefaultLimits
	// Timeout is how long a change may take in all; default 15 s.
	Timeout time.Duration
	// NewID makes the id of a change: random, never the same twice. nil: one
	// is made here.
	NewID  func() string
	Logger *zap.Logger // nil: none

	Metrics *Metrics // nil: nobody counts
}

// Service is the catalog of one process. Its methods are safe for concurrent
// use.
type Service struct {
	opts    Options
	catalog atomic.Pointer[catalog.Catalog]
	turn    chan struct{} // holds one token: changes go one after the other
	ready   chan struct{}

	mu      sync.Mutex // Apply and pending
	pending *pending
	caught  bool
}

// New is a service that has read nothing yet.
func New(o Options) *Service {
	if o.Limits == (catalog.Limits{}) {
		o.Limits = catalog.DefaultLimits()
	}
	if o.Timeout == 0 {
		o.Timeout = 15 * time.Second
	}
	if o.NewID == nil {
		o.NewID = rand.Text
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	s := &Service{opts: o, turn: make(chan struct{}, 1), ready: make(chan struct{})}
	s.turn <- struct{}{}
	s.catalog.Store(catalog.New(o.Limits))
	return s
}

// Ready is closed once the topic was read to its end for the first time.
func (s *Service) Ready() <-chan struct{} { return s.ready }

// Read says whether it was.
func (s *Service) Read() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

// Catalog is what is offered now. It does not change; ask again for news.
func (s *Service) Catalog() *catalog.Catalog { return s.catalog.Load() }

// Apply takes records of the catalog topic, in order; end says that there are
// no more for now. A record that cannot be read is left out: what was known of
// its entry stays.
func (s *Service) Apply(recs []wire.Record, end bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var changes []catalog.Change
	for _, rec := range recs {
		ch, err := read(rec)
		if err != nil {
			s.opts.Logger.Warn("unreadable catalog record", zap.Int64("offset", rec.Offset),
				zap.ByteString("key", rec.Key), zap.Error(err))
			continue
		}
		if p := s.pending; p != nil && string(rec.Header(headerChange)) == p.id {
			// Judge the change in its real place: after all that came before it.
			before := s.store(changes)
			p.seen <- p.judge(before, s.store([]catalog.Change{ch}))
			s.pending, changes = nil, nil
			continue
		}
		changes = append(changes, ch)
	}
	s.store(changes)
	if end && !s.caught {
		s.caught = true
		close(s.ready)
	}
}

// store applies changes and answers the catalog after them: the very same one
// if there are none.
func (s *Service) store(changes []catalog.Change) *catalog.Catalog {
	if len(changes) > 0 {
		s.catalog.Store(s.catalog.Load().Apply(changes...))
	}
	return s.catalog.Load()
}

// How says how a change is meant.
type How struct {
	DryRun bool // only say what it would do
	Drain  bool // removals: instances that wait are still built before the queues go

	counts bool // the decision looks at what Counted is of
}

// AddFlavor offers a flavor. See catalog.Catalog.AddFlavor.
func (s *Service) AddFlavor(ctx context.Context, f compute.Flavor, how How) (catalog.Change, error) {
	return s.change(ctx, "flavor add", how, func(c *catalog.Catalog) (catalog.Change, error) { return c.AddFlavor(f) })
}

// RemoveFlavor ends a flavor. See catalog.Catalog.RemoveFlavor.
func (s *Service) RemoveFlavor(ctx context.Context, n compute.FlavorName, how How) (catalog.Change, error) {
	how.counts = true
	return s.change(ctx, "flavor remove", how, func(c *catalog.Catalog) (catalog.Change, error) {
		return c.RemoveFlavor(n, s.opts.Work, how.Drain)
	})
}

// AddCapability offers an axis or more values of it. See
// catalog.Catalog.AddCapability.
func (s *Service) AddCapability(ctx context.Context, capability compute.Capability, how How) (catalog.Change, error) {
	return s.change(ctx, "capability add", how, func(c *catalog.Catalog) (catalog.Change, error) {
		return c.AddCapability(capability)
	})
}

// RemoveCapability ends an axis, or only some of its values. See
// catalog.Catalog.RemoveCapability.
func (s *Service) RemoveCapability(
	ctx context.Context, axis compute.AxisName, values []compute.AxisValue, how How,
) (catalog.Change, error) {
	how.counts = true
	return s.change(ctx, "capability remove", how, func(c *catalog.Catalog) (catalog.Change, error) {
		return c.RemoveCapability(axis, values, s.opts.Work, how.Drain)
	})
}

// SetQuota replaces what a project may have. See catalog.Catalog.SetQuota.
func (s *Service) SetQuota(ctx context.Context, q compute.Quota, how How) (catalog.Change, error) {
	return s.change(ctx, "quota set", how, func(c *catalog.Catalog) (catalog.Change, error) { return c.SetQuota(q) })
}

// ChangeQuota changes what a project may have, from what it has when the change is decided: two changes at once both
// count.
func (s *Service) ChangeQuota(
	ctx context.Context, p compute.Project, change func(compute.Quota) (compute.Quota, error),
) (catalog.Change, error) {
	return s.change(ctx, "quota set", How{}, func(c *catalog.Catalog) (catalog.Change, error) {
		now, _ := c.Quota(p)
		now.Project = p
		q, err := change(now)
		if err != nil {
			return catalog.Change{}, err
		}
		return c.SetQuota(q)
	})
}

// SetGroup makes a group, or changes the rule of one. See catalog.Catalog.SetGroup.
func (s *Service) SetGroup(ctx context.Context, g compute.Group, onlyNew bool) (catalog.Change, error) {
	return s.change(ctx, "group set", How{}, func(c *catalog.Catalog) (catalog.Change, error) {
		return c.SetGroup(g, onlyNew)
	})
}

// ChangeGroup changes the rule of a group, from what it is when the change is decided: two changes at once both count.
func (s *Service) ChangeGroup(
	ctx context.Context, key compute.GroupKey, change func(compute.Group) (compute.Group, error),
) (catalog.Change, error) {
	return s.change(ctx, "group set", How{}, func(c *catalog.Catalog) (catalog.Change, error) {
		return c.ChangeGroup(key, change)
	})
}

// RemoveGroup ends a group. See catalog.Catalog.RemoveGroup.
func (s *Service) RemoveGroup(ctx context.Context, key compute.GroupKey) (catalog.Change, error) {
	return s.change(ctx, "group delete", How{counts: true}, func(c *catalog.Catalog) (catalog.Change, error) {
		return c.RemoveGroup(key, s.opts.Members)
	})
}
