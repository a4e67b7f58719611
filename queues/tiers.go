// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"maps"
	"slices"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
)

// tiers are the queues of other classes than the normal one that are wanted beside these: of each of them the tiers
// that are listed, and those that an instance needs. So a tier is made when it is first used, and goes when its queue
// goes. Where a queue of the catalog has the name of a tier, that queue is wanted, and the tier is not.
func (v *view) tiers(queues []compute.Queue) []compute.Queue {
	named := v.tierNames()
	if len(named) == 0 {
		return nil
	}
	by := make(map[compute.QueueName]compute.Queue, len(queues))
	for _, q := range queues {
		by[q.Name] = q
	}
	var out []compute.Queue
	for _, name := range named {
		base, p := compute.SplitTier(name)
		q, wanted := by[base]
		if _, taken := by[name]; !wanted || taken {
			continue
		}
		if len(queues)+len(out) >= v.most {
			v.log.Error("tiers left out: too many queues", zap.String("first", string(name)), zap.Int("most", v.most))
			break
		}
		out = append(out, q.Tier(p))
	}
	return out
}

// tierNames are the names that may be of tiers which are listed or needed: first what is listed, so that none goes for
// a new one where there may be no more.
func (v *view) tierNames() []compute.QueueName {
	isTier := func(name compute.QueueName) bool {
		_, p := compute.SplitTier(name)
		return p != compute.PriorityNormal
	}
	var listed, needed []compute.QueueName
	for _, name := range slices.Sorted(maps.Keys(v.listed)) {
		if isTier(name) {
			listed = append(listed, name)
		}
	}
	for name := range v.loads {
		if _, is := v.listed[name]; !is && isTier(name) {
			needed = append(needed, name)
		}
	}
	slices.Sort(needed)
	return append(listed, needed...)
}

// lacks says whether instances need a tier that is not listed. Any other queue is listed for the catalog's sake.
func (v *view) lacks(name compute.QueueName) bool {
	if _, listed := v.listed[name]; listed {
		return false
	}
	_, p := compute.SplitTier(name)
	return p != compute.PriorityNormal
}
