// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// QuotaLimits replaces a project's own limits.
type QuotaLimits struct {
	Limits compute.Resources `json:"limits" doc:"INSTANCES, VCPU, MEMORY_MB (MiB), DISK_GB (GiB), CUSTOM_…. A class left out takes its limit from the default quota."`

	Priorities map[string]compute.Resources `json:"priorities,omitempty" doc:"Limits beside those, for the instances of one class of priority: by low, normal or high, of the same classes of resources. What is left out has only the limits for all."`

	Weight uint32 `json:"weight,omitempty" maximum:"100" doc:"How many times as many builds the project may have in a queue as one of weight 1. 0 or absent: that of the default quota, or 1."`
}

// Classes are the limits for classes of priority, in the words of package compute.
func (q QuotaLimits) Classes() (compute.ClassLimits, error) {
	out := compute.ClassLimits{}
	for _, name := range slices.Sorted(maps.Keys(q.Priorities)) {
		p, err := limitedClass(name)
		if err != nil {
			return nil, err
		}
		out[p] = q.Priorities[name]
	}
	return out.Tidy(), nil
}

// limitedClass is the class of priority that limits are for, by its name.
func limitedClass(name string) (compute.Priority, error) {
	p, err := compute.ParsePriority(name)
	if err != nil || name == "" {
		return p, compute.Invalid("priorities", name, `give limits for "low", "normal" or "high"`)
	}
	return p, nil
}

// QuotaChange changes some of a project's own limits. As a JSON merge patch has it (RFC 7396), what is left out stays.
type QuotaChange struct {
	Limits map[compute.ResourceClass]*int64 `json:"limits,omitempty" doc:"Limits to set, of the same classes as in set-quota; null takes one out, so that the default quota's counts."`

	Priorities map[string]map[compute.ResourceClass]*int64 `json:"priorities,omitempty" doc:"The same of the limits for instances of one class of priority: by low, normal or high."`

	Weight *uint32 `json:"weight,omitempty" maximum:"100" doc:"0: that of the default quota, or 1."`
}

// Apply is a quota after the change.
func (c QuotaChange) Apply(q compute.Quota) (compute.Quota, error) {
	apply := func(to compute.Resources, changes map[compute.ResourceClass]*int64) compute.Resources {
		out := compute.Resources{}
		maps.Copy(out, to)
		for class, limit := range changes {
			if limit == nil {
				delete(out, class)
				continue
			}
			out[class] = *limit
		}
		return out
	}
	q.Limits, q.Classes = apply(q.Limits, c.Limits), maps.Clone(q.Classes)
	if q.Classes == nil {
		q.Classes = compute.ClassLimits{}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Priorities)) {
		p, err := limitedClass(name)
		if err != nil {
			return q, err
		}
		q.Classes[p] = apply(q.Classes[p], c.Priorities[name])
	}
	if c.Weight != nil {
		q.Weight = *c.Weight
	}
	return q, nil
}

// FromClassLimits shows limits for classes of priority; nil for none.
func FromClassLimits(limits compute.ClassLimits) map[string]compute.Resources {
	var out map[string]compute.Resources
	for p, of := range limits.Tidy() {
		if out == nil {
			out = map[string]compute.Resources{}
		}
		out[p.String()] = of
	}
	return out
}

// QuotaView is what a project may have and what it uses.
type QuotaView struct {
	Project   compute.Project `json:"project"`
	Resources []QuotaResource `json:"resources" nullable:"false" doc:"In alphabetical order."`

	Priorities []QuotaPriority `json:"priorities,omitempty" nullable:"false" doc:"The part of it that instances of one class of priority have and may have: each class that has limits of its own, or instances that are not of normal priority."`

	Weight     uint32 `json:"weight" doc:"How many times as many builds it may have in a queue as a project of weight 1."`
	WeightFrom string `json:"weight_from" enum:"project,default,none" doc:"Whose quota the weight comes from."`
}

// QuotaPriority is the quota of one class of priority.
type QuotaPriority struct {
	Priority  string          `json:"priority" enum:"low,normal,high"`
	Resources []QuotaResource `json:"resources" nullable:"false" doc:"In alphabetical order: what is used or limited."`
}

// QuotaResource is the quota of one class.
type QuotaResource struct {
	Class compute.ResourceClass `json:"class"`
	Used  int64                 `json:"used"`
	Limit *int64                `json:"limit,omitempty" doc:"Absent: unlimited."`
	From  string                `json:"from" enum:"project,default,none" doc:"Whose quota the limit comes from."`
}

// Quotas is a list.
type Quotas struct {
	Items []QuotaView `json:"items" nullable:"false"`
	Next  string      `json:"next,omitempty" doc:"Give this as marker to get the next page; absent on the last."`
}
