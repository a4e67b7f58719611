// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// reading is the beacon of a host whose agent reads sets that are offered whole.
func reading(h compute.HostID, free int64) compute.Beacon {
	b := offering(h, free)
	b.Reads = wire.SchemaWhole
	return b
}

// TestPlacementsOfASet: the quota and hosts take all of a set or none, and where one host is to take all it says in
// which queue that is offered.
func TestPlacementsOfASet(t *testing.T) {
	n := newNode(t)
	n.sells("two", 2)
	n.sells("six", 6)
	for _, g := range []string{`{"name":"pair","policy":"affinity"}`, `{"name":"web","policy":"anti-affinity"}`} {
		into[rest.GroupView](n.do("POST", "/v1/groups", g), 200)
	}
	n.hears(reading("h1", 8))
	n.hears(reading("h2", 5))
	for name, c := range map[string]struct {
		body  string
		fits  int64
		whole compute.QueueName
		says  string // in the summary
	}{
		"two":                   {`"flavor":"two","count":6`, 6, "", "there is room for all 6 now; none of the 6 of a set starts before"},
		"one too many":          {`"flavor":"two","count":7`, 6, "", "there is room for 6 of 7 now"},
		"of several kinds":      {`"mix":[{"flavor":"six"},{"flavor":"two","count":3}]`, 4, "", "there is room for all 4 now"},
		"on several hosts":      {`"flavor":"two","count":3,"group":"web"`, 2, "", "there is room for 2 of 3 now"},
		"on one host":           {`"flavor":"two","count":3,"group":"pair"`, 3, "six", "1 host can take it now"},
		"larger than any queue": {`"flavor":"two","count":4,"group":"pair"`, 4, "", "as no queue has machines as large"},
	} {
		p := n.places(`{"atomic":true,` + c.body + `}`)
		if p.Fits != c.fits || p.Starts != (c.fits == p.Count) || p.Set == nil || p.Set.Whole != c.whole || p.Set.Size != p.Count ||
			!strings.Contains(p.Summary, c.says) {
			t.Errorf("%s: fits %d, starts %t, %+v: %s", name, p.Fits, p.Starts, p.Set, p.Summary)
		}
	}
	n.hears(reading("h1", 4))
	if p := n.places(`{"atomic":true,"flavor":"two","count":2,"group":"pair"}`); p.Fits != 0 || p.Starts ||
		!strings.Contains(p.Summary, "no host can take it now") || !strings.Contains(p.Summary, "queue six") {
		t.Errorf("each has room, and no host has for the queue that covers both: %+v", p)
	}
	n.hears(offering("h3", 0))
	if p := n.places(`{"atomic":true,"flavor":"two","count":2,"group":"pair"}`); p.Set.Whole != "" ||
		!strings.Contains(p.Summary, "agents of an older version") {
		t.Errorf("an older agent: %+v", p.Set)
	}
	into[rest.QuotaView](n.do("PUT", "/v1/quotas/default", rest.QuotaLimits{Limits: compute.Resources{compute.VCPU: 5}}), 200)
	if p := n.places(`{"atomic":true,"flavor":"two","count":3}`); p.Admitted != 0 || p.Starts || p.Refused == nil || p.Kinds[0].Starts ||
		!strings.HasPrefix(p.Summary, "it would be refused: over quota: VCPU limit 5, used 0, asked 6; beyond that, there is room for all 3") {
		t.Errorf("over quota: %+v", p)
	}
}

// TestPlacementsOfNoSet: what cannot be a set is refused as one.
func TestPlacementsOfNoSet(t *testing.T) {
	n := newNode(t)
	n.sells("two", 2)
	for body, field := range map[string]string{
		`"flavor":"two"`:             "count",
		`"flavor":"two","count":101`: "count",
		`"flavor":"two","count":2,"preemptible":{"then":"delete"}`:             "preemptible",
		`"mix":[{"flavor":"two"},{"flavor":"two","id":"` + string(id1) + `"}]`: "mix[1].id",
	} {
		if p := n.do("POST", "/v1/placements", `{"atomic":true,`+body+`}`).refused(422, compute.KindInvalid); p.Field != field || p.Remedy == "" {
			t.Errorf("%s: %+v", body, p)
		}
	}
}

// TestPlacementsOfASetForItsProject: the group of a set names hosts once a member is on one.
func TestPlacementsOfASetForItsProject(t *testing.T) {
	n := auditedNode(t)
	n.as = n.token(auth.RoleAdmin, "")
	n.sells("two", 2)
	into[rest.GroupView](n.do("POST", "/v1/groups?project=own", `{"name":"pair","policy":"affinity"}`), 200)
	n.hears(reading("h1", 8))
	n.as = n.token(auth.RoleMember, "own")
	ask := func() answer {
		return n.do("POST", "/v1/placements", `{"atomic":true,"flavor":"two","project":"own","count":2,"group":"pair"}`)
	}
	if p := into[rest.Placements](ask(), 200); !p.Starts || p.Set == nil {
		t.Errorf("%+v", p)
	}
	n.has(instance(id1, "w", compute.StateActive, func(i *compute.Instance) {
		i.Project, i.Boot.Rules, i.Host = "own", compute.InGroup("pair"), "h1"
	}))
	if p := ask().refused(422, compute.KindInvalid); p.Field != "group" {
		t.Errorf("%s", fmt.Sprint(p))
	}
}
