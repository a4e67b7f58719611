// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/conductor/admit"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/publishkey"
	"github.com/berth-project/berth/pkg/tracing"
	"github.com/berth-project/berth/pkg/wire"
)

// Config says how a conductor works. The zero value of a field is its default.
type Config struct {
	Topics       wire.Topics
	Partitions   int32         // of requests, reports and instances; required
	Times        admit.Options // default admit.Defaults()
	MaxEnded     int           // as in Times, which it changes; 0: as there
	SoftGroupFor time.Duration // as in Times, which it changes; 0: as there
	ReserveLead  time.Duration // as in Times, which it changes; 0: as there
	// Share is how many builds of a project are in a queue at least, and a quarter as many for each host; 0: as Times says
	Share int
	// how long a turn waits for the catalog before it decides without, and for the hosts topic before it rejects that a
	// host is dead; default 5 s
	SyncTimeout time.Duration
	// how long ago the catalog may have been heard of where a boot is decided by it; default 5 s
	CatalogAge    time.Duration
	StartsTimeout time.Duration // how long start offsets may take to be asked; default 15 s
	// a host that was heard of within this before a request says that it is dead is not; default compute.SilentAfter/2
	AliveFor   time.Duration
	Reads      compute.Schema       // the newest schema it reads, in tests of versions; default wire.Schema
	Hosts      *hostkey.Verifier    // says of which host reports and beacons are; nil: of the one that they name
	Publishers *publishkey.Verifier // says who may write requests of which projects; nil: whoever can
	Now        func() time.Time     // this process's clock; default time.Now
	Log        *zap.Logger          // default: none
	Metrics    *Metrics             // nil: nobody counts
	Tracer     *tracing.Tracer      // of boots; nil: none is traced here
}

func (c Config) withDefaults() Config {
	if c.Times == (admit.Options{}) {
		c.Times = admit.Defaults()
	}
	if c.MaxEnded != 0 {
		c.Times.MaxEnded = c.MaxEnded
	}
	if c.Share != 0 {
		c.Times.ShareLeast, c.Times.SharePerHost = c.Share, (c.Share+3)/4
	}
	if c.SoftGroupFor != 0 {
		c.Times.SoftGroupFor = c.SoftGroupFor
	}
	if c.ReserveLead != 0 {
		c.Times.ReserveLead = c.ReserveLead
	}
	if c.SyncTimeout == 0 {
		c.SyncTimeout = 5 * time.Second
	}
	if c.CatalogAge == 0 {
		c.CatalogAge = 5 * time.Second
	}
	if c.StartsTimeout == 0 {
		c.StartsTimeout = 15 * time.Second
	}
	if c.AliveFor == 0 {
		c.AliveFor = compute.SilentAfter / 2
	}
	if c.Reads == 0 {
		c.Reads = wire.Schema
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// QueueStarts knows up to where queues are finished with.
type QueueStarts interface {
	// Starts asks the broker for the share start offset of each queue. A queue
	// it could not find out about is left out. It may take until ctx ends.
	Starts(ctx context.Context, queues []compute.Queue) (map[compute.QueueName]int64, error)
}

// Dependencies are what a conductor needs of the world. All are required.
type Dependencies struct {
	// SyncCatalog returns once everything that is in the catalog now was handed
	// to Catalog. A turn calls it, at most once, before it refuses a flavor, and
	// before it decides a boot by a catalog that was not heard of for too long.
	SyncCatalog func(ctx context.Context) error
	// CatalogHeard is up to when all that was said in the catalog was handed to
	// Catalog, for certain. It may be called from any goroutine.
	CatalogHeard func() time.Time
	// SyncHosts returns once everything that is in the hosts topic now was handed to Hosts, or with an error when that
	// cannot be done before ctx ends. A turn calls it, at most once, before it accepts that a host is dead.
	SyncHosts func(ctx context.Context) error
	// HostsHeard is up to when all that was said in the hosts topic was handed to Hosts, for certain; zero: never. It
	// may be called from any goroutine.
	HostsHeard func() time.Time
	Starts     QueueStarts
	// Wake makes a turn come soon, input or not. It must not block, and may be
	// called from any goroutine, before the loop runs too.
	Wake func()
}

// Conductor decides for the partitions that it is given. The methods of
// wire.Handler are called from one goroutine; Catalog, Queues, Advice and Hosts
// from any.
type Conductor struct {
	cfg    Config
	deps   Dependencies
	inbox  *inbox
	clock  wire.Clock // what is decided is decided by the time of the log
	starts *startsQuerier

	// Owned by the goroutine that calls the handler:
	view        admit.View
	syncAgainAt time.Time // the catalog could not be read to its end: not tried again before
	syncedAt    time.Time // when it was last read to its end because it was asked for
	// when the hosts topic could not be read to its end; zero: it was the last time
	hostsFailedAt time.Time
	hostsRead     bool
	states        map[int32]*admit.State
	loading       map[int32]*loading
	said          map[int32]*hostkey.Heard // in reports, since the partition was gained
	restored      map[int32]time.Time      // when each partition was taken over, by this process's clock
	writes        compute.Schema           // the newest that all conductors read; 0: nobody has said so

	counts *stateCounts // nil without metrics
}

// New is a conductor that owns nothing yet. Start its loop only when ViewsReady
// is closed: before, it could not tell a flavor that is not offered from one
// that was not read yet.
func New(cfg Config, deps Dependencies) *Conductor {
	cfg = cfg.withDefaults()
	c := &Conductor{
		cfg: cfg, deps: deps, inbox: newInbox(),
		view: admit.NewView(), states: map[int32]*admit.State{}, loading: map[int32]*loading{},
		said: map[int32]*hostkey.Heard{}, restored: map[int32]time.Time{},
	}
	if cfg.Metrics != nil {
		c.counts = newStateCounts(func() time.Time { return c.clock.At(c.cfg.Now()) })
	}
	c.starts = newStartsQuerier(cfg, deps.Starts, c.putStarts)
	return c
}

// Run asks for start offsets as they are needed, and shows how many instances
// there are, until ctx ends.
func (c *Conductor) Run(ctx context.Context) error {
	defer c.cfg.Metrics.show(c.counts)()
	return c.starts.run(ctx)
}

// Ready is closed from the beginning: nobody waits for start offsets.
func (c *Conductor) Ready() <-chan struct{} { return c.starts.ready }

// ViewsReady is closed once the catalog and the queue list were read to the
// ends they had.
func (c *Conductor) ViewsReady() <-chan struct{} { return c.inbox.ready }

// putStarts keeps the start offsets that were asked for until the next turn.
func (c *Conductor) putStarts(starts map[compute.QueueName]int64) {
	c.inbox.putStarts(starts)
	c.deps.Wake()
}
