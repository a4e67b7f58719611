// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/sealed"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// sells makes a flavor of so many processors, with its queue.
func (n *node) sells(name compute.FlavorName, processors int64) {
	n.Helper()
	into[rest.Change](n.do("POST", "/v1/flavors",
		rest.Flavor{Name: name, Resources: compute.Resources{compute.VCPU: processors}}), 200)
	for _, q := range compute.Permutations(n.flavor(name), n.axes()) {
		n.Queues([]wire.Record{wire.EncodeQueue(q)}, true)
	}
}

func (n *node) places(body string) rest.Placements {
	n.Helper()
	return into[rest.Placements](n.do("POST", "/v1/placements", body), 200)
}

// TestPlacementsTogether: what fits alone may not fit together, and the quota counts all of it.
func TestPlacementsTogether(t *testing.T) {
	n := newNode(t)
	n.sells("five", 5)
	n.sells("four", 4)
	if p := n.places(`{"flavor":"five"}`); p.Starts || p.Summary != "there is no host" || p.Count != 1 || !p.MayBoot {
		t.Errorf("%+v", p)
	}
	n.hears(offering("h1", 8))
	for _, flavor := range []string{"five", "four"} {
		if p := n.places(fmt.Sprintf(`{"flavor":%q}`, flavor)); !p.Starts || p.Fits != 1 ||
			p.Kinds[0].Queue != compute.QueueName(flavor) {
			t.Errorf("%s alone: %+v", flavor, p)
		}
	}
	p := n.places(`{"mix":[{"flavor":"five"},{"flavor":"four"}]}`)
	if p.Starts || p.Count != 2 || p.Fits != 1 || p.Kinds[1].Alone != 1 || p.Kinds[1].Fits != 0 ||
		p.Kinds[1].Starts || !p.Kinds[0].Starts ||
		p.Summary != "there is room for 1 of 2 now; of 1 four 0: alone all of them have room, and not with the others" {
		t.Errorf("together: %+v", p)
	}
	if p = n.places(`{"flavor":"four","count":3}`); p.Fits != 2 || p.Starts || p.Summary !=
		"there is room for 2 of 3 now; of 3 four 2: the host that lacks least for one more is short of 4 processors" {
		t.Errorf("three: %+v", p)
	}
	n.hears(offering("h2", 4))
	if p = n.places(`{"mix":[{"flavor":"five"},{"flavor":"four"}]}`); !p.Starts ||
		p.Summary != "there is room for all 2 now" {
		t.Errorf("on two hosts: %+v", p)
	}
	n.has(instance(id1, "w", compute.StateQueued, func(i *compute.Instance) {
		i.Queue, i.Boot.Flavor, i.Resources = "four", "four", compute.Resources{compute.VCPU: 4}
	}))
	if p = n.places(`{"mix":[{"flavor":"five"},{"flavor":"four"}]}`); p.Fits != 1 ||
		!strings.Contains(p.Summary, "behind 1 that waits") {
		t.Errorf("behind another: %+v", p)
	}
	into[rest.QuotaView](n.do("PUT", "/v1/quotas/default",
		rest.QuotaLimits{Limits: compute.Resources{compute.VCPU: 13, compute.Instances: 9}}), 200)
	p = n.places(`{"mix":[{"flavor":"five"},{"flavor":"four","count":3}]}`)
	thirteen, nine := int64(13), int64(9)
	want := []rest.QuotaStep{
		{Class: compute.Instances, Used: 1, Asked: 4, Would: 5, Limit: &nine},
		{Class: compute.VCPU, Used: 4, Asked: 17, Would: 21, Limit: &thirteen, Over: true},
	}
	equal(t, "quota", want, p.Quota)
	if p.Admitted != 2 || p.Refused == nil || p.Refused.Code != compute.QuotaExceeded || p.Starts ||
		!strings.HasPrefix(p.Summary,
			"of 4 the quota allows 2 (over quota: VCPU limit 13, used 4, asked 17); there is room for") {
		t.Errorf("over quota: %+v", p)
	}
}

