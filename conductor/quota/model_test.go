// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

// TestLedgerIsTheModel compares the ledger with the simplest one there is: the
// records themselves, summed up whenever somebody asks. Records are admitted,
// change state and size, end and are forgotten, limits change, and partitions
// are lost and loaded again in any order; after each of these, what is used, which
// request is admitted and what a refusal says are the model's.
//
// Seen to fail when quota is given back twice, when a new version is counted
// beside the old one, when a class that nobody uses any more is kept, when the
// default limit goes before a project's own, and when the sum is compared with
// the limit instead of the ask with what is left.
func TestLedgerIsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{
			T: t, ledger: NewIndex(), records: map[int]*compute.Instance{},
			limits: map[compute.Project]compute.Quota{},
		}
		t.Repeat(map[string]func(*rapid.T){
			"admit": m.admit, "move": m.move, "resize": m.resize, "forget": m.forget,
			"limit": m.limit, "unlimit": m.unlimit, "reload": m.reload, "": m.same,
		})
	})
}

// model is a partition's records, and nothing else.
type model struct {
	*rapid.T
	ledger  *Index
	records map[int]*compute.Instance
	limits  map[compute.Project]compute.Quota
	made    int
}

var classes = []compute.ResourceClass{compute.VCPU, compute.MemoryMB, "CUSTOM_GPU"}

var anyProject = rapid.SampledFrom([]compute.Project{"p", "q"})

func sizes(most int64) *rapid.Generator[compute.Resources] {
	return rapid.Map(rapid.MapOf(rapid.SampledFrom(classes), rapid.Int64Range(1, most)),
		func(m map[compute.ResourceClass]int64) compute.Resources { return m })
}

// uses is the sum over a project's records that are of a part, in numbers without an end.
func (m *model) uses(p compute.Project, of compute.QuotaPart) map[compute.ResourceClass]*big.Int {
	sum := map[compute.ResourceClass]*big.Int{}
	add := func(class compute.ResourceClass, n int64) {
		if sum[class] == nil {
			sum[class] = new(big.Int)
		}
		sum[class].Add(sum[class], big.NewInt(n))
	}
	for _, inst := range m.records {
		class, ofClass := of.Priority()
		if inst.Project != p || ofClass && inst.Boot.Priority() != class ||
			!slices.Contains(
				[]compute.State{compute.StateQueued, compute.StateStarting, compute.StateActive, compute.StateDeleting},
				inst.State,
			) {
			continue
		}
		add(compute.Instances, 1)
		for class, n := range inst.Resources {
			add(class, n)
		}
	}
	maps.DeleteFunc(sum, func(_ compute.ResourceClass, n *big.Int) bool { return n.Sign() == 0 })
	return sum
}

var anyClass = rapid.SampledFrom(compute.Priorities())

// refuses is what the answer must be; empty: admitted.
func (m *model) refuses(p compute.Project, class compute.Priority, want compute.Resources) string {
	if why := m.refusesOf(p, compute.QuotaWhole, want); why != "" {
		return why
	}
	return m.refusesOf(p, compute.QuotaOf(class), want)
}

func (m *model) refusesOf(p compute.Project, of compute.QuotaPart, want compute.Resources) string {
	used, asked := m.uses(p, of), maps.Clone(want)
	if asked == nil {
		asked = compute.Resources{}
	}
	asked[compute.Instances] = 1
	for _, class := range slices.Sorted(maps.Keys(asked)) {
		limit, ok := m.limits[p].Of(of)[class]
		if !ok {
			limit, ok = m.limits[compute.DefaultQuota].Of(of)[class]
		}
		if !ok {
			continue
		}
		u := used[class]
		if u == nil {
			u = new(big.Int)
		}
		if sum := new(big.Int).Add(u, big.NewInt(asked[class])); sum.Cmp(big.NewInt(limit)) > 0 {
			return fmt.Sprintf("%d %s: %s of %d used, %d asked", of, class, u, limit, asked[class])
		}
	}
	return ""
}

func said(r *compute.Reason) string {
	if r == nil {
		return ""
	}
	if r.Code != compute.QuotaExceeded {
		return string(r.Code)
	}
	return fmt.Sprintf("%d %s: %d of %d used, %d asked", r.Part, r.Resource, r.Used, r.Limit, r.Asked)
}

