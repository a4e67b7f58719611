// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/audit"
	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/events"
	"github.com/berth-project/berth/pkg/loopback"
	"github.com/berth-project/berth/pkg/rejected"
	"github.com/berth-project/berth/pkg/sealed"
	"github.com/berth-project/berth/pkg/tracing"
	"github.com/berth-project/berth/pkg/wire"
)

// Publisher makes records safe.
type Publisher interface {
	// Send returns nil once all records are acknowledged by all in-sync
	// replicas. With an error some of them may be written nevertheless.
	// wire.ErrNoTopic says that one of their topics does not exist, wire.ErrFull
	// that this process has no room for one of them.
	Send(ctx context.Context, recs ...wire.Record) error
	// Append is Send of one record; it answers the offset that the record has.
	Append(ctx context.Context, rec wire.Record) (offset int64, err error)
}

// Fencer makes certain that a host is dead.
type Fencer interface {
	// Fence returns nil once the host does not run for certain. It may be called
	// again for a host that is dead. An error is for the operator to read.
	Fence(ctx context.Context, h compute.HostID) error
}

// Syncer lets a node catch up with what others published.
type Syncer interface {
	// Sync asks now for the ends of the topics that it is for (Config.Syncer: requests and
	// instances) and returns when everything up to there was handed over.
	Sync(ctx context.Context) error
}

// PartitionSyncer can also catch up with one partition of each of its topics.
type PartitionSyncer interface {
	Syncer
	// SyncPartition is Sync that does not wait for other partitions.
	SyncPartition(ctx context.Context, p int32) error
}

// Listener hears what hosts answer about consoles.
type Listener interface {
	// Listen returns once everything that is written from now on to the consoles
	// topic is handed to Consoles, until done is called; or when ctx ends.
	Listen(ctx context.Context) (done func(), err error)
}

// CatalogLists is what operators offer, as this node knows it now.
type CatalogLists interface {
	Flavors() []compute.Flavor
	Capabilities() []compute.Capability
	// Quotas are the projects' own limits and those of compute.DefaultQuota.
	Quotas() []compute.Quota
}

// CatalogItems finds one thing on offer.
type CatalogItems interface {
	Flavor(compute.FlavorName) (compute.Flavor, bool)
	Capability(compute.AxisName) (compute.Capability, bool)
	// Quota is the limits of one project's own, or those of compute.DefaultQuota.
	Quota(compute.Project) (compute.Quota, bool)
}

// GroupCatalog has the groups of projects.
type GroupCatalog interface {
	// Groups are those of one project, by name.
	Groups(compute.Project) []compute.Group
	Group(compute.GroupKey) (compute.Group, bool)
	// SetGroup makes a group or replaces its rule; with onlyNew another one of the name is a conflict.
	SetGroup(ctx context.Context, g compute.Group, onlyNew bool) error
	// ChangeGroup changes the rule that there is when that is decided.
	ChangeGroup(ctx context.Context, key compute.GroupKey, change func(compute.Group) (compute.Group, error)) error
	// RemoveGroup is refused while the group has members.
	RemoveGroup(ctx context.Context, key compute.GroupKey) error
}

// Change is what a change of the catalog does to the queues.
type Change struct {
	Added   int // queues it makes
	Removed int // queues it closes
	Total   int // queues there are then
	Limit   int // most there may be; 0: not known
}

// FlavorChanger changes the flavors. A change is in Offers and Offer once it
// returns. With dry it checks and counts, and changes nothing.
type FlavorChanger interface {
	AddFlavor(ctx context.Context, f compute.Flavor, dry bool) (Change, error)
	RemoveFlavor(ctx context.Context, name compute.FlavorName, dry bool) (Change, error)
}

// CapabilityChanger changes the axes, as FlavorChanger does the flavors. RemoveValues needs at least one value, and is
// refused while instances wait for one, unless drain lets them: their queues close, and go once nothing needs them.
type CapabilityChanger interface {
	AddCapability(ctx context.Context, c compute.Capability, dry bool) (Change, error)
	RemoveCapability(ctx context.Context, axis compute.AxisName, dry bool) (Change, error)
	RemoveValues(ctx context.Context, a compute.AxisName, v []compute.AxisValue, drain, dry bool) (Change, error)
}

// QuotaChanger replaces the limits of one project, or changes those that there are when that is decided.
type QuotaChanger interface {
	SetQuota(ctx context.Context, q compute.Quota) error
	ChangeQuota(ctx context.Context, p compute.Project, change func(compute.Quota) (compute.Quota, error)) error
}

// Catalog is all of what operators offer: one thing that reads and changes it.
type Catalog interface {
	CatalogLists
	CatalogItems
	FlavorChanger
	CapabilityChanger
	QuotaChanger
	GroupCatalog
	// Read says whether all of it is known that was there when the node began.
	Read() bool
}

