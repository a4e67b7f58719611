// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

const (
	id4 = compute.InstanceID("44444444-4444-4444-8444-444444444444")
	id5 = compute.InstanceID("55555555-5555-4555-8555-555555555555")
)

// spreadNode has m1.small with gpu, which is a100 or h100, and a group that spreads over it.
func spreadNode(t *testing.T, rule string) *node {
	n := newNode(t)
	n.offer()
	into[rest.GroupView](n.do("POST", "/v1/groups", `{"name":"web","policy":"none","spread":"gpu"`+rule+`}`), 200)
	return n
}

// member is an instance as a conductor has it: with a value that it chose, or that the boot did.
func member(id compute.InstanceID, state compute.State, gpu compute.AxisValue, chosen bool) compute.Instance {
	return instance(id, string(id[:4]), state, func(i *compute.Instance) {
		i.Boot = i.Boot.Having("gpu", gpu)
		i.Boot.Rules = &compute.PlacementRules{Group: "web", Spread: "gpu", Chosen: chosen}
		i.Queue = compute.NameQueue("m1.small", i.Boot.With)
	})
}

// TestSpreadGroupIsShown: the rule, and members by value, those too whose value the catalog does not have.
func TestSpreadGroupIsShown(t *testing.T) {
	n := spreadNode(t, `,"max_skew":1`)
	n.has(member(id1, compute.StateActive, "a100", true), member(id2, compute.StateQueued, "a100", true),
		member(id3, compute.StateDeleting, "h100", false), member(id4, compute.StateError, "h100", true),
		member(id5, compute.StateQueued, "old", false))
	v := into[rest.GroupView](n.do("GET", "/v1/groups/web", nil), 200)
	equal(t, "values", []rest.GroupValue{
		{Value: "a100", Members: 2, Placed: 1, Full: true}, {Value: "h100", Members: 1, Placed: 1},
		{Value: "old", Members: 1},
	}, v.Values)
	if v.Spread != "gpu" || v.Skew != 1 || v.Policy != "none" || v.Rule != "spread over gpu with a skew of at most 1" ||
		v.Members != 4 || v.Breaks {
		t.Errorf("%+v", v)
	}
	list := into[rest.Groups](n.do("GET", "/v1/groups", nil), 200)
	if len(list.Items) != 1 || len(list.Items[0].Values) != 3 || list.Items[0].Domains != nil {
		t.Errorf("the list has %+v", list)
	}
	into[rest.GroupView](n.do("PUT", "/v1/groups/web", `{"policy":"anti-affinity"}`), 200)
	if v := into[rest.GroupView](n.do("GET", "/v1/groups/web", nil), 200); v.Values != nil ||
		v.Spread != "" || v.Skew != 0 {
		t.Errorf("without a spread it is %+v", v)
	}
}

// TestSpreadRefusals: what no member can be is refused with what to do, before it is written.
func TestSpreadRefusals(t *testing.T) {
	n := spreadNode(t, "")
	n.sells("m1.plain", 1)
	n.hears(offering("h1", 8))
	for _, c := range []struct {
		body, field string
		code        compute.ReasonCode
		says        string
	}{
		{`{"flavor":"m1.plain","group":"web"}`, "with", compute.NoSuchCapability, "flavor m1.plain is not offered with it"},
		{`{"flavor":"m1.small","group":"web","host":"h1"}`, "with", compute.GroupRule, "--with gpu=a100"},
		{`{"flavor":"m1.none","group":"web"}`, "flavor", compute.NoSuchFlavor, "m1.none"},
	} {
		status, kind := 422, compute.KindInvalid
		if c.field == "flavor" {
			status, kind = 404, compute.KindNotFound
		}
		p := n.do("POST", "/v1/instances", c.body).refused(status, kind)
		if p.Field != c.field || p.Reason == nil || p.Reason.Code != c.code || !strings.Contains(p.Detail+p.Remedy, c.says) {
			t.Errorf("%s: %+v", c.body, p)
		}
	}
	if len(n.published()) > 0 {
		t.Error("what was refused is written")
	}
	into[rest.Instance](n.do("POST", "/v1/instances",
		`{"flavor":"m1.small","group":"web","host":"h1","with":{"gpu":"h100"}}`), 202)
	for _, gpu := range []compute.AxisValue{"a100", "h100"} {
		q := compute.Queue{Name: compute.NameQueue("m1.small", compute.Choices{"gpu": gpu}), Flavor: "m1.small",
			State:   compute.QueueClosed,
			Choices: compute.Choices{"gpu": gpu}}
		n.Queues([]wire.Record{wire.EncodeQueue(q)}, true)
		answer := n.do("POST", "/v1/instances", `{"flavor":"m1.small","group":"web"}`)
		if gpu == "a100" {
			into[rest.Instance](answer, 202)
		} else if p := answer.refused(422, compute.KindInvalid); p.Reason == nil ||
			p.Reason.Code != compute.QueueClosedReason {
			t.Errorf("with all queues closed: %+v", p)
		}
	}
}