// TestPlacementsOfWhatTheQuotaAllowsInPart: the summary of a kind is about one of them, and what refuses some is said
// too.
func TestPlacementsOfWhatTheQuotaAllowsInPart(t *testing.T) {
	n := newNode(t)
	n.sells("two", 2)
	n.hears(offering("h1", 8))
	limit := func(instances int64) {
		into[rest.QuotaView](n.do("PUT", "/v1/quotas/default",
			rest.QuotaLimits{Limits: compute.Resources{compute.Instances: instances}}), 200)
	}
	limit(2)
	p := n.places(`{"flavor":"two","count":3}`)
	k := p.Kinds[0]
	if p.Admitted != 2 || k.Starts || k.Refused == nil || k.Refused.Quota.Asked != 3 ||
		strings.Contains(k.Summary, "refused") ||
		slices.Contains(k.YouCan, quotaRemedy) || p.Refused == nil || !slices.Contains(p.YouCan, quotaRemedy) {
		t.Errorf("%+v", p)
	}
	limit(0)
	p = n.places(`{"flavor":"two","count":3}`)
	k = p.Kinds[0]
	if p.Admitted != 0 || k.Refused == nil || k.Refused.Quota.Asked != 3 || !slices.Contains(k.YouCan, quotaRemedy) ||
		!strings.HasPrefix(k.Summary, "it would be refused: over quota: INSTANCES limit 0, used 0, asked 1; beyond that, ") {
		t.Errorf("not even one: %+v", p)
	}
}

// TestPlacementsAreNotBehindWhatIsPinned: what waits for one host alone takes no room anywhere else.
func TestPlacementsAreNotBehindWhatIsPinned(t *testing.T) {
	n := newNode(t)
	n.sells("two", 2)
	n.hears(offering("h1", 8))
	waits := func(id compute.InstanceID, host compute.HostID) {
		n.has(instance(id, "w", compute.StateQueued, func(i *compute.Instance) {
			i.Queue, i.Boot.Flavor, i.Boot.Host, i.Resources = "two", "two", host, compute.Resources{compute.VCPU: 2}
		}))
	}
	waits(id1, "h9")
	waits(id2, "h9")
	if p := n.places(`{"flavor":"two","count":4}`); p.Fits != 4 || !p.Starts || p.Kinds[0].Place.Depth != 0 {
		t.Errorf("%+v", p)
	}
	waits(id3, "")
	if p := n.places(`{"flavor":"two","count":4}`); p.Fits != 3 || p.Kinds[0].Place.Depth != 1 ||
		!strings.Contains(p.Summary, "behind 1 that") {
		t.Errorf("behind one: %+v", p)
	}
}

