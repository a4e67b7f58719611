// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// compareQuotas finds projects that use more than they may have now.
func (c *comparison) compareQuotas() {
	limits := map[compute.Project]compute.Resources{}
	for _, q := range c.Quotas {
		limits[q.Project] = q.Limits
	}
	for _, p := range slices.Sorted(maps.Keys(c.used)) {
		limit, own := limits[p]
		if !own {
			limit = limits[compute.DefaultQuota]
		}
		for _, class := range limit.Classes() {
			if used := c.used[p][class]; used > limit[class] {
				c.find(Difference{
					Level: Warn, About: "project " + string(p), Says: fmt.Sprintf("%d %s", used, class),
					Want: fmt.Sprintf("%d at most", limit[class]),
					Why:  "the limit was lowered since: what runs stays, nothing new is admitted",
					Fix:  fmt.Sprintf("delete machines, or raise it: berth quota set %s %s", p, limitFlag(class, used)),
				})
			}
		}
	}
}

// limitFlag is how `berth quota set` is told a limit.
func limitFlag(class compute.ResourceClass, n int64) string {
	switch class {
	case compute.Instances:
		return fmt.Sprintf("--instances %d", n)
	case compute.VCPU:
		return fmt.Sprintf("--vcpus %d", n)
	case compute.MemoryMB:
		return fmt.Sprintf("--memory %dMiB", n)
	case compute.DiskGB:
		return fmt.Sprintf("--disk %dGiB", n)
	}
	return fmt.Sprintf("--resource %s=%d", class, n)
}