// ask compares an answer; it says whether that was a yes.
func (m *model) ask(p compute.Project, class compute.Priority, want compute.Resources) bool {
	got, right := said(m.ledger.Check(p, Ask(class, want), LimitsOf(p, m.limits))), m.refuses(p, class, want)
	if got != right {
		m.Fatalf("%s asks for %v: %q, want %q", p, want, got, right)
	}
	return right == ""
}

func (m *model) admit(t *rapid.T) {
	p, class, want := anyProject.Draw(t, "project"), anyClass.Draw(t, "class"), sizes(5).Draw(t, "size")
	inst := &compute.Instance{Project: p, State: compute.StateError, Resources: want}
	inst.Boot.Rules = compute.RulesOf("", compute.Set{}, class)
	if m.ask(p, class, want) {
		inst.State = compute.StateQueued
	}
	m.made++
	m.put(m.made, inst)
}

// put replaces a record by its next version; nil for next forgets it.
func (m *model) put(n int, next *compute.Instance) {
	m.ledger.Replace(m.records[n], next)
	if m.records[n] = next; next == nil {
		delete(m.records, n)
	}
}

// one is a record that is there.
func (m *model) one(t *rapid.T) (int, compute.Instance) {
	if len(m.records) == 0 {
		t.Skip("there is none")
	}
	n := rapid.SampledFrom(slices.Sorted(maps.Keys(m.records))).Draw(t, "record")
	return n, *m.records[n]
}

func (m *model) move(t *rapid.T) {
	n, next := m.one(t)
	next.State = compute.State(rapid.IntRange(int(compute.StateQueued), int(compute.StateError)).Draw(t, "state"))
	m.put(n, &next)
}

// resize does what no request can ask for yet, and a record may hold all the same.
func (m *model) resize(t *rapid.T) {
	n, next := m.one(t)
	next.Resources = sizes(5).Draw(t, "size")
	m.put(n, &next)
}

func (m *model) forget(t *rapid.T) {
	n, _ := m.one(t)
	m.put(n, nil)
}

func (m *model) limit(t *rapid.T) {
	p := rapid.SampledFrom([]compute.Project{"p", "q", compute.DefaultQuota}).Draw(t, "of")
	some := rapid.MapOf(rapid.SampledFrom(append([]compute.ResourceClass{compute.Instances}, classes...)),
		rapid.Int64Range(0, 12))
	m.limits[p] = compute.Quota{
		Limits: some.Draw(t, "limit"), Classes: rapid.MapOf(anyClass, rapid.Map(some,
			func(limits map[compute.ResourceClass]int64) compute.Resources { return limits })).Draw(t, "of classes"),
	}
}

func (m *model) unlimit(t *rapid.T) {
	delete(m.limits, rapid.SampledFrom([]compute.Project{"p", "q", compute.DefaultQuota}).Draw(t, "of"))
}

// reload drops the partition and reads it again.
func (m *model) reload(t *rapid.T) {
	m.ledger = NewIndex()
	for _, n := range rapid.Permutation(slices.Sorted(maps.Keys(m.records))).Draw(t, "order") {
		m.ledger.Replace(nil, m.records[n])
	}
}

// same compares all that can be asked, and that nothing is kept for nobody.
func (m *model) same(t *rapid.T) {
	want := map[compute.Project]map[compute.ResourceClass]string{}
	got := map[compute.Project]map[compute.ResourceClass]string{}
	for _, p := range []compute.Project{"p", "q"} {
		for _, of := range compute.AllQuotaParts() {
			name := compute.Project(fmt.Sprint(p, " ", of))
			for class, n := range m.uses(p, of) {
				put(want, name, class, n.String())
			}
			for class, n := range m.ledger.UsedOf(p, of) {
				put(got, name, class, fmt.Sprint(n))
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(m.ledger.used) != len(want) {
		t.Fatalf("%d parts in the ledger; used (-model +ledger):\n%s", len(m.ledger.used), diff)
	}
	p, most := anyProject.Draw(t, "who"), rapid.SampledFrom([]int64{5, 13, math.MaxInt64}).Draw(t, "how much")
	m.ask(p, anyClass.Draw(t, "class"), sizes(most).Draw(t, "what"))
}

func put(
	to map[compute.Project]map[compute.ResourceClass]string, p compute.Project, class compute.ResourceClass,
	n string,
) {
	if to[p] == nil {
		to[p] = map[compute.ResourceClass]string{}
	}
	to[p][class] = n
}
