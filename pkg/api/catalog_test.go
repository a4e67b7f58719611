// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func TestFlavors(t *testing.T) {
	n := newNode(t)
	if got := into[rest.Flavors](n.do("GET", "/v1/flavors", nil), 200); got.Items == nil || len(got.Items) != 0 {
		t.Errorf("an empty list is a list: %+v", got)
	}
	n.offer()
	small := rest.FlavorView{
		Flavor: rest.Flavor{
			Name: "m1.small", Capabilities: []compute.AxisName{"gpu"},
			Resources: compute.Resources{compute.VCPU: 1, compute.MemoryMB: 2048, compute.DiskGB: 20},
		},
		Queues: rest.QueueCounts{Wanted: 3, Open: 3},
	}
	equal(t, "shown", small, into[rest.FlavorView](n.do("GET", "/v1/flavors/m1.small", nil), 200))
	equal(t, "listed", rest.Flavors{Items: []rest.FlavorView{small}},
		into[rest.Flavors](n.do("GET", "/v1/flavors", nil), 200))

	n.Queues([]wire.Record{
		wire.EncodeQueue(compute.Queue{Name: "m1.small", Flavor: "m1.small", State: compute.QueueClosed}),
		wire.EncodeQueue(compute.Queue{Name: "m1.small.gpu-a100", Flavor: "m1.small", Error: "no broker"}),
		wire.Tombstone(wire.KeyQueue("m1.small.gpu-h100")),
	}, true)
	small.Queues = rest.QueueCounts{Wanted: 3, Closed: 1, Failed: 1}
	equal(t, "its queues", small, into[rest.FlavorView](n.do("GET", "/v1/flavors/m1.small", nil), 200))

	big := rest.Flavor{
		Name: "big", Capabilities: []compute.AxisName{"gpu", "disk"},
		Resources: compute.Resources{compute.VCPU: 8, compute.MemoryMB: 1024, compute.DiskGB: 1},
	}
	change := into[rest.Change](n.do("POST", "/v1/flavors?dry_run=true", big), 200)
	equal(t, "dry run", rest.Change{DryRun: true, Added: 6, Total: 9, Limit: 20000}, change)
	n.do("GET", "/v1/flavors/big", nil).refused(404, compute.KindNotFound)
	change = into[rest.Change](n.do("POST", "/v1/flavors", big), 200)
	equal(t, "added", rest.Change{Added: 6, Total: 9, Limit: 20000}, change)
	change = into[rest.Change](n.do("DELETE", "/v1/flavors/big", nil), 200)
	equal(t, "removed", rest.Change{Removed: 6, Total: 3, Limit: 20000}, change)
	n.do("DELETE", "/v1/flavors/big", nil).refused(404, compute.KindNotFound)

	n.has(instance(id1, "web", compute.StateQueued))
	n.do("DELETE", "/v1/flavors/m1.small", nil).refused(409, compute.KindConflict)
	n.has(instance(id1, "web", compute.StateActive))
	into[rest.Change](n.do("DELETE", "/v1/flavors/m1.small", nil), 200)
}

func TestFlavorRefusals(t *testing.T) {
	n := newNode(t)
	n.offer()
	for name, c := range map[string]struct {
		body   string
		status int
		kind   compute.Kind
	}{
		"no resources":    {`{"name":"x"}`, 422, compute.KindInvalid},
		"empty resources": {`{"name":"x","resources":{}}`, 422, compute.KindInvalid},
		"name": {
			`{"name":"X","resources":{"VCPU":1,"MEMORY_MB":1,"DISK_GB":1}}`, 422, compute.KindInvalid,
		},
		"amount zero": {
			`{"name":"x","resources":{"VCPU":0,"MEMORY_MB":1,"DISK_GB":1}}`, 422, compute.KindInvalid,
		},
		"amount negative": {
			`{"name":"x","resources":{"VCPU":-1,"MEMORY_MB":1,"DISK_GB":1}}`, 422, compute.KindInvalid,
		},
		"amount a fraction": {
			`{"name":"x","resources":{"VCPU":1.5,"MEMORY_MB":1,"DISK_GB":1}}`, 422, compute.KindInvalid,
		},
		"class": {`{"name":"x","resources":{"CPU":1}}`, 422, compute.KindInvalid},
		"trait": {
			`{"name":"x","resources":{"VCPU":1,"MEMORY_MB":1,"DISK_GB":1},"required":["avx"]}`, 422,
			compute.KindInvalid,
		},
		"capability unknown": {
			`{"name":"x","resources":{"VCPU":1,"MEMORY_MB":1,"DISK_GB":1},"capabilities":["zone"]}`, 404,
			compute.KindNotFound,
		},
		"there, different": {
			`{"name":"m1.small","resources":{"VCPU":2,"MEMORY_MB":1,"DISK_GB":1}}`, 409, compute.KindConflict,
		},
	} {
		t.Run(name, func(t *testing.T) {
			n.TB = t
			n.do("POST", "/v1/flavors", c.body).refused(c.status, c.kind)
		})
	}
}

