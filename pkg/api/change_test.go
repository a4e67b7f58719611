// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// TestChange: what is asked for is published, and answered as it will be; what is not named stays.
func TestChange(t *testing.T) {
	n := newNode(t)
	n.offer()
	n.has(instance(id1, "web", compute.StateActive, func(i *compute.Instance) {
		i.Boot.Metadata = map[string]string{"team": "a", "role": "db"}
	}))
	got := into[rest.Instance](
		n.do("PATCH", path(id1), `{"name": "web-2", "metadata": {"team": "b", "role": null, "gone": null}}`),
		202,
	)
	if got.Name != "web-2" || len(got.Metadata) != 1 || got.Metadata["team"] != "b" {
		t.Errorf("it is to be %q with %v", got.Name, got.Metadata)
	}
	name := "web-2"
	equal(
		t,
		"published",
		&compute.Change{Name: &name, Set: map[string]string{"team": "b"}, Remove: []string{"gone", "role"}},
		n.sentOne().Change,
	)
	if now := n.show(id1); now.Name != "web" || now.Metadata["role"] != "db" {
		t.Errorf("before a conductor has read it it is %q with %v", now.Name, now.Metadata)
	}
	into[rest.Instance](n.do("PATCH", path(id1), `{"metadata": {"team": null}}`), 202)
	equal(t, "published", &compute.Change{Remove: []string{"team"}}, n.sentOne().Change)

	patch := httptest.NewRequest("PATCH", path(id1), strings.NewReader(`{"name": null, "metadata": {"team": "c"}}`))
	patch.Header.Set("Content-Type", "application/merge-patch+json")
	if got := into[rest.Instance](n.ask(patch), 202); got.Name != "web" || got.Metadata["team"] != "c" {
		t.Errorf("it is to be %q with %v", got.Name, got.Metadata)
	}
	n.sentOne()

	// One that no conductor has read yet is changed behind its boot.
	into[rest.Instance](n.do("POST", "/v1/instances", rest.Boot{ID: id2, Flavor: "m1.small", Name: "new"}), 202)
	n.published()
	if got := into[rest.Instance](n.do("PATCH", path(id2), `{"name": "newer"}`), 202); got.Name != "newer" ||
		got.State != "accepted" {
		t.Errorf("it is to be %q, and is %s", got.Name, got.State)
	}
	n.sentOne()
}

// TestChangeRefused: what the conductor would refuse is refused at once, and nothing is published.
func TestChangeRefused(t *testing.T) {
	n := newNode(t)
	n.has(instance(id1, "web", compute.StateActive, func(i *compute.Instance) {
		i.Boot.Metadata = map[string]string{"a": strings.Repeat("x", 10_000)}
	}), instance(id2, "old", compute.StateDeleted))
	for body, field := range map[string]string{
		`{}`: "change", `{"metadata": {}}`: "change", `{"name": "` + strings.Repeat("n", 256) + `"}`: "name",
		`{"metadata": {"b": "` + strings.Repeat("x", 7_000) + `"}}`: "metadata",
		`{"flavor": "m1.large"}`:                                    "flavor", `{"metadata": {"b": 1}}`: "metadata.b",
	} {
		if p := n.do("PATCH", path(id1), body).refused(422, compute.KindInvalid); p.Field != field {
			t.Errorf("%.60s is refused for field %q: %s", body, p.Field, p.Message)
		}
	}
	if p := n.do("PATCH", path(id2), `{"name": "x"}`).refused(409, compute.KindConflict); p.Message != "is deleted" {
		t.Errorf("one that is deleted: %+v", p)
	}
	n.do("PATCH", path(id3), `{"name": "x"}`).refused(404, compute.KindNotFound)
	if recs := n.published(); len(recs) != 0 {
		t.Errorf("published %v", recs)
	}

	// A node that is behind asks the others before it refuses.
	n.sync = func() error { n.has(instance(id1, "web", compute.StateActive)); return nil }
	into[rest.Instance](n.do("PATCH", path(id1), `{"metadata": {"b": "`+strings.Repeat("x", 7_000)+`"}}`), 202)
	n.sentOne()
	n.fail = errors.New("no leader")
	n.do("PATCH", path(id1), `{"name": "x"}`).refused(504, compute.KindTimeout)
}