// TestSpreadRepeats: a boot whose value a conductor chose is the same as it was asked for, and no other, whatever else
// became of it.
func TestSpreadRepeats(t *testing.T) {
	const asked = `{"id":"11111111-1111-4111-8111-111111111111","name":"1111","flavor":"m1.small","group":"web"%s}`
	for _, c := range []struct {
		chosen bool
		with   string
		status int
	}{
		{true, ``, 202}, {true, `,"with":{}`, 202}, {true, `,"with":{"gpu":"a100"}`, 409},
		{true, `,"with":{"gpu":"h100"}`, 409},
		{false, ``, 409}, {false, `,"with":{"gpu":"a100"}`, 202}, {false, `,"with":{"gpu":"h100"}`, 409},
	} {
		for _, change := range []func(*compute.Instance){
			func(*compute.Instance) {},
			func(i *compute.Instance) { i.BootedAs, i.Boot.Name = i.Boot.Fingerprint(), "another" },
			func(i *compute.Instance) { i.State, i.EndedAt = compute.StateError, start },
		} {
			n := spreadNode(t, "")
			is := member(id1, compute.StateQueued, "a100", c.chosen)
			change(&is)
			n.has(is)
			if a := n.do("POST", "/v1/instances", fmt.Sprintf(asked, c.with)); a.status != c.status {
				t.Errorf("chosen: %t, repeated with %q in %s: %d %s", c.chosen, c.with, is.State, a.status, a.body)
			}
			if len(n.published()) > 0 {
				t.Error("it is written again")
			}
		}
	}
}

// TestSpreadPlacement: what would become of a boot is said for the value that it would get.
func TestSpreadPlacement(t *testing.T) {
	n := spreadNode(t, `,"max_skew":1`)
	n.has(member(id1, compute.StateActive, "a100", true))
	p := n.places(`{"flavor":"m1.small","group":"web"}`)
	if got := p.Kinds[0]; got.Queue != "m1.small.gpu-h100" || got.With["gpu"] != "h100" {
		t.Errorf("it would get %v in %s", got.With, got.Queue)
	}
	if got := n.places(`{"flavor":"m1.small","group":"web","count":2}`).Kinds[0]; got.Queue != "m1.small" {
		t.Errorf("of two each may get another value, and it is %s", got.Queue)
	}
	host := offering("h1", 8)
	host.Inventory.Traits = []compute.Trait{"CUSTOM_GPU"}
	host.Inventory.Totals["CUSTOM_A100"], host.Free["CUSTOM_A100"] = 4, 4
	n.hears(host)
	got := n.places(`{"flavor":"m1.small","group":"web","with":{"gpu":"a100"}}`).Kinds[0]
	if got.Starts || !strings.Contains(got.Summary, "gpu a100 has 1 of them, h100 has 0") {
		t.Errorf("by the skew it would wait: %+v", got)
	}
}

