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
		p, err := compute.ParsePriority(name)
		if err != nil || name == "" {
			return nil, compute.Invalid("priorities", name, `give limits for "low", "normal" or "high"`)
		}
		out[p] = q.Priorities[name]
	}
	return out.Tidy(), nil
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
