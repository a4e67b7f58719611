// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"cmp"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/sorted"
)

// device is one of a host.
type device struct {
	class  compute.ResourceClass // empty: it is not offered
	at     compute.PCIAddress
	parent compute.PCIAddress // the physical function that it is a part of; empty: of none
	group  string             // of devices that only one machine may have; empty: it is alone
	node   int
	gone   bool // a machine has it, or something that excludes it
}

// devices are all that a host has, by address.
type devices []device

// offered finds what is for machines: what a rule names, that is with vfio-pci, and
// that is not in use, as a part or with its parts. Those of one IOMMU group go
// together: while the host uses one of them, the others are nobody's.
func offered(all []compute.PCIDevice, rules []DeviceRule) (out devices) {
	whole, split, held := map[compute.PCIAddress]bool{}, map[compute.PCIAddress]bool{}, map[string]bool{}
	for _, d := range all {
		split[d.Parent] = split[d.Parent] || d.InUse
		whole[d.Address] = d.InUse && d.Ready() // the host's own driver must have a card for it to have parts
		held[d.Group] = held[d.Group] || d.InUse && !d.Bridge()
	}
	for _, d := range all {
		x := device{at: d.Address, parent: d.Parent, group: d.Group, node: d.Node}
		i := slices.IndexFunc(rules, func(r DeviceRule) bool { return r.matches(d) })
		if i >= 0 && d.Ready() && !d.InUse && !d.Barred && !split[d.Address] && !whole[d.Parent] &&
			(d.Group == "" || !held[d.Group]) {
			x.class = rules[i].Class
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b device) int { return cmp.Compare(a.at, b.at) })
	return out
}

func (l devices) clone() devices { return slices.Clone(l) }

// have says whether some count as a class.
func (l devices) have(class compute.ResourceClass) bool {
	return slices.ContainsFunc(l, func(d device) bool { return d.class == class })
}

// count says whether some of what is needed is devices; nobody needs what has no class.
func (l devices) count(needs compute.Resources) bool {
	return slices.ContainsFunc(l, func(d device) bool { return needs[d.class] > 0 })
}

// excludes says whether two machines cannot have one of them each: a physical
// function has no virtual ones while it is a machine's, and the other way round.
func (d device) excludes(e device) bool {
	return d.at != e.at && (d.parent == e.at || e.parent == d.at || d.group != "" && d.group == e.group)
}

// lose marks a device that a machine has, and those that it excludes; the answer is
// what there is one less of.
func (l devices) lose(at compute.PCIAddress) (fewer []compute.ResourceClass) {
	i, ok := slices.BinarySearchFunc(l, at, func(d device, at compute.PCIAddress) int { return cmp.Compare(d.at, at) })
	if !ok {
		return nil
	}
	for k, d := range l {
		if !d.gone && (k == i || d.excludes(l[i])) {
			if l[k].gone = true; d.class != "" {
				fewer = append(fewer, d.class)
			}
		}
	}
	return fewer
}

// near is how many of the devices that are needed a node has.
func (l devices) near(needs compute.Resources, id int) (n int64) {
	has := compute.Resources{}
	for _, d := range l {
		if !d.gone && d.node == id {
			has[d.class]++
		}
	}
	for class, wants := range needs {
		n += min(wants, has[class])
	}
	return n
}

// pick finds the devices for a machine on these nodes: those preferred, the nearest,
// and those that exclude fewest others, which counts more if it is the only way.
func (l devices) pick(needs compute.Resources, on []int, prefer []compute.PCIAddress) ([]compute.PCIAddress, bool) {
	if !l.count(needs) {
		return nil, true
	}
	for _, nearest := range []bool{true, false} {
		if out, ok := l.choose(needs, func(left devices, a, b device) int {
			near := sorted.TrueFirst(slices.Contains(on, a.node), slices.Contains(on, b.node))
			cheap := cmp.Compare(left.costs(a), left.costs(b))
			if !nearest {
				near, cheap = cheap, near
			}
			preferred := sorted.TrueFirst(slices.Contains(prefer, a.at), slices.Contains(prefer, b.at))
			return cmp.Or(preferred, near, cheap, cmp.Compare(a.at, b.at))
		}); ok {
			return out, true
		}
	}
	return nil, false
}

// choose takes the best of what is left, one after the other.
func (l devices) choose(
	needs compute.Resources,
	by func(left devices, a, b device) int,
) (out []compute.PCIAddress, ok bool) {
	left := l.clone()
	for _, class := range needs.Classes() {
		if !left.have(class) {
			continue
		}
		for range needs[class] {
			best := -1
			for i, d := range left {
				if d.class == class && !d.gone && (best < 0 || by(left, d, left[best]) < 0) {
					best = i
				}
			}
			if best < 0 {
				return nil, false
			}
			out = append(out, left[best].at)
			left.lose(left[best].at)
		}
	}
	slices.Sort(out)
	return out, true
}

// costs is how many other devices nobody could have if this one were taken.
func (l devices) costs(a device) (n int) {
	for _, d := range l {
		if !d.gone && d.class != "" && d.excludes(a) {
			n++
		}
	}
	return n
}