// TestPlacementsRefuseAsBoots: what a boot is refused for, with everything that is said of it, is the same here.
func TestPlacementsRefuseAsBoots(t *testing.T) {
	n := newNode(t)
	n.offer()
	n.do("POST", "/v1/flavors", rest.Flavor{Name: "new", Resources: compute.Resources{compute.VCPU: 1}})
	closed := compute.Permutations(n.flavor("m1.small"), n.axes())[2]
	closed.State = compute.QueueClosed
	n.Queues([]wire.Record{wire.EncodeQueue(closed)}, true)
	n.has(instance(id1, "web", compute.StateActive),
		instance(id2, "b", compute.StateActive, func(i *compute.Instance) { i.Project = "other" }))
	long := strings.Repeat("x", 256)
	for _, body := range []string{
		`{"flavor":"M1"}`, `{"flavor":"m9"}`, `{"flavor":"m1.small","with":{"zone":"a"}}`,
		`{"flavor":"m1.small","with":{"disk":"ssd"}}`,
		`{"flavor":"m1.small","with":{"gpu":"b200"}}`, `{"flavor":"m1.small","with":{"gpu":"h100"}}`, `{"flavor":"new"}`,
		`{"flavor":"m1.small","id":"7"}`, `{"flavor":"m1.small","project":"Web!"}`, `{"flavor":"m1.small","host":"h9"}`,
		`{"flavor":"m1.small","avoid":["Not a host"]}`, `{"flavor":"m1.small","host":"h1","avoid":["h1"]}`,
		`{"flavor":"m1.small","attempts":21}`, `{"flavor":"m1.small","deadline":"169h"}`,
		`{"flavor":"m1.small","deadline":"-1s"}`,
		`{"flavor":"m1.small","on_no_capacity":"hope"}`, `{"flavor":"m1.small","name":"` + long + `"}`,
		`{"flavor":"m1.small","ssh_keys":["no key"]}`, `{"flavor":"m1.small","user_data":"!"}`,
		`{"flavor":"m1.small","flavour":"x"}`,
		`{"flavor":"m1.small","name":"a","name":"b"}`, `{"Flavor":"m1.small"}`, `{`, `[]`, `{"flavor":7}`,
		`{"flavor":"m1.small","id":"` + string(id1) + `"}`, `{"flavor":"m1.small","id":"` + string(id2) + `"}`,
	} {
		booted, asked := n.do("POST", "/v1/instances", body), n.do("POST", "/v1/placements", body)
		want, got := into[rest.Problem](booted, booted.status), into[rest.Problem](asked, booted.status)
		if diff := cmp.Diff(want, got); diff != "" || booted.status < 400 {
			t.Errorf("%s (-boot +placements): %d %s", body, booted.status, diff)
		}
		if want.Field == "body" {
			continue // of what has not even the shape of a boot
		}
		item := n.do("POST", "/v1/placements", `{"mix":[{"flavor":"m1.small"},`+body+`]}`)
		if p := into[rest.Problem](item, booted.status); p.Field != "mix[1]."+want.Field || p.Message != want.Message ||
			p.Remedy != want.Remedy {
			t.Errorf("%s in a mix: %+v", body, p)
		}
	}
	for body, field := range map[string]string{
		`{"flavor":"m1.small","mix":[{"flavor":"m1.small"}]}`:                 "mix",
		`{"mix":[{"flavor":"m1.small"},{"flavor":"m1.small","project":"p"}]}`: "mix[1].project",
		`{"mix":[{"flavor":"m1.small","count":-1}]}`:                          "mix[0].count",
		`{"flavor":"m1.small","count":10001}`:                                 "count",
		`{"mix":[{"flavor":"m1.small","id":"` + string(id3) + `"},{"flavor":"m1.small","id":"` +
			string(id3) + `"}]}`: "mix[1].id",
		`{"flavor":"m1.small","count":2,"id":"33333333-3333-4333-8333-333333333333"}`:       "count",
		`{"mix":[{"flavor":"m1.small","count":9000},{"flavor":"m1.small","count":9000}]}`:   "mix[1].count",
		`{"mix":[{"flavor":"m1.small","mix":[]}]}`:                                          "mix[0].mix",
		`{"mix":[{"flavor":"m1.small","count":9223372036854775807},{"flavor":"m1.small"}]}`: "mix[0].count",
	} {
		a := n.do("POST", "/v1/placements", body)
		if p := into[rest.Problem](a, a.status); a.status != 422 || p.Field != field || p.Remedy == "" {
			t.Errorf("%s: %d %+v", body, a.status, p)
		}
	}
	if sent := n.published(); len(sent) != 0 {
		t.Errorf("asking wrote %v", sent)
	}
}

// TestPlacementsOfWhatIsThere: the same request again boots nothing, and another one under its key is refused as it is
// when booted.
func TestPlacementsOfWhatIsThere(t *testing.T) {
	n := newNode(t)
	n.offer()
	n.hears(offering("h1", 8))
	keyed := func(path, body string) answer {
		req := httptest.NewRequest("POST", path, strings.NewReader(body))
		req.Header.Set("Idempotency-Key", "k")
		return n.ask(req)
	}
	same := `{"flavor":"m1.small","name":"web"}`
	if p := into[rest.Placements](keyed("/v1/placements", same), 200); !p.Starts || p.Count != 1 {
		t.Errorf("before: %+v", p)
	}
	into[rest.Instance](keyed("/v1/instances", same), 202)
	p := into[rest.Placements](keyed("/v1/placements", same), 200)
	if p.Starts || p.Count != 0 || p.Kinds[0].Exists == nil || p.Kinds[0].Exists.State != "accepted" ||
		p.Summary != "it is there already, and is accepted: nothing new would be booted" || len(p.Quota) != 0 {
		t.Errorf("again: %+v of %+v", p, p.Kinds[0].Exists)
	}
	other := `{"flavor":"m1.small","name":"db"}`
	booted, asked := keyed("/v1/instances", other), keyed("/v1/placements", other)
	equal(t, "another under its key", into[rest.Problem](booted, 409), into[rest.Problem](asked, 409))
	if a := keyed("/v1/placements", `{"mix":[`+same+`]}`); into[rest.Problem](a, 422).Field != keyHeader {
		t.Errorf("%s", a.body)
	}
}