// TestRepeatAfterAChange: a boot that is repeated is the same one, also where its name and labels are others by now.
func TestRepeatAfterAChange(t *testing.T) {
	n := newNode(t)
	n.offer()
	boot := rest.Boot{ID: id1, Flavor: "m1.small", Name: "web", Metadata: map[string]string{"team": "a"}}
	as := instance(id1, "web-2", compute.StateActive, func(i *compute.Instance) {
		i.Boot.Flavor, i.BootedAs = "m1.small", compute.Boot{Name: "web", Metadata: boot.Metadata}.Fingerprint()
		i.Boot = i.Boot.WithDefaults()
	})
	n.has(as)
	if got := into[rest.Instance](n.do("POST", "/v1/instances", boot), 202); got.Name != "web-2" {
		t.Errorf("it answers %q", got.Name)
	}
	for what, other := range map[string]func(*rest.Boot){
		"flavor":            func(b *rest.Boot) { b.Flavor = "m1.large" },
		"name or metadata":  func(b *rest.Boot) { b.Name, b.Metadata = "web-2", nil }, // as it is now
		"name or metadata ": func(b *rest.Boot) { b.Metadata = map[string]string{"team": "b"} },
	} {
		wrong := boot
		other(&wrong)
		p := n.do("POST", "/v1/instances", wrong).refused(409, compute.KindConflict)
		if !strings.Contains(p.Message, "differs in "+strings.TrimSpace(what)) {
			t.Errorf("another %s: %s", what, p.Message)
		}
	}
	if recs := n.published(); len(recs) != 0 {
		t.Errorf("published %v", recs)
	}
}

// TestListByLabel: lists of instances and of hosts, and what is found by the new name alone.
func TestListByLabel(t *testing.T) {
	n := newNode(t)
	labelled := func(id compute.InstanceID, name string, labels map[string]string) compute.Instance {
		return instance(id, name, compute.StateActive, func(i *compute.Instance) { i.Boot.Metadata = labels })
	}
	n.has(
		labelled(id1, "one", map[string]string{"team": "a", "role": "web"}),
		labelled(id2, "two", map[string]string{"team": "b"}),
		labelled(id3, "three", nil),
	)
	for query, want := range map[string]string{
		"":                                    "one two three",
		"label=team%3Da":                      "one",
		"label=team!%3Da":                     "two three",
		"label=team":                          "one two",
		"label=!team":                         "three",
		"label=team&label=!role":              "two",
		"label=team%3Da&label=role%3Ddb":      "",
		"label=team%3Da&state=error":          "",
		"label=team&limit=1&state=active":     "one",
		"label=role%3Dweb&name=one&limit=200": "one",
	} {
		var names []string
		for _, i := range n.list(query).Items {
			names = append(names, i.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s lists %q, want %q", query, got, want)
		}
	}
	for _, query := range []string{"?label=", "?label=&label=team%3Da", "?label=!", "?label=%3Da", "?label=!%3Da"} {
		if p := n.do("GET", "/v1/instances"+query, nil).refused(422, compute.KindInvalid); p.Field != "label" {
			t.Errorf("%s is refused for field %q", query, p.Field)
		}
		n.do("GET", "/v1/hosts"+query, nil).refused(422, compute.KindInvalid)
	}
	n.has(labelled(id1, "uno", map[string]string{"team": "b"}))
	if got := n.list("name=one").Items; len(got) != 0 {
		t.Errorf("by its old name it is %v", got)
	}
	if got := n.list("name=uno&label=team%3Db").Items; len(got) != 1 {
		t.Errorf("by its new name there are %v", got)
	}

	n.Hosts([]wire.Record{
		wire.EncodeBeacon(compute.Beacon{Host: "h1", Labels: map[string]string{"rack": "r1"}}),
		wire.EncodeBeacon(
			compute.Beacon{Host: "h2", Labels: map[string]string{"rack": "r2"}},
		), wire.EncodeBeacon(compute.Beacon{Host: "h3"}),
	}, true)
	for query, want := range map[string]string{"": "h1 h2 h3", "?label=rack%3Dr2": "h2", "?label=!rack": "h3"} {
		var names []string
		for _, h := range into[rest.Hosts](n.do("GET", "/v1/hosts"+query, nil), 200).Items {
			names = append(names, string(h.Host))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("hosts %s: %q, want %q", query, got, want)
		}
	}
	if got := into[rest.HostView](n.do("GET", "/v1/hosts/h1", nil), 200); got.Labels["rack"] != "r1" {
		t.Errorf("the host is shown with %v", got.Labels)
	}
}
