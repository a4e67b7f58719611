// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/conductor/quota"
	"github.com/berth-project/berth/pkg/compute"
)

// View is what the conductor has read of the world outside its partitions. It
// may be behind. Step only reads it. No host's room is in it: what is free only
// the host knows. Twins denies claims. Advice explains why work
// waits, and says for how many hosts more of it may be published.
type View struct {
	Flavors      map[compute.FlavorName]compute.Flavor
	Capabilities map[compute.AxisName]compute.Capability
	Quotas       map[compute.Project]compute.Quota
	Queues       map[compute.QueueName]compute.Queue // those listed, open or closed
	Listed       map[compute.QueueName]time.Time     // when that was written last
	Advice       map[compute.QueueName]compute.QueueAdvice
	Groups       map[compute.GroupKey]compute.Group
	Twins        map[compute.HostID][]compute.Voice // hosts that several agents speak for
	// HostsUnreadAt is the last turn at which the hosts topic was not read up to date; zero: there was none.
	HostsUnreadAt time.Time
	// CatalogUnread says that the catalog was not heard of for long: it may have more than this.
	CatalogUnread bool
	// CatalogBehind says that the catalog was not read up to when this partition was taken over: the owner before may have
	// decided by what is not here.
	CatalogBehind bool
	ReadWhole     bool // all conductors and agents read sets that are offered whole
	ReadReserved  bool // all conductors and agents read reservations
}

// NewView is a view of nothing, ready to be filled.
func NewView() View {
	return View{
		Flavors:      map[compute.FlavorName]compute.Flavor{},
		Capabilities: map[compute.AxisName]compute.Capability{},
		Quotas:       map[compute.Project]compute.Quota{},
		Queues:       map[compute.QueueName]compute.Queue{},
		Listed:       map[compute.QueueName]time.Time{},
		Advice:       map[compute.QueueName]compute.QueueAdvice{},
		Groups:       map[compute.GroupKey]compute.Group{},
		Twins:        map[compute.HostID][]compute.Voice{},
	}
}

// rule is that of a group; nil: the catalog does not have the group.
func (v View) rule(key compute.GroupKey) *compute.Group {
	if rule, ok := v.Groups[key]; ok {
		return &rule
	}
	return nil
}

// Resolve finds the queue of a boot, or why there is none: NoSuchFlavor,
// NoSuchCapability or QueueClosed. A queue that the catalog allows but that is
// not listed yet is worked out from the catalog, and so is a tier of a queue that
// takes requests: it is made once an instance needs it.
func (v View) Resolve(b compute.Boot) (compute.Queue, *compute.Reason) {
	wanted, reason := v.fromCatalog(b)
	if reason != nil {
		return compute.Queue{}, reason
	}
	base, reason := v.openOr(wanted)
	if reason != nil || b.Priority() == compute.PriorityNormal {
		return base, reason
	}
	tier, reason := v.openOr(base.Tier(b.Priority()))
	if other, is := v.Flavors[compute.FlavorName(tier.Name)]; reason == nil && is {
		tier.Priority, tier.Flavor = compute.PriorityNormal, other.Name // though its queue is not listed yet
	}
	if reason == nil && (tier.Priority != b.Priority() || tier.Flavor != b.Flavor) {
		return compute.Queue{}, &compute.Reason{
			Code:   compute.QueueClosedReason,
			Detail: fmt.Sprintf("its queue would be %s, and flavor %s has a queue of that name", tier.Name, tier.Flavor),
		}
	}
	return tier, reason
}

// openOr is a queue as it is listed, or as it is given if it is not; refused if it is closed.
func (v View) openOr(q compute.Queue) (compute.Queue, *compute.Reason) {
	listed, ok := v.Queues[q.Name]
	if !ok {
		return q, nil
	}
	if listed.State == compute.QueueClosed {
		return compute.Queue{}, &compute.Reason{
			Code: compute.QueueClosedReason, Detail: fmt.Sprintf("queue %s takes no new requests", q.Name),
		}
	}
	return listed, nil
}

func (v View) fromCatalog(b compute.Boot) (compute.Queue, *compute.Reason) {
	flavor, ok := v.Flavors[b.Flavor]
	if !ok {
		return compute.Queue{}, &compute.Reason{
			Code: compute.NoSuchFlavor, Detail: fmt.Sprintf("there is no flavor %s", b.Flavor),
		}
	}
	q := compute.Queue{
		Name: compute.NameQueue(b.Flavor, b.With), Flavor: b.Flavor, Choices: b.With,
		Resources: flavor.Resources, Required: flavor.Required, Forbidden: flavor.Forbidden,
	}
	for _, axis := range slices.Sorted(maps.Keys(b.With)) {
		value, known := v.Capabilities[axis].Value(b.With[axis])
		if !known || !slices.Contains(flavor.Capabilities, axis) {
			return compute.Queue{}, &compute.Reason{
				Code:   compute.NoSuchCapability,
				Detail: fmt.Sprintf("flavor %s is not offered with %s=%s", b.Flavor, axis, b.With[axis]),
			}
		}
		q.Resources = q.Resources.Plus(value.Consumes)
		q.Required = union(q.Required, value.Requires)
	}
	return q, nil
}

// union is sorted, each word once.
func union[W ~string](lists ...[]W) []W {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(lists...))))
}

// listedSince says whether the queue of an instance was listed, or made anew, after the instance's last version: for all that
// is known, its work has not been in that queue yet. A conductor may hear of a queue that much later than it was written.
func (v View) listedSince(inst *compute.Instance) bool {
	return v.listed(inst.Queue) && inst.ChangedAt.Before(v.Listed[inst.Queue].Add(heardListed))
}

// heardListed is how long after a queue was listed a conductor may still take it for one that is not.
const heardListed = 5 * time.Second

// listed says whether there is such a queue. Work for one that cannot be made yet waits.
func (v View) listed(name compute.QueueName) bool {
	q, ok := v.Queues[name]
	return ok && !q.CannotBeMade()
}

func (v View) limits(p compute.Project) quota.Limits { return quota.LimitsOf(p, v.Quotas) }

// weight is how many times as many builds a project may have in a queue as one of weight 1.
func (v View) weight(p compute.Project) uint32 {
	return compute.WeightOf(v.Quotas[p], v.Quotas[compute.DefaultQuota])
}

// capacity is why nobody takes the work of a queue, as the last advice has it.
func (v View) capacity(q compute.QueueName) *compute.Reason {
	advice, ok := v.Advice[q]
	hosts := advice.Hosts
	switch {
	case !ok:
		return &compute.Reason{
			Code: compute.WaitingForCapacity, Detail: "no host has taken it; nothing is known about the queue",
		}
	case hosts.Total() > 0 && hosts.NeverFits == hosts.Total():
		return &compute.Reason{Code: compute.NeverFits, Hosts: hosts}
	case hosts.Eligible == 0:
		return &compute.Reason{Code: compute.NoEligibleHost, Hosts: hosts}
	}
	return &compute.Reason{
		Code: compute.WaitingForCapacity, Position: max(advice.Queued(), 1) - 1, Depth: advice.Queued(),
		Oldest: advice.Oldest, Hosts: hosts,
	}
}
