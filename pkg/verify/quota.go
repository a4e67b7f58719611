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
					Level: Warn, About: "project " + string(p), Says: fmt.Sprintf("%d %s", used, class), Want: fmt.Sprintf("%d at most", limit[class]),
					Why: "the limit was lowered since: what runs stays, nothing new is admitted", Fix: fmt.Sprintf("delete machines, or raise it: berth quota set %s %s=%d", p, class, used),
				})
			}
		}
	}
}