// TestChangeGroup: what is left out of a change, or null, stays; what cannot be is refused, and changes nothing.
func TestChangeGroup(t *testing.T) {
	n := spreadNode(t, `,"max_skew":1`)
	rule := func(v rest.GroupView) rest.GroupRule { return v.GroupRule }
	want := rest.GroupRule{Policy: "none", Over: "host", Spread: "gpu", Skew: 1}
	for _, step := range []struct {
		body string
		then func(*rest.GroupRule)
	}{
		{`{"policy":"anti-affinity"}`, func(r *rest.GroupRule) { r.Policy, r.Most = "anti-affinity", 1 }},
		{`{"max_skew":2,"policy":null}`, func(r *rest.GroupRule) { r.Skew = 2 }},
		{`{"max_per_host":3,"over":"gpu"}`, func(r *rest.GroupRule) { r.Most, r.Over = 3, "gpu" }},
		{`{}`, func(*rest.GroupRule) {}},
		{`{"max_per_host":0}`, func(r *rest.GroupRule) { r.Most = 1 }},
		{`{"spread":""}`, func(r *rest.GroupRule) { r.Spread, r.Skew = "", 0 }},
		{`{"policy":"affinity"}`, func(r *rest.GroupRule) { r.Policy, r.Most = "affinity", 0 }},
		{`{"policy":"soft-affinity","over":"host"}`, func(r *rest.GroupRule) { r.Policy, r.Over = "soft-affinity", "host" }},
		{`{"over":"gpu","policy":"anti-affinity"}`, func(r *rest.GroupRule) {
			r.Policy, r.Most, r.Over = "anti-affinity", 1, "gpu"
		}},
	} {
		step.then(&want)
		equal(t, step.body, want, rule(into[rest.GroupView](n.do("PATCH", "/v1/groups/web", step.body), 200)))
	}
	for body, field := range map[string]string{
		`{"policy":"soft-anti-affinity"}`: "over", `{"policy":"none"}`: "policy", `{"max_skew":1}`: "max_skew",
		`{"over":"Gpu"}`: "capability", `{"policy":"apart"}`: "policy", `{"max_per_host":10001}`: "max_per_host",
	} {
		p := n.do("PATCH", "/v1/groups/web", body).refused(422, compute.KindInvalid)
		if p.Field != field {
			t.Errorf("%s: refused for %q", body, p.Field)
		}
		if field == "over" && !strings.Contains(p.Remedy, "give host with soft-anti-affinity") {
			t.Errorf("%s: %s", body, p.Remedy)
		}
	}
	n.do("PATCH", "/v1/groups/web", `{"over":"rack"}`).refused(404, compute.KindNotFound)
	gone := n.do("PATCH", "/v1/groups/gone", `{"max_skew":1}`).refused(404, compute.KindNotFound)
	if gone.Reason == nil || gone.Reason.Code != compute.NoSuchGroup {
		t.Errorf("of no group: %+v", gone)
	}
	equal(t, "at last", want, rule(into[rest.GroupView](n.do("GET", "/v1/groups/web", nil), 200)))
}

// TestListOfAGroup: its members, and what has ended of those that were booted into it where such is shown; by the index
// of members where that has them all.
func TestListOfAGroup(t *testing.T) {
	n := spreadNode(t, "")
	n.has(member(id1, compute.StateActive, "a100", true), member(id2, compute.StateQueued, "a100", true),
		member(id3, compute.StateDeleted, "h100", false), member(id4, compute.StateError, "h100", true),
		instance(id5, "none", compute.StateError))
	for query, want := range map[string]string{
		"group=web":                          "1111 2222 4444",
		"group=web&all=true":                 "1111 2222 3333 4444",
		"group=web&state=deleted":            "3333",
		"group=web&state=error&state=queued": "2222 4444",
		"group=web&state=active&name=2222":   "",
		"group=web&name=2222":                "2222",
		"group=other":                        "",
		"group=web&project=other":            "",
	} {
		if got := names(n.list(query)); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if p := n.do("GET", "/v1/instances?group=No!", nil).refused(422, compute.KindInvalid); p.Field != "group" {
		t.Errorf("%+v", p)
	}
	for i := range 9 {
		id := compute.InstanceID(fmt.Sprintf("%08d-7777-4777-8777-777777777777", i))
		n.has(instance(id, "another", compute.StateActive))
	}
	work := 0
	n.views.instances.mu.RLock()
	defer n.views.instances.mu.RUnlock()
	for _, s := range n.views.instances.smallestSources(instanceQuery{
		project: "default", group: "web", states: []compute.State{compute.StateActive},
	}) {
		work += s.size
	}
	if work > 2 {
		t.Errorf("%d entries are looked at for members that run", work)
	}
}
