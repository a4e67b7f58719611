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
// Invariant: for each project it equals the sum, over the newest version of all
// its instances that have not ended, of their resources and one of class INSTANCES.
type Index struct {
	used map[compute.Project]compute.Resources
}

// NewIndex is the index of no records.
func NewIndex() *Index { return &Index{used: map[compute.Project]compute.Resources{}} }

// Replace says that old gave way to new: nil for old is a new instance, nil for
// new a forgotten one.
func (x *Index) Replace(old, new *compute.Instance) {
	x.add(old, -1)
	x.add(new, 1)
}

// add adds times what one record uses: its resources and one instance, or nothing
// once it has ended. Nil is no record. It keeps no zeros, so that what nobody uses
// takes no memory.
func (x *Index) add(inst *compute.Instance, times int64) {
	if inst == nil || !inst.State.Counts() {
		return
	}
	used := x.used[inst.Project]
	if used == nil {
		used = compute.Resources{}
		x.used[inst.Project] = used
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
		delete(x.used, inst.Project)
	}
}

// Used is what the project uses, until the next Replace. The caller must not
// change it.
func (x *Index) Used(p compute.Project) compute.Resources { return x.used[p] }

// Check says whether the project may have asked in addition to what it uses:
// nil if so, else QuotaExceeded for the first class, in alphabetical order, that
// is short. One instance is added to what is asked.
func (x *Index) Check(p compute.Project, want compute.Resources, limits Limits) *compute.Reason {
	want, used := asked(want), x.used[p]
	for _, class := range want.Classes() {
		limit, limited := limits.Of(class)
		// Written so that no sum can overflow, whatever is asked.
		if limited && want[class] > limit-used[class] {
			return &compute.Reason{
				Code: compute.QuotaExceeded, Resource: class,
				Limit: limit, Used: used[class], Asked: want[class],
			}
		}
	}
	return nil
}

func asked(r compute.Resources) compute.Resources {
	return r.Plus(compute.Resources{compute.Instances: 1})
}

// Limits are what one project may have in all.
type Limits struct {
	Own     compute.Resources // the project's quota
	Default compute.Resources // the quota of compute.DefaultQuota
}

// LimitsOf finds a project's limits among all quotas.
func LimitsOf(p compute.Project, quotas map[compute.Project]compute.Resources) Limits {
	return Limits{Own: quotas[p], Default: quotas[compute.DefaultQuota]}
}

// Of is the limit of one class: the project's own, else the default. False: no
// limit. A limit of zero allows nothing.
func (l Limits) Of(class compute.ResourceClass) (int64, bool) {
	if n, ok := l.Own[class]; ok {
		return n, true
	}
	n, ok := l.Default[class]
	return n, ok
}