// TestPlacementsOfWhatWaitsForItsReservation: the same request again, of a boot that waits for a placeholder.
func TestPlacementsOfWhatWaitsForItsReservation(t *testing.T) {
	until := start.Add(time.Hour)
	for name, is := range map[string]compute.Instance{
		"it waits": taker(id2, compute.StateQueued), "it runs": taker(id2, compute.StateActive),
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.offer()
			n.hears(offering("h2", 8))
			n.has(placeholder(id1, compute.StateActive, start, until, id2), is)
			body := `{"flavor":"m1.small","id":"` + string(id2) + `","name":"job","reservation":"nightly"}`
			k := n.places(body).Kinds[0]
			if k.Exists == nil || string(k.Exists.State) != is.State.String() || k.Count != 0 || k.Starts ||
				k.Hosts.Total != 1 || !strings.HasPrefix(k.Summary, "it is there already") {
				t.Errorf("%+v", k)
			}
		})
	}
}

// TestPlacementsCatchUpOnce: however many ids a question names, the node waits once for what other nodes accepted.
func TestPlacementsCatchUpOnce(t *testing.T) {
	n := newNode(t)
	n.offer()
	caught := 0
	n.mu.Lock()
	n.sync = func() error { caught++; return nil }
	n.mu.Unlock()
	one := `{"flavor":"m1.small","id":%q}`
	n.places(fmt.Sprintf(`{"mix":[`+one+`,`+one+`,`+one+`]}`, id1, id2, id3))
	if caught != 1 {
		t.Errorf("it catches up %d times", caught)
	}
}

// TestPlacementsSayWhatWouldHaveToGo: operators see which machines, and a project how many: what one of them has is its
// flavor. What one host alone has is nobody's business but theirs.
func TestPlacementsSayWhatWouldHaveToGo(t *testing.T) {
	n := auditedNode(t)
	n.Hosts([]wire.Record{{Key: []byte("h1")}}, true)
	n.as = n.token(auth.RoleAdmin, "")
	n.sells("six", 6)
	n.hears(offering("rack1", 2))
	n.hears(offering("rack2", 1))
	on := func(id compute.InstanceID, name string, processors int64, state compute.State) compute.Instance {
		return instance(id, name, state, func(i *compute.Instance) {
			i.Project, i.Host, i.Resources = "alien", "rack1", compute.Resources{compute.VCPU: processors}
		})
	}
	n.has(on(id1, "one", 1, compute.StateActive), on(id2, "two", 4, compute.StateActive),
		on(id3, "goes", 5, compute.StateDeleting))
	n.published()
	ask := func(role auth.Role, project compute.Project, body string) rest.Placements {
		t.Helper()
		n.as = n.token(role, project)
		return n.places(body)
	}
	p := ask(auth.RoleOperator, "", `{"flavor":"six","project":"own"}`)
	want := &rest.ToGo{
		Machines: 1, Resources: compute.Resources{compute.VCPU: 4}, Host: "rack1",
		Instances: []rest.GoingInstance{{ID: id2, Project: "alien", Name: "two",
			Resources: compute.Resources{compute.VCPU: 4}}},
	}
	equal(t, "to operators", want, p.Kinds[0].ToGo)
	last := p.OperatorsCan[len(p.OperatorsCan)-1]
	if last != "host rack1 takes one more of six without two of alien" || p.MayBoot {
		t.Errorf("%q of %+v", last, p)
	}
	p = ask(auth.RoleMember, "own", `{"flavor":"six","project":"own","count":3}`)
	equal(t, "to a project", &rest.ToGo{Machines: 1}, p.Kinds[0].ToGo)
	if text := fmt.Sprintf("%+v", p); strings.Contains(text, "rack") || strings.Contains(text, "alien") ||
		p.OperatorsCan != nil || !p.MayBoot {
		t.Errorf("a project sees %s", text)
	}
	h, _ := n.views.hosts.get("rack1")
	p = ask(auth.RoleReader, "own", fmt.Sprintf(`{"flavor":"six","project":"own","host":%q}`, h.opaque))
	if p.Kinds[0].ToGo != nil || p.MayBoot || strings.Contains(p.Summary, "processor") {
		t.Errorf("of one host: %+v", p)
	}
	if sent := n.published(); len(sent) != 0 {
		t.Errorf("asking wrote %v", sent)
	}
}

