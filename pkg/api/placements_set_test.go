// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"slices"
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
		if p.Fits != c.fits || p.Starts != (c.fits == p.Count) ||
			p.Set == nil || p.Set.Whole != c.whole || p.Set.Size != p.Count ||
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
	p := n.places(`{"atomic":true,"flavor":"two","count":3}`)
	says := "it would be refused: over quota: VCPU limit 5, used 0, asked 6; beyond that, there is room for all 3"
	if p.Admitted != 0 || p.Starts || p.Refused == nil || p.Kinds[0].Starts || !strings.HasPrefix(p.Summary, says) {
		t.Errorf("over quota: %+v", p)
	}
}

// TestPlacementsOfAWholeSet: what is said of each kind is what becomes of the set, which one host takes whole or none
// takes any of.
func TestPlacementsOfAWholeSet(t *testing.T) {
	n := newNode(t)
	n.sells("two", 2)
	n.sells("six", 6)
	into[rest.GroupView](n.do("POST", "/v1/groups", `{"name":"pair","policy":"affinity"}`), 200)
	n.has(instance(id2, "x", compute.StateActive, func(i *compute.Instance) { // without it one more of two would fit
		i.Queue, i.Boot.Flavor, i.Resources = "two", "two", compute.Resources{compute.VCPU: 2}
	}))
	one, several := `"flavor":"two","count":3,"group":"pair"`,
		`"mix":[{"flavor":"two","group":"pair"},{"flavor":"two","count":2,"group":"pair"}]`
	ask := func(free int64, body string) rest.Placements {
		t.Helper()
		n.hears(reading("h1", free))
		p := n.places(`{"atomic":true,` + body + `}`)
		if p.Set.Whole != "six" || p.Starts != (p.Fits == p.Count && p.Admitted == p.Count) {
			t.Fatalf("%+v", p)
		}
		for _, k := range p.Kinds {
			if k.Starts != p.Starts || (k.Fits == k.Count) != (p.Fits == p.Count) || k.Fits > 0 && p.Fits == 0 ||
				k.Summary != p.Summary || !slices.Equal(k.YouCan, p.YouCan) ||
				!slices.Equal(k.OperatorsCan, p.OperatorsCan) || k.ToGo != nil {
				t.Errorf("with %d free: fits %d, %s; the kind %+v", free, p.Fits, p.Summary, k)
			}
		}
		return p
	}
	for _, body := range []string{one, several} {
		if p := ask(6, body); p.Fits != 3 {
			t.Errorf("it has room for all: %+v", p)
		}
		// There is room for two of them, and for none of the machines that cover all.
		p := ask(4, body)
		if p.Fits != 0 || p.Kinds[0].Hosts.Now != 0 || !strings.HasPrefix(p.Summary, "no host can take it now") {
			t.Errorf("it has room for two: %+v", p)
		}
	}
	if k := ask(4, one).Kinds[0]; k.Alone != 0 {
		t.Errorf("alone there is room for %d of a set that is nothing else", k.Alone)
	}
	n.has(instance(id1, "w", compute.StateQueued, func(i *compute.Instance) { i.Queue, i.Boot.Flavor = "six", "six" }))
	if p := ask(6, one); p.Fits != 0 || p.Kinds[0].Place == nil || p.Kinds[0].Place.Depth != 1 {
		t.Errorf("behind one that waits in the queue that covers it: %+v", p)
	}
	into[rest.QuotaView](n.do("PUT", "/v1/quotas/default", `{"limits":{"VCPU":5}}`), 200)
	if p := ask(12, one); p.Fits != 3 || p.Starts || !strings.HasPrefix(p.Summary, "it would be refused: over quota") {
		t.Errorf("over quota: %+v", p)
	}
}

// TestWhyASetIsInParts names the one cause.
func TestWhyASetIsInParts(t *testing.T) {
	n := newNode(t)
	n.sells("one", 1)
	n.sells("six", 6)
	n.sells("ten", 10)
	for _, g := range []string{"pair", "other"} {
		into[rest.GroupView](n.do("POST", "/v1/groups", `{"name":"`+g+`","policy":"affinity"}`), 200)
	}
	n.hears(reading("h1", 8))
	n.Advice([]wire.Record{wire.EncodeAdvice(compute.Advice{
		At: start, About: []compute.QueueAdvice{{Queue: "ten", Hosts: compute.HostCounts{NeverFits: 1}}},
	})}, true)
	one := func(more string) string { return `{"flavor":"one"` + more + `}` }
	pair := func(more string) string { return one(`,"group":"pair"` + more) }
	mix := func(kinds ...string) string { return `"mix":[` + strings.Join(kinds, ",") + `]` }
	long := `,"user_data":"` + strings.Repeat("x", 128<<10) + `"`
	large := "has machines as large as all of them together"
	for name, c := range map[string]struct{ body, says string }{
		"the second is of no group": {mix(pair(""), one("")), "as not all of them are of group pair"},
		"the first is of no group":  {mix(one(""), pair("")), "as not all of them are of group pair"},
		"of two groups":             {mix(pair(""), one(`,"group":"other"`)), "as not all of them are of group pair"},
		"of two priorities": {
			mix(pair(""), pair(`,"priority":"high"`)), "as they are of several priorities, as normal and high",
		},
		"one is for a host": {mix(pair(""), pair(`,"host":"h1"`)), "as some of them are for one host alone, h1"},
		"too much text": {
			mix(pair(`,"count":6` + long)), "as their user data, metadata and keys are more than 512 KiB together",
		},
		"no such tier":  {mix(pair(`,"count":2,"priority":"high"`)), "as queue six " + large + ", and none of priority high yet"},
		"fits no host":  {mix(pair(`,"count":8`)), "as queue ten " + large + ", and they fit no host"},
		"too large":     {mix(pair(`,"count":11`)), "as no queue " + large + ", on hosts that each of them may have"},
		"of no group":   {mix(one(`,"count":2`)), "each would be offered by itself"},
		"not too large": {mix(pair(`,"count":6`)), "it would be offered whole in queue six, and one host takes all of them"},
	} {
		p := n.places(`{"atomic":true,` + c.body + `}`)
		if !strings.HasSuffix(p.Set.Says, c.says) {
			t.Errorf("%s: %s", name, p.Set.Says)
		}
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
		p := n.do("POST", "/v1/placements", `{"atomic":true,`+body+`}`).refused(422, compute.KindInvalid)
		if p.Field != field || p.Remedy == "" {
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
