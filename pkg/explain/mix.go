// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
)

// Admit answers how many of each kind a quota allows, if they come in this order: what is refused uses nothing. A class
// without a limit is unlimited.
func Admit(limits, used compute.PartAmounts, mix []Kind) []int64 {
	used, out := used.Clone(), make([]int64, len(mix))
	for i, k := range mix {
		each := ofQuota(k)
		n := k.Count
		for _, part := range compute.QuotaParts(k.Priority) {
			for class, amount := range each {
				if limit, limited := limits[part][class]; limited && amount > 0 {
					n = min(n, max(0, limit-used[part][class])/amount)
				}
			}
		}
		for _, part := range compute.QuotaParts(k.Priority) {
			used.Add(part, each, n)
		}
		out[i] = n
	}
	return out
}

// Uses is what a mix uses of its project's quota.
func Uses(mix []Kind) compute.PartAmounts {
	out := compute.PartAmounts{}
	for _, k := range mix {
		for _, part := range compute.QuotaParts(k.Priority) {
			out.Add(part, ofQuota(k), k.Count)
		}
	}
	return out
}

// ofQuota is what one of a kind uses of the quota.
func ofQuota(k Kind) compute.Resources {
	return k.Resources.Plus(compute.Resources{compute.Instances: 1})
}

// Mix is what is known of a mix of machines that nobody has booted.
type Mix struct {
	Kinds []MixKind
	Ahead int64 // how many wait in their queues already
}

// MixKind is one kind of it.
type MixKind struct {
	Name   string // "2 m1.small with gpu=a100"
	Boot   compute.Boot
	Count  int64
	Fits   int64  // with the others
	Alone  int64  // without them
	Before Answer // of hosts as they are
	After  Answer // of hosts with all of the mix that fits
	Group  *Group // of Before; nil: it is in none that has a rule
	Sums   bool   // what there is room for on all, and what the nearest lacks, may be told
}

// TellMix says what would become of a mix.
func TellMix(m Mix) Told {
	var all, fit int64
	for _, k := range m.Kinds {
		all, fit = all+k.Count, fit+k.Fits
	}
	out := Told{Summary: fmt.Sprintf("there is room for %d of %d now", fit, all)}
	if fit == all {
		out.Summary = fmt.Sprintf("there is room for all %d now", all)
	}
	switch {
	case m.Ahead == 1:
		out.Summary += ", behind 1 that waits before them"
	case m.Ahead > 1:
		out.Summary += fmt.Sprintf(", behind %d that wait before them", m.Ahead)
	}
	for _, k := range m.Kinds {
		if k.Fits == k.Count {
			continue
		}
		out.Summary += fmt.Sprintf("; of %s %d: %s", k.Name, k.Fits, k.lacks())
		if len(m.Kinds) > 1 && k.Alone > k.Fits {
			out.Asker = append(out.Asker, "boot fewer of the others first")
		}
		if k.Fits > 0 {
			out.Asker = append(out.Asker, "boot as many as have room")
		}
		left := Facts{Hosts: k.After, Instance: &compute.Instance{Boot: k.Boot}, Group: k.Group}
		out.Asker = append(out.Asker, left.asker()...)
		out.Operators = append(out.Operators, k.After.operators()...)
	}
	out.Asker, out.Operators = once(out.Asker), once(out.Operators)
	return out
}

// lacks says why not all of a kind have room.
func (k MixKind) lacks() string {
	switch {
	case k.Before.Total() == 0:
		return "there is no host"
	case k.Alone == k.Count:
		return "alone all of them have room, and not with the others"
	case k.Before.Now() == 0 && k.Before.Later() == 0:
		return fmt.Sprintf("no host can ever take one: of %s %s", count(k.Before.Total(), "host"), strings.Join(k.Before.nevers(), ", "))
	case k.Before.Now() == 0 && k.Sums:
		return fmt.Sprintf("no host can take one now: of %s %s", count(k.Before.Total(), "host"),
			strings.Join(append(k.Before.laters(k.Sums), k.Before.nevers()...), ", "))
	}
	if g := k.Group; g != nil && k.After.Counts[Full] == 0 { // so it is the rule
		return fmt.Sprintf("the rule of group %s (%s) lets no host have one more", g.Rule.Name, g.Rule.Rule())
	}
	if v := k.After.first[Full]; v.Host != "" && k.Sums {
		return "the host that lacks least for one more is short of " + Amounts(v.Short)
	}
	return "no host has room for one more"
}

// once is a list without what was there before.
func once(all []string) (out []string) {
	for _, s := range all {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
