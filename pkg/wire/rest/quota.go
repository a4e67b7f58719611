// SPDX-License-Identifier: Apache-2.0

package rest

import "github.com/berth-project/berth/pkg/compute"

// QuotaLimits replaces a project's own limits.
type QuotaLimits struct {
	Limits compute.Resources `json:"limits" doc:"INSTANCES, VCPU, MEMORY_MB (MiB), DISK_GB (GiB), CUSTOM_…. A class left out takes its limit from the default quota."`
}

// QuotaView is what a project may have and what it uses.
type QuotaView struct {
	Project   compute.Project `json:"project"`
	Resources []QuotaResource `json:"resources" nullable:"false" doc:"In alphabetical order."`
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