// TestPlacementsLeaveReservedRoomAlone: a machine in the room of a placeholder frees nothing, and neither does that;
// what is no more in such room does, and so does a placeholder that nobody has taken.
func TestPlacementsLeaveReservedRoomAlone(t *testing.T) {
	for name, c := range map[string]struct {
		attempt compute.Attempt // of the placeholder, whose first the machine is in
		size    int64           // of the placeholder
		taken   bool
		want    compute.InstanceID
	}{
		"taken": {1, 4, true, ""}, "in the room of an earlier attempt": {2, 3, true, id2}, "free": {1, 4, false, id1},
	} {
		n := auditedNode(t)
		n.Hosts([]wire.Record{{Key: []byte("h1")}}, true)
		n.as = n.token(auth.RoleAdmin, "")
		n.sells("six", 6)
		n.hears(offering("rack1", 2))
		n.hears(offering("rack2", 1))
		on := func(id compute.InstanceID, processors int64, change func(*compute.Instance)) compute.Instance {
			return instance(id, "a", compute.StateActive, func(i *compute.Instance) {
				i.Host, i.Resources = "rack1", compute.Resources{compute.VCPU: processors}
				change(i)
			})
		}
		placeholder := on(id1, c.size, func(i *compute.Instance) {
			i.Attempt = c.attempt
			i.Boot.AsPlaceholder(compute.Placeholder{Of: "r", Size: 1, Until: time.Now().Add(time.Hour)})
			if c.taken {
				i.Boot.TakenBy(id2)
			}
		})
		machine := on(id2, 4, func(i *compute.Instance) { i.Boot.Takes(compute.InPlaceholder{ID: id1, Attempt: 1}) })
		if n.has(placeholder); c.taken {
			n.has(machine)
		}
		n.as = n.token(auth.RoleOperator, "")
		var got compute.InstanceID
		if p := n.places(`{"flavor":"six","project":"own"}`); p.Kinds[0].ToGo != nil {
			got = p.Kinds[0].ToGo.Instances[0].ID
		}
		equal(t, name, c.want, got)
	}
}

