// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// TestSetIsOneRecord: the boots of a set are in one record, so none can be lost without the others, and each is shown at
// once.
func TestSetIsOneRecord(t *testing.T) {
	n := newNode(t)
	n.offer()
	got := into[rest.Instances](n.do("POST", "/v1/sets?project=web",
		`{"boots":[{"name":"a","flavor":"m1.small"},{"name":"b","flavor":"m1.small","with":{"gpu":"a100"}}]}`), 202).Items
	recs := n.published()
	if len(recs) != 1 || len(got) != 2 || recs[0].Partition != wire.Partition("web", 4) {
		t.Fatalf("%d records, %d instances", len(recs), len(got))
	}
	sent, err := wire.DecodeRequest(recs[0])
	if err != nil || sent.Op != compute.OpBootSet || sent.Project != "web" || sent.Instance != got[0].ID {
		t.Fatalf("%+v, %v", sent, err)
	}
	for i, b := range sent.Set {
		shown := into[rest.Instance](n.do("GET", "/v1/instances/"+string(got[i].ID)+"?project=web", nil), 200)
		want := &rest.InstanceSet{ID: got[0].ID, Size: 2}
		if b.Instance != got[i].ID || shown.State != "accepted" || shown.Name != b.Boot.Name || *shown.Set != *want {
			t.Errorf("boot %d is %+v, shown as %+v", i, b, shown)
		}
	}
}

// What is booted into a group is a set of members of it; a boot that names another group is refused.
func TestBootGroup(t *testing.T) {
	n := newNode(t)
	n.offer()
	into[rest.GroupView](n.do("POST", "/v1/groups?project=web", `{"name":"near","policy":"affinity"}`), 200)
	n.do("POST", "/v1/groups/near/boot?project=web",
		`{"boots":[{"flavor":"m1.small"},{"flavor":"m1.small","group":"apart"}]}`).refused(422, compute.KindInvalid)
	n.do("POST", "/v1/groups/none/boot?project=web",
		`{"boots":[{"flavor":"m1.small"},{"flavor":"m1.small"}]}`).refused(404, compute.KindNotFound)
	got := into[rest.Instances](n.do("POST", "/v1/groups/near/boot?project=web",
		`{"boots":[{"name":"a","flavor":"m1.small"},{"name":"b","flavor":"m1.small","group":"near"}]}`), 202).Items
	recs := n.published()
	sent, err := wire.DecodeRequest(recs[len(recs)-1])
	if err != nil || sent.Op != compute.OpBootSet || len(got) != 2 || len(sent.Set) != 2 {
		t.Fatalf("%+v, %v", sent, err)
	}
	for i, b := range sent.Set {
		if b.Boot.Group() != "near" || got[i].Group != "near" {
			t.Errorf("boot %d is %+v, shown as %+v", i, b, got[i])
		}
	}
}