// Config is what a node needs of the world.
type Config struct {
	Topics     wire.Topics
	Partitions int32 // of requests, reports and instances
	// InstancesID is the id of the topic instances, which the ids of events name; empty: they name no log.
	InstancesID compute.TopicID
	Publisher   Publisher
	Syncer      PartitionSyncer
	// Decided is up to where conductors have dealt with requests, by partition, and what came of it is written; nil:
	// requests that they refuse are shown as accepted for ever.
	Decided func(ctx context.Context) (map[int32]int64, error)
	// Heard lets a node catch up with the beacons, which go to Hosts: a node that was cut off has heard of no
	// host for long, and must not take that for silence of theirs.
	Heard   Syncer
	Catalog Catalog
	// Offered lets a node catch up with the topic of the catalog, for what it does not find there: another node may have
	// made it just now. nil: what it does not find is not there.
	Offered Syncer
	// DeadAfter is how long a host must not have been heard of before it may be
	// declared dead; default compute.SilentAfter. Conductors refuse it for half as long.
	DeadAfter time.Duration
	Reads     compute.Schema // the newest schema it reads, in tests of versions; 0: wire.Schema
	// Tokens lets a node catch up with the topic of the tokens, whose records go to TokenRecords. nil:
	// tokens do not count.
	Tokens Syncer
	// SignIn authenticates callers by anything but a token. If it is empty and there are no Tokens, callers do
	// not sign in, and each that reaches the node may do everything.
	SignIn   auth.Chain
	Audit    *audit.Log       // whose Beside is the Publisher, and what the Catalog writes to; nil: none is kept
	Rejected rejected.Source  // has what was refused; nil: it is not shown
	Trail    audit.Source     // from which it is shown to admins; nil: it is not
	UserData *sealed.Keys     // seal and open user data; nil: it lies open in Kafka
	Fencer   Fencer           // nil: operators have to say themselves that a host is dead
	Consoles Listener         // nil: the consoles topic is read all the time
	Log      *zap.Logger      // nil: none
	Now      func() time.Time // this node's clock, which may be wrong, for what others read; default time.Now

	Metrics prometheus.Registerer // of the node's metrics; nil: none
	Tracer  *tracing.Tracer       // of boots; nil: none is traced here
	// Publishing is how many publications may be in flight, and how many more may
	// wait for an earlier request with their id or key; 0: 10,000.
	Publishing int
	// PrincipalRate is how many requests of one principal may come in a second; 0: no limit.
	PrincipalRate int

	CatchingUp int // most requests that wait to hear of other nodes; 0: 10,000

	OpenAsks int // most consoles that are asked for at once; 0: 64

	Events   events.Bounds // of listeners to events; 0 of each: 50,000, 64 MiB, 1,000, and a quarter of these
	KeepOpen time.Duration // how often one that hears nothing is written to; 0: 15 s
	Blocked  time.Duration // for how long one may take nothing of what it is written; 0: 10 s

	ConsoleTimeout time.Duration // until a host counts as not answering; 0: 10 s
	PublishTimeout time.Duration // until a publication counts as unanswered; 0: 20 s
	SyncTimeout    time.Duration // how long a GET may wait for a Sync; 0: 10 s
}

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	for _, n := range []*int{&c.Publishing, &c.CatchingUp} {
		if *n == 0 {
			*n = 10_000
		}
	}
	c.Events = boundListeners(c.Events)
	if c.OpenAsks == 0 {
		c.OpenAsks = 64
	}
	for _, d := range []struct {
		field     *time.Duration
		otherwise time.Duration
	}{
		{&c.DeadAfter, compute.SilentAfter},
		{&c.KeepOpen, keepOpen},
		{&c.Blocked, blocked},
		{&c.ConsoleTimeout, 10 * time.Second},
		{&c.PublishTimeout, 20 * time.Second},
		{&c.SyncTimeout, 10 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.otherwise
		}
	}
	return c
}

// check refuses what cannot work.
func (c Config) check() error {
	if c.Partitions < 1 {
		return compute.Invalid("partitions", "0", "give the number of partitions of the requests topic")
	}
	if c.Publishing < 0 {
		return compute.Invalid("limits.publishing", strconv.Itoa(c.Publishing), "give a positive number")
	}
	return nil
}

// CheckAddress refuses an address that others could reach, where there is no TLS.
func CheckAddress(address string) error {
	if address == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return compute.Invalid("listen", address, "give host:port, as in 127.0.0.1:7070")
	}
	if !loopback.Host(host) {
		return compute.Invalid("listen", address, "this process has no TLS: listen on 127.0.0.1, ::1 or localhost")
	}
	return nil
}
