// SPDX-License-Identifier: Apache-2.0

package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// A boot with a class is taken before its tier is there, goes to it, and repeated with another class is another boot.
func TestBootWithPriority(t *testing.T) {
	n := newNode(t)
	n.offer()
	boot := rest.Boot{ID: id1, Flavor: "m1.small", Name: "web", Priority: "high"}
	got := into[rest.Instance](n.do("POST", "/v1/instances", boot), 202)
	if got.Priority != "high" || got.Queue != "m1.small.priority-high" {
		t.Errorf("%+v", got)
	}
	if q := n.sentOne(); q.Boot.Priority() != compute.PriorityHigh {
		t.Errorf("%+v", q.Boot)
	}
	n.has(instance(id2, "db", compute.StateQueued, func(i *compute.Instance) {
		i.Boot.Rules = compute.RulesOf("", compute.Set{}, compute.PriorityLow)
		i.Boot = i.Boot.WithDefaults()
		i.Queue = i.Boot.Queue()
	}))
	p := n.do("POST", "/v1/instances",
		rest.Boot{ID: id2, Flavor: "m1.small", Name: "db"}).refused(409, compute.KindConflict)
	if !strings.Contains(p.Message, "priority") {
		t.Errorf("%s", p.Message)
	}
	n.do("POST", "/v1/instances", rest.Boot{Flavor: "m1.small", Priority: "urgent"}).refused(422, compute.KindInvalid)
	e := into[rest.Explanation](n.do("GET", "/v1/instances/"+string(id2)+"/explain", nil), 200)
	if !strings.Contains(e.Summary, "of priority low: it counts as 10 min younger") ||
		!strings.Contains(e.Summary, "is made") {
		t.Errorf("%s", e.Summary)
	}
	w := into[rest.Placement](n.do("GET", "/v1/explain?flavor=m1.small&priority=low", nil), 200)
	if w.Queue != "m1.small.priority-low" {
		t.Errorf("%+v", w)
	}
}

// Limits for a class are set and shown beside those for all, and say what a mix would use of them.
func TestQuotaOfAClass(t *testing.T) {
	n := newNode(t)
	n.offer()
	n.has(instance(id1, "a", compute.StateActive, func(i *compute.Instance) {
		i.Boot.Rules = compute.RulesOf("", compute.Set{}, compute.PriorityHigh)
	}))
	got := into[rest.QuotaView](
		n.do("PUT", "/v1/quotas/default", `{"limits":{"VCPU":5},"priorities":{"high":{"INSTANCES":1}}}`), 200)
	i := slices.IndexFunc(got.Priorities, func(p rest.QuotaPriority) bool { return p.Priority == "high" })
	if i < 0 || !slices.ContainsFunc(got.Priorities[i].Resources, func(r rest.QuotaResource) bool {
		return r.Class == compute.Instances && r.Used == 1 && r.Limit != nil && *r.Limit == 1 && r.From == "project"
	}) {
		t.Errorf("%+v", got)
	}
	ask := rest.Mix{Boot: rest.Boot{Priority: "high"}, Flavor: "m1.small"}
	over := into[rest.Placements](n.do("POST", "/v1/placements", ask), 200)
	if over.Admitted != 0 || over.Refused == nil || over.Refused.Quota.Priority != "high" {
		t.Errorf("%+v", over)
	}
	ask.Priority = ""
	if free := into[rest.Placements](n.do("POST", "/v1/placements", ask), 200); free.Admitted != 1 || free.Refused != nil {
		t.Errorf("%+v", free)
	}
	for _, body := range []string{`{"limits":{},"priorities":{"urgent":{"VCPU":1}}}`,
		`{"limits":{},"priorities":{"low":{"VCPU":-1}}}`} {
		n.do("PUT", "/v1/quotas/default", body).refused(422, compute.KindInvalid)
	}
}