func TestSetAgain(t *testing.T) {
	n := newNode(t)
	n.offer()
	ask := func(body, key string) answer {
		req := httptest.NewRequest("POST", "/v1/sets", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		if key != "" {
			req.Header.Set(keyHeader, key)
		}
		return n.ask(req)
	}
	body := `{"boots":[{"name":"a","flavor":"m1.small"},{"name":"b","flavor":"m1.small"}]}`
	first := into[rest.Instances](ask(body, "deploy"), 202)
	for i, one := range first.Items {
		if want := wire.KeyedInstance("default", fmt.Sprintf("deploy-%d", i+1)); one.ID != want {
			t.Errorf("instance %d is %s, its key stands for %s", i, one.ID, want)
		}
	}
	equal(t, "the same again", first, into[rest.Instances](ask(body, "deploy"), 202))
	if recs := n.published(); len(recs) != 1 {
		t.Errorf("published %d times", len(recs))
	}
	other := strings.Replace(body, `"b"`, `"c"`, 1)
	if p := ask(other, "deploy").refused(409, compute.KindConflict); p.Field != "boots[1].Idempotency-Key" {
		t.Errorf("%+v", p)
	}
	longer := strings.Replace(body, `]}`, `,{"name":"c","flavor":"m1.small"}]}`, 1)
	if p := ask(longer, "deploy").refused(409, compute.KindConflict); p.Reason == nil || p.Reason.Detail != "set" {
		t.Errorf("%+v", p)
	}
	shorter := `{"boots":[{"name":"a","flavor":"m1.small","id":"` + string(id1) + `"},` +
		`{"name":"b","flavor":"m1.small","id":"` + string(id2) + `"}]}`
	into[rest.Instances](ask(shorter, ""), 202)
	another := strings.Replace(shorter, string(id2), "33333333-3333-4333-8333-333333333333", 1)
	if p := ask(another, "").refused(409, compute.KindConflict); p.Field != "boots" {
		t.Errorf("%+v", p)
	}
	alone := httptest.NewRequest("POST", "/v1/instances", strings.NewReader(`{"name":"a","flavor":"m1.small"}`))
	alone.Header.Set("Content-Type", "application/json")
	alone.Header.Set(keyHeader, "deploy-1")
	n.ask(alone).refused(409, compute.KindConflict)
}

// TestSetAgainOfWhichOneWasDeleted: one that was deleted before the set was written is one of it.
func TestSetAgainOfWhichOneWasDeleted(t *testing.T) {
	for _, c := range []struct{ boots, want int }{{2, 202}, {3, 409}} {
		n := newNode(t)
		n.offer()
		n.has(compute.Instance{
			ID: wire.KeyedInstance("default", "deploy-2"), Project: "default", State: compute.StateDeleted, EndedAt: start,
		})
		ask := func(boots int) answer {
			all := slices.Repeat([]string{`{"name":"a","flavor":"m1.small"}`}, boots)
			req := httptest.NewRequest("POST", "/v1/sets", strings.NewReader(`{"boots":[`+strings.Join(all, ",")+`]}`))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set(keyHeader, "deploy")
			return n.ask(req)
		}
		into[rest.Instances](ask(2), 202)
		if got := ask(c.boots); got.status != c.want {
			t.Errorf("asked again as %d boots: %d, want %d: %s", c.boots, got.status, c.want, got.body)
		}
	}
}

func TestSetRefusals(t *testing.T) {
	n := newNode(t)
	n.offer()
	one := `{"flavor":"m1.small"}`
	for name, c := range map[string]struct {
		body   string
		status int
		field  string
	}{
		"one":              {`[` + one + `]`, 422, "boots"},
		"too many":         {"[" + strings.TrimSuffix(strings.Repeat(one+",", compute.MaxSet+1), ",") + "]", 422, "boots"},
		"unknown flavor":   {`[` + one + `,{"flavor":"m9"}]`, 404, "boots[1].flavor"},
		"preemptible":      {`[` + one + `,{"flavor":"m1.small","preemptible":"delete"}]`, 422, "boots[1].preemptible"},
		"in a reservation": {`[` + one + `,{"flavor":"m1.small","reservation":"r"}]`, 422, "boots[1].reservation"},
		"unknown group":    {`[` + one + `,{"flavor":"m1.small","group":"web"}]`, 404, "boots[1].group"},
		"malformed":        {`[{"flavor":"m1.small","attempts":21},` + one + `]`, 422, "boots[0].attempts"},
		"two projects": {
			`[{"flavor":"m1.small","project":"a"},{"flavor":"m1.small","project":"b"}]`, 422, "boots[1].project",
		},
		"an id for one": {`[{"flavor":"m1.small","id":"` + string(id1) + `"},` + one + `]`, 422, "boots"},
		"one id for both": {
			`[{"flavor":"m1.small","id":"` + string(id1) + `"},{"flavor":"m1.small","id":"` + string(id1) + `"}]`, 422, "set",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n.TB = t
			p := into[rest.Problem](n.do("POST", "/v1/sets", `{"boots":`+c.body+`}`), c.status)
			if p.Field != c.field {
				t.Errorf("field %q, want %q in %+v", p.Field, c.field, p)
			}
			if recs := n.published(); len(recs) != 0 {
				t.Errorf("published all the same: %v", recs)
			}
		})
	}
}

// TestSetThatKafkaDidNotTake: nobody knows whether it was kept, and nothing of it is shown.
func TestSetThatKafkaDidNotTake(t *testing.T) {
	silent := func() *node { // of which nobody knows yet
		n := newNode(t)
		n.offer()
		n.fail = errors.New("no leader")
		return n
	}
	n := silent()
	body := `{"boots":[{"flavor":"m1.small","id":"` + string(id1) + `"},{"flavor":"m1.small","id":"` + string(id2) + `"}]}`
	p := n.do("POST", "/v1/sets", body).refused(504, compute.KindTimeout)
	if p.Value != string(id1) || p.Remedy != "ask for "+p.Value+", the first of the set, or repeat the request as it was" {
		t.Errorf("with ids: %+v", p)
	}
	n.do("GET", "/v1/instances/"+string(id2), nil).refused(404, compute.KindNotFound)
	p = silent().do("POST", "/v1/sets", `{"boots":[{"flavor":"m1.small"},{"flavor":"m1.small"}]}`).refused(504,
		compute.KindTimeout)
	under := "ask for " + p.Value + ", the first of the set; repeat it only under an Idempotency-Key"
	if p.Field != "id" || !strings.HasPrefix(p.Remedy, under) {
		t.Errorf("without ids: %+v", p)
	}
	p = silent().do("POST", "/v1/reservations", `{"name":"r","flavor":"m1.small","for":"1h"}`).refused(504,
		compute.KindTimeout)
	if p.Field != "reservation" || p.Value != "r" || p.Remedy != "repeat it as it was" {
		t.Errorf("a reservation: %+v", p)
	}
}
