// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

func TestCheck(t *testing.T) {
	own := compute.Quota{Limits: compute.Resources{compute.VCPU: 4, "CUSTOM_GPU": 0}}
	def := compute.Quota{Limits: compute.Resources{compute.VCPU: 100, compute.Instances: 3, compute.MemoryMB: 1024}}
	small := compute.Resources{compute.VCPU: 1, compute.MemoryMB: 256}
	for _, c := range []struct {
		name   string
		used   int // instances of size small already there
		asked  compute.Resources
		limits Limits
		want   *compute.Reason
	}{
		{"no limits at all", 9, small, Limits{}, nil},
		{"exactly the last unit", 2, small, Limits{Default: def}, nil},
		{"one instance too many", 3, small, Limits{Default: def},
			&compute.Reason{Code: compute.QuotaExceeded, Resource: compute.Instances, Limit: 3, Used: 3, Asked: 1}},
		{"own limit beats the default", 2, compute.Resources{compute.VCPU: 3}, Limits{Own: own, Default: def},
			&compute.Reason{Code: compute.QuotaExceeded, Resource: compute.VCPU, Limit: 4, Used: 2, Asked: 3}},
		{"a class the project has no limit for takes the default", 1, compute.Resources{compute.MemoryMB: 1000},
			Limits{Own: own, Default: def},
			&compute.Reason{
				Code: compute.QuotaExceeded, Resource: compute.MemoryMB, Limit: 1024, Used: 256, Asked: 1000,
			}},
		{"a limit of zero allows nothing", 0, compute.Resources{"CUSTOM_GPU": 1}, Limits{Own: own, Default: def},
			&compute.Reason{Code: compute.QuotaExceeded, Resource: "CUSTOM_GPU", Limit: 0, Used: 0, Asked: 1}},
		{
			"a limit of zero does not bind what asks for none", 0, small,
			Limits{Own: compute.Quota{Limits: compute.Resources{"CUSTOM_GPU": 0}}}, nil,
		},
		{"no sum overflows", 1, compute.Resources{compute.VCPU: math.MaxInt64}, Limits{Own: own},
			&compute.Reason{
				Code: compute.QuotaExceeded, Resource: compute.VCPU, Limit: 4, Used: 1, Asked: math.MaxInt64,
			}},
		{"a limit lowered below the usage", 3, compute.Resources{compute.VCPU: 1},
			Limits{Own: compute.Quota{Limits: compute.Resources{compute.VCPU: 1}}},
			&compute.Reason{Code: compute.QuotaExceeded, Resource: compute.VCPU, Limit: 1, Used: 3, Asked: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := NewIndex()
			for range c.used {
				x.Replace(nil, &compute.Instance{Project: "p", State: compute.StateQueued, Resources: small})
			}
			if diff := cmp.Diff(c.want, x.Check("p", Ask(compute.PriorityNormal, c.asked), c.limits)); diff != "" {
				t.Error(diff)
			}
			if r := x.Check("another", Ask(compute.PriorityNormal, small), c.limits); r != nil {
				t.Errorf("another project is told %v", r)
			}
		})
	}
}

func TestLimitsOf(t *testing.T) {
	quotas := map[compute.Project]compute.Quota{
		"p": {Limits: compute.Resources{compute.VCPU: 1}},
		compute.DefaultQuota: {
			Limits:  compute.Resources{compute.VCPU: 2, compute.DiskGB: 3},
			Classes: compute.ClassLimits{compute.PriorityHigh: {compute.MemoryMB: 4}},
		},
	}
	for _, c := range []struct {
		project compute.Project
		part    compute.QuotaPart
		class   compute.ResourceClass
		want    int64
		limited bool
	}{
		{"p", compute.QuotaWhole, compute.VCPU, 1, true},
		{"p", compute.QuotaWhole, compute.DiskGB, 3, true},
		{"p", compute.QuotaWhole, compute.MemoryMB, 0, false},
		{"q", compute.QuotaWhole, compute.VCPU, 2, true},
		{"q", compute.QuotaOf(compute.PriorityHigh), compute.MemoryMB, 4, true},
		{"q", compute.QuotaOf(compute.PriorityLow), compute.MemoryMB, 0, false},
	} {
		n, limited := LimitsOf(c.project, quotas).Of(c.part, c.class)
		if n != c.want || limited != c.limited {
			t.Errorf("%s of %s: %d, %v; want %d, %v", c.class, c.project, n, limited, c.want, c.limited)
		}
	}
}
