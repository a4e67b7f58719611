// SPDX-License-Identifier: Apache-2.0

// Package quota counts what each project uses and says no when a request would
// exceed what the project may have.
//
// Usage is never kept by adding and taking away on its own account: it is the
// sum over the instance records that count (compute.State.Counts), and Index
// moves only when a record is replaced by its next version.
package quota

import "github.com/berth-project/berth/pkg/compute"

// Index holds the usage of every project that has any.
//
// Invariant: for each project, and for each part of it, it equals the sum, over the newest version of all its instances
// that have not ended and are of that part, of their resources and one of class INSTANCES.
type Index struct {
	used map[part]compute.Resources
}

// part is the whole that a project has, or what it has of one class of priority.
type part struct {
	project compute.Project
	of      compute.QuotaPart
}

// NewIndex is the index of no records.
func NewIndex() *Index { return &Index{used: map[part]compute.Resources{}} }

// Replace says that old gave way to new: nil for old is a new instance, nil for
// new a forgotten one.
func (x *Index) Replace(old, new *compute.Instance) {
	x.count(old, -1)
	x.count(new, 1)
}

// count adds times one record to all parts that it is of. Nil is no record, and one that has ended uses nothing,
// nor does a placeholder that is taken.
func (x *Index) count(inst *compute.Instance, times int64) {
	if inst == nil || !inst.Counts() {
		return
	}
	for _, of := range compute.QuotaParts(inst.Boot.Priority()) {
		x.add(part{inst.Project, of}, inst, times)
	}
}

// add adds times what one record uses: its resources and one instance. It keeps no zeros, so that what nobody uses
// takes no memory.
func (x *Index) add(of part, inst *compute.Instance, times int64) {
	used := x.used[of]
	if used == nil {
		used = compute.Resources{}
		x.used[of] = used
	}
	one := func(c compute.ResourceClass, n int64) {
		if used[c] += times * n; used[c] == 0 {
			delete(used, c)
		}
	}
	one(compute.Instances, 1)
	for c, n := range inst.Resources {
		one(c, n)
	}
	if len(used) == 0 {
		delete(x.used, of)
	}
}

// Used is what the project uses, until the next Replace. The caller must not
// change it.
func (x *Index) Used(p compute.Project) compute.Resources { return x.UsedOf(p, compute.QuotaWhole) }

// UsedOf is what the project uses of one part, until the next Replace. The caller must not change it.
func (x *Index) UsedOf(p compute.Project, of compute.QuotaPart) compute.Resources {
	return x.used[part{p, of}]
}

// Asked is what a request wants, by the parts of a quota that it counts in.
type Asked compute.PartAmounts

// Ask is what one instance of a class would use.
func Ask(p compute.Priority, r compute.Resources) Asked {
	a := Asked{}
	a.Add(p, r)
	return a
}

// Add asks for one more instance.
func (a Asked) Add(p compute.Priority, r compute.Resources) {
	one := r.Plus(compute.Resources{compute.Instances: 1})
	for _, part := range compute.QuotaParts(p) {
		compute.PartAmounts(a).Add(part, one, 1)
	}
}

// Check says whether the project may have what is asked in addition to what it uses: nil if so, else QuotaExceeded for
// the first class of resources, in alphabetical order, that is short, of the whole before the classes of priority.
func (x *Index) Check(p compute.Project, want Asked, limits Limits) *compute.Reason {
	for _, of := range compute.AllQuotaParts() {
		if reason := x.check(part{p, of}, want[of], limits); reason != nil {
			return reason
		}
	}
	return nil
}

func (x *Index) check(at part, want compute.Resources, limits Limits) *compute.Reason {
	used := x.used[at]
	for _, class := range want.Classes() {
		limit, limited := limits.Of(at.of, class)
		// Written so that no sum can overflow, whatever is asked.
		if limited && want[class] > limit-used[class] {
			return &compute.Reason{
				Code: compute.QuotaExceeded, Resource: class, Part: at.of,
				Limit: limit, Used: used[class], Asked: want[class],
			}
		}
	}
	return nil
}

// Limits are what one project may have.
type Limits struct {
	Own     compute.Quota // the project's quota
	Default compute.Quota // the quota of compute.DefaultQuota
}

// LimitsOf finds a project's limits among all quotas.
func LimitsOf(p compute.Project, quotas map[compute.Project]compute.Quota) Limits {
	return Limits{Own: quotas[p], Default: quotas[compute.DefaultQuota]}
}

// Of is the limit of one class of resources in a part of the quota: the project's own, else the default. False: no
// limit. A limit of zero allows nothing.
func (l Limits) Of(part compute.QuotaPart, class compute.ResourceClass) (int64, bool) {
	if n, ok := l.Own.Of(part)[class]; ok {
		return n, true
	}
	n, ok := l.Default.Of(part)[class]
	return n, ok
}