func TestCapabilities(t *testing.T) {
	n := newNode(t)
	n.offer()
	gpu := rest.Capability{Axis: "gpu", Values: []rest.CapabilityValue{
		{Value: "a100", Requires: []compute.Trait{"CUSTOM_GPU"}, Consumes: compute.Resources{"CUSTOM_A100": 1}},
		{Value: "h100"},
	}}
	equal(t, "shown", gpu, into[rest.Capability](n.do("GET", "/v1/capabilities/gpu", nil), 200))
	list := into[rest.Capabilities](n.do("GET", "/v1/capabilities", nil), 200)
	if len(list.Items) != 2 || list.Items[0].Axis != "disk" || list.Items[1].Axis != "gpu" {
		t.Errorf("listed %+v", list)
	}
	more := rest.Capability{Axis: "gpu", Values: []rest.CapabilityValue{{Value: "b200"}}}
	equal(t, "one more value", rest.Change{DryRun: true, Added: 1, Total: 4, Limit: 20000},
		into[rest.Change](n.do("POST", "/v1/capabilities?dry_run=true", more), 200))
	into[rest.Change](n.do("DELETE", "/v1/capabilities/disk", nil), 200)
	n.do("DELETE", "/v1/capabilities/gpu", nil).refused(409, compute.KindConflict)
	n.do("GET", "/v1/capabilities/disk", nil).refused(404, compute.KindNotFound)
	for name, body := range map[string]string{
		"axis": `{"axis":"g-p","values":[{"value":"a"}]}`, "no values": `{"axis":"x","values":[]}`,
		"value":  `{"axis":"x","values":[{"value":"A"}]}`,
		"twice":  `{"axis":"x","values":[{"value":"a"},{"value":"a"}]}`,
		"trait":  `{"axis":"x","values":[{"value":"a","requires":["t"]}]}`,
		"amount": `{"axis":"x","values":[{"value":"a","consumes":{"CUSTOM_X":0}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			n.TB = t
			n.do("POST", "/v1/capabilities", body).refused(422, compute.KindInvalid)
		})
	}
}

func limit(n int64) *int64 { return &n }

func TestQuotas(t *testing.T) {
	n := newNode(t)
	set := func(p string, body string) rest.QuotaView {
		return into[rest.QuotaView](n.do("PUT", "/v1/quotas/"+p, body), 200)
	}
	set("_default", `{"limits":{"INSTANCES":10,"VCPU":20}}`)
	n.has(
		instance(id1, "a", compute.StateActive),
		instance(id2, "b", compute.StateQueued),
		instance(id3, "c", compute.StateError), // gives its quota back
		instance("44444444-4444-4444-8444-444444444444", "d", compute.StateActive, func(i *compute.Instance) {
			i.Project = "other"
		}),
	)
	got := set("default", `{"limits":{"VCPU":5,"CUSTOM_A100":1}}`)
	want := rest.QuotaView{Project: "default", Resources: []rest.QuotaResource{
		{Class: "CUSTOM_A100", Limit: limit(1), From: "project"},
		{Class: "DISK_GB", Used: 40, From: "none"},
		{Class: "INSTANCES", Used: 2, Limit: limit(10), From: "default"},
		{Class: "MEMORY_MB", Used: 4096, From: "none"},
		{Class: "VCPU", Used: 2, Limit: limit(5), From: "project"},
	}, Weight: 1, WeightFrom: "none"}
	equal(t, "set", want, got)
	equal(t, "shown", want, into[rest.QuotaView](n.do("GET", "/v1/quotas/default", nil), 200))
	all := into[rest.Quotas](n.do("GET", "/v1/quotas", nil), 200)
	var projects []compute.Project
	for _, q := range all.Items {
		projects = append(projects, q.Project)
	}
	equal(t, "listed", []compute.Project{"_default", "default", "other"}, projects)
	heavy := into[rest.QuotaView](n.do("PUT", "/v1/quotas/default", `{"limits":{},"weight":3}`), 200)
	if heavy.Weight != 3 || heavy.WeightFrom != "project" {
		t.Errorf("%+v", heavy)
	}
	n.do("PUT", "/v1/quotas/default", `{"limits":{},"weight":101}`).refused(422, compute.KindInvalid)
	n.do("PUT", "/v1/quotas/default", `{"limits":{"CPU":1}}`).refused(422, compute.KindInvalid)
	n.do("PUT", "/v1/quotas/default", `{"limits":{"VCPU":-1}}`).refused(422, compute.KindInvalid)
	n.do("PUT", "/v1/quotas/default", `{}`).refused(422, compute.KindInvalid)
	n.do("GET", "/v1/quotas/No", nil).refused(422, compute.KindInvalid)
	n.do("PUT", "/v1/quotas/No", `{"limits":{}}`).refused(422, compute.KindInvalid)
}

// TestChangedQuotas: what is not named stays, and null takes a limit out.
func TestChangedQuotas(t *testing.T) {
	n := newNode(t)
	own := func() (q compute.Quota) { q, _ = n.config.Catalog.Quota("web"); return q }
	one := compute.Quota{Project: "web", Limits: compute.Resources{compute.VCPU: 1}, Classes: compute.ClassLimits{}}
	for _, step := range []struct {
		body string
		want func(*compute.Quota)
	}{
		{`{"limits":{"VCPU":1}}`, func(*compute.Quota) {}},
		{`{"limits":{"INSTANCES":5}}`, func(q *compute.Quota) { q.Limits[compute.Instances] = 5 }},
		{`{"weight":3}`, func(q *compute.Quota) { q.Weight = 3 }},
		{`{"priorities":{"high":{"VCPU":4,"DISK_GB":7}}}`, func(q *compute.Quota) {
			q.Classes[compute.PriorityHigh] = compute.Resources{compute.VCPU: 4, compute.DiskGB: 7}
		}},
		{`{"limits":{"VCPU":null,"DISK_GB":null},"priorities":{"high":{"DISK_GB":null}}}`, func(q *compute.Quota) {
			delete(q.Limits, compute.VCPU)
			delete(q.Classes[compute.PriorityHigh], compute.DiskGB)
		}},
		{`{}`, func(*compute.Quota) {}},
	} {
		step.want(&one)
		into[rest.QuotaView](n.do("PATCH", "/v1/quotas/web", step.body), 200)
		if !own().Same(one) {
			t.Errorf("after %s: %+v, want %+v", step.body, own(), one)
		}
	}
	for _, body := range []string{
		`{"limits":{"VCPU":-1}}`, `{"weight":101}`, `{"priorities":{"urgent":{"VCPU":1}}}`, `{"priorities":{"":{"VCPU":1}}}`,
		`{"limits":{"CPU":1}}`,
	} {
		n.do("PATCH", "/v1/quotas/web", body).refused(422, compute.KindInvalid)
	}
	for body, field := range map[string]string{
		`{"weight":null}`: "weight", `{"limits":null}`: "limits", `{"priorities": null, "weight": 3}`: "priorities",
		`{"priorities":{"high":null}}`: "priorities.high",
	} {
		if p := n.do("PATCH", "/v1/quotas/web", body).refused(422, compute.KindInvalid); p.Field != field {
			t.Errorf("%s: %+v", body, p)
		}
		if !own().Same(one) {
			t.Errorf("after %s: %+v, want %+v", body, own(), one)
		}
	}
	into[rest.QuotaView](n.do("PATCH", "/v1/quotas/web",
		`{"limits":{"INSTANCES":null},"weight":0,"priorities":{"high":{"VCPU":null}}}`), 200)
	if q, has := n.config.Catalog.Quota("web"); has {
		t.Errorf("nothing is left, and there is %+v", q)
	}
}

// TestRemoveValues: some values of a capability go and the others stay; while instances wait for one of them only with
// drain. What cannot be meant so never removes the capability, which no flavor has here.
func TestRemoveValues(t *testing.T) {
	n := newNode(t)
	n.offer()
	removes := func(query string, status int) answer {
		t.Helper()
		a := n.do("DELETE", "/v1/capabilities/"+query, nil)
		if a.status != status {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
		return a
	}
	has := func(axis string, want ...compute.AxisValue) {
		t.Helper()
		var got []compute.AxisValue
		for _, v := range into[rest.Capability](n.do("GET", "/v1/capabilities/"+axis, nil), 200).Values {
			got = append(got, v.Value)
		}
		equal(t, "values of "+axis, want, got)
	}
	n.has(instance(id1, "web", compute.StateQueued, func(i *compute.Instance) {
		i.Boot.With, i.Queue = compute.Choices{"gpu": "a100"}, "m1.small.gpu-a100"
	}))
	p := removes("gpu?value=a100", 409).refused(409, compute.KindConflict)
	if !strings.Contains(p.Detail, "m1.small.gpu-a100 1") || !strings.Contains(p.Remedy, "--drain") {
		t.Errorf("%+v", p)
	}
	would := into[rest.Change](removes("gpu?value=a100&drain=true&dry_run=true", 200), 200)
	equal(t, "dry run", rest.Change{DryRun: true, Removed: 1, Total: 2, Limit: 20000}, would)
	has("gpu", "a100", "h100")
	removes("gpu?value=a100&value=h100&drain=true", 409) // it would have none left
	removes("gpu?value=b200", 404)
	did := into[rest.Change](removes("gpu?value=a100&drain=true", 200), 200)
	equal(t, "removed", rest.Change{Removed: 1, Total: 2, Limit: 20000}, did)
	has("gpu", "h100")

	more := rest.Capability{Axis: "net", Values: []rest.CapabilityValue{{Value: "a"}, {Value: "b"}, {Value: "c"}}}
	into[rest.Change](n.do("POST", "/v1/capabilities", more), 200)
	for _, query := range []string{"?value=", "?value=&value=a", "?value=%zz", "?value=a;b", "?values=a", "?drain=true"} {
		removes("net"+query, 422)
	}
	has("net", "a", "b", "c")
	removes("net?value=c&value=a", 200)
	has("net", "b")
}

// onSync is what another node has changed, which this one hears of when it catches up.
type onSync func(context.Context) error

func (f onSync) Sync(ctx context.Context) error { return f(ctx) }

// TestAnotherNodeHasJustMadeIt: what this node does not find in the catalog may have been made at another node a moment
// ago, and a request that comes behind that finds it. What there is takes no time to find, and what there is not, once.
func TestAnotherNodeHasJustMadeIt(t *testing.T) {
	web := compute.Group{Project: "default", Name: "web", Policy: compute.Affinity}
	for name, c := range map[string]struct {
		method, target string
		body           any
		status         int
	}{
		"boot":              {"POST", "/v1/instances", rest.Boot{Flavor: "m1.small", Group: "web"}, 202},
		"boot of a choice":  {"POST", "/v1/instances", `{"flavor":"m1.small","with":{"gpu":"a100"}}`, 202},
		"reserve":           {"POST", "/v1/reservations", `{"name":"r","flavor":"m1.small","for":"1h"}`, 202},
		"ask":               {"POST", "/v1/placements", `{"flavor":"m1.small"}`, 200},
		"show a group":      {"GET", "/v1/groups/web", nil, 200},
		"show a flavor":     {"GET", "/v1/flavors/m1.small", nil, 200},
		"show a capability": {"GET", "/v1/capabilities/gpu", nil, 200},
	} {
		t.Run(name, func(t *testing.T) {
			var n *node
			asked := 0
			n = nodeThat(t, func(cfg *Config) {
				cfg.Offered = onSync(func(ctx context.Context) error {
					if asked++; asked > 1 {
						return nil
					}
					n.offer()
					return testCatalog{n.catalog}.SetGroup(ctx, web, true)
				})
			}).read()
			for range 2 {
				if a := n.do(c.method, c.target, c.body); a.status != c.status && a.status != 200 {
					t.Errorf("%d %s", a.status, a.body)
				}
			}
			if asked != 1 {
				t.Errorf("it caught up %d times", asked)
			}
			n.do("POST", "/v1/instances", rest.Boot{Flavor: "m1.small", Group: "none"}).refused(404, compute.KindNotFound)
			n.do("GET", "/v1/groups/none", nil).refused(404, compute.KindNotFound)
			n.do("GET", "/v1/flavors/none", nil).refused(404, compute.KindNotFound)
			if asked != 4 {
				t.Errorf("it caught up %d times with what is not there", asked)
			}
		})
	}
	n := nodeThat(t, func(cfg *Config) {
		cfg.Offered = onSync(func(context.Context) error { return errors.New("no leader") })
	}).read()
	n.do("POST", "/v1/instances", rest.Boot{Flavor: "none"}).refused(503, compute.KindUnavailable)
}
