// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestQuotas(t *testing.T) {
	q := func(edit func(*Quota)) Quota {
		q := Quota{Project: "p", Limits: Resources{VCPU: 1}, Classes: ClassLimits{PriorityLow: {VCPU: 2}}, Weight: 3}
		edit(&q)
		return q
	}
	own := q(func(*Quota) {})
	if !own.Same(q(func(*Quota) {})) {
		t.Error("a quota is not itself")
	}
	for what, edit := range map[string]func(*Quota){
		"project": func(q *Quota) { q.Project = "o" }, "limits": func(q *Quota) { q.Limits = Resources{VCPU: 2} },
		"classes": func(q *Quota) { q.Classes = ClassLimits{PriorityLow: {VCPU: 3}} },
		"weight":  func(q *Quota) { q.Weight = 1 },
	} {
		if own.Same(q(edit)) {
			t.Errorf("another %s is the same", what)
		}
	}
	refuses(t, "weight", CheckWeight(MaxWeight), "")
	refuses(t, "weight", CheckWeight(MaxWeight+1), "weight")
	for _, c := range []struct{ own, all, want uint32 }{{0, 0, 1}, {0, 2, 2}, {3, 2, 3}} {
		if got := WeightOf(Quota{Weight: c.own}, Quota{Weight: c.all}); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	if own.Of(QuotaWhole)[VCPU] != 1 || own.Of(QuotaOf(PriorityLow))[VCPU] != 2 || own.Of(QuotaOf(PriorityHigh)) != nil {
		t.Error("limits of parts")
	}
}

func TestClassLimits(t *testing.T) {
	l := ClassLimits{PriorityLow: {VCPU: 1}, PriorityHigh: {}}
	tidy := l.Tidy()
	if diff := cmp.Diff(ClassLimits{PriorityLow: {VCPU: 1}}, tidy); diff != "" {
		t.Error(diff)
	}
	if tidy[PriorityLow][VCPU] = 2; l[PriorityLow][VCPU] != 1 {
		t.Error("a copy is the same")
	}
	if none := (ClassLimits{PriorityLow: nil}).Tidy(); none != nil {
		t.Errorf("%v", none)
	}
	if two := (ClassLimits{PriorityLow: {VCPU: 1}, PriorityHigh: {VCPU: 2}}).Tidy(); len(two) != 2 {
		t.Errorf("%v", two)
	}
}

func TestQuotaParts(t *testing.T) {
	for _, p := range Priorities() {
		if got, is := QuotaOf(p).Priority(); got != p || !is {
			t.Errorf("the part of %s is that of %s", p, got)
		}
		if diff := cmp.Diff([2]QuotaPart{QuotaWhole, QuotaOf(p)}, QuotaParts(p)); diff != "" {
			t.Error(diff)
		}
	}
	if _, is := QuotaWhole.Priority(); is {
		t.Error("the whole is a class")
	}
	want := []QuotaPart{QuotaWhole, QuotaOf(PriorityHigh), QuotaOf(PriorityNormal), QuotaOf(PriorityLow)}
	if diff := cmp.Diff(want, AllQuotaParts()); diff != "" {
		t.Error(diff)
	}
	a := PartAmounts{}
	a.Add(1, Resources{VCPU: 2}, 3)
	a.Add(1, Resources{VCPU: 1}, 1)
	b := a.Clone()
	b.Add(1, Resources{VCPU: 1}, 1)
	if diff := cmp.Diff(PartAmounts{1: {VCPU: 7}}, a); diff != "" || b[1][VCPU] != 8 {
		t.Errorf("%s, and of the copy %v", diff, b)
	}
}

func TestValuesOfACapability(t *testing.T) {
	c := Capability{Axis: "gpu", Values: []CapabilityValue{{Value: "a"}, {Value: "b", Requires: []Trait{"B"}}}}
	if v, is := c.Value("b"); !is || v.Value != "b" || len(v.Requires) != 1 {
		t.Errorf("%+v, %t", v, is)
	}
	if v, is := c.Value("c"); is || v.Value != "" {
		t.Errorf("%+v, %t", v, is)
	}
}