// TestPlacementsOnHostsThatAreNamed: what one host has free cannot be found out by asking how many fit there, or on all
// others, and what is said is true: whether one fits.
func TestPlacementsOnHostsThatAreNamed(t *testing.T) {
	n := auditedNode(t)
	n.Hosts([]wire.Record{{Key: []byte("h1")}}, true)
	n.as = n.token(auth.RoleAdmin, "")
	n.sells("two", 2)
	n.hears(offering("rack1", 8))
	n.hears(offering("rack2", 3))
	operator := n.token(auth.RoleOperator, "")
	n.as = n.token(auth.RoleMember, "own")
	h, _ := n.views.hosts.get("rack1")
	pinned, avoids := fmt.Sprintf(`"flavor":"two","project":"own","host":%q`, h.opaque),
		fmt.Sprintf(`"flavor":"two","project":"own","avoid":[%q]`, h.opaque)
	for body, field := range map[string]string{
		`{` + pinned + `,"count":2}`: "host", `{` + avoids + `,"count":2}`: "avoid",
		`{"mix":[{` + pinned + `},{` + pinned + `}]}`:                            "mix[0].host",
		`{"mix":[{"flavor":"two","project":"own"},{` + avoids + `}]}`:            "mix[1].avoid",
		`{"mix":[{"flavor":"two","project":"own","count":99},{` + pinned + `}]}`: "mix[1].host",
		`{"mix":[{` + avoids + `,"count":2},{"flavor":"two","project":"own"}]}`:  "mix[0].avoid",
	} {
		if p := n.do("POST", "/v1/placements", body).refused(422, compute.KindInvalid); p.Field != field || p.Remedy == "" {
			t.Errorf("%s: %+v", body, p)
		}
	}
	for _, body := range []string{pinned, avoids} {
		p := n.places(`{` + body + `}`)
		k := p.Kinds[0]
		if !p.Starts || k.Fits != 1 || k.Alone != 1 || k.Hosts.Room != 1 || k.Hosts.Empty != 1 || len(k.Hosts.Short) > 0 {
			t.Errorf("%s: %+v", body, p)
		}
	}
	n.hears(offering("rack2", 1)) // of which "two" lacks one: that is for operators
	n.has(instance(id1, "w", compute.StateQueued, func(i *compute.Instance) {
		i.Project, i.Resources[compute.VCPU], i.Boot.Avoid, i.ChangedAt = "own", 2, []compute.HostID{"rack1"}, time.Now()
	}))
	says := func() []string {
		return []string{
			n.places(`{` + avoids + `}`).Summary,
			into[rest.Explanation](n.do("GET", path(id1)+"/explain?project=own", nil), 200).Summary,
		}
	}
	want := "no host can take it now: of 2 hosts 1 full, 1 that it avoids"
	equal(t, "a project's words", []string{want, want}, says())
	n.as = operator
	avoids = `"flavor":"two","project":"own","avoid":["rack1"]`
	want = "no host can take it now: of 2 hosts 1 full (the nearest is short of 1 processor), 1 that it avoids"
	equal(t, "an operator's words", []string{want, want}, says())
	if p := n.places(`{"flavor":"two","project":"own","host":"rack1","count":5}`); p.Fits != 4 ||
		p.Kinds[0].Hosts.Room != 4 {
		t.Errorf("to operators: %+v", p)
	}
}

// TestPlacementsOfSealedUserData: a host that cannot open it does not take the machine.
func TestPlacementsOfSealedUserData(t *testing.T) {
	keys := sealed.New("", hostkey.NewMaster([32]byte{1}))
	n := nodeThat(t, func(c *Config) { c.UserData = keys }).read()
	n.offer()
	for opens, want := range map[compute.KeyID]int64{"0a0b0c0d": 0, keys.IDs()[0]: 1} {
		b := offering("h1", 8)
		b.Opens = []compute.KeyID{opens}
		n.hears(b)
		if p := n.places(`{"flavor":"m1.small","user_data":"aGk="}`); p.Fits != want {
			t.Errorf("with key %s: %+v", opens, p)
		}
	}
}

// TestPlacementOnAHostWithoutTheKey: what is told of the one host is what it was counted as.
func TestPlacementOnAHostWithoutTheKey(t *testing.T) {
	keys := sealed.New("", hostkey.NewMaster([32]byte{1}))
	n := nodeThat(t, func(c *Config) { c.UserData = keys }).read()
	n.offer()
	for opens, want := range map[compute.KeyID]string{"0a0b0c0d": "lacks-key", keys.IDs()[0]: "fits"} {
		b := offering("h1", 8)
		b.Opens = []compute.KeyID{opens}
		n.hears(b)
		k := n.places(`{"flavor":"m1.small","user_data":"aGk=","host":"h1"}`).Kinds[0]
		if k.Hosts.By[want] != 1 || strings.Contains(k.Summary, "can take it now") != (want == "fits") {
			t.Errorf("it %s: %+v", want, k)
		}
	}
}
