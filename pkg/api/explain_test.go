// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/explain"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/sealed"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// offering is a beacon of a host with so many processors free of eight, and with plenty of the rest.
func offering(h compute.HostID, free int64) compute.Beacon {
	all := compute.Resources{compute.VCPU: 8, compute.MemoryMB: 1 << 20, compute.DiskGB: 1 << 10}
	left := all.Clone()
	left[compute.VCPU] = free
	return compute.Beacon{
		Host: h, Journal: compute.JournalID("j-" + h), At: start, Free: left, Inventory: compute.Inventory{Totals: all},
	}
}

// TestExplainFollowsBeacons: what is said is worked out from the last word of every host, whatever advice says, and a
// project sees counts where operators see hosts.
func TestExplainFollowsBeacons(t *testing.T) {
	n := lockedNode(t)
	n.Hosts([]wire.Record{{Key: []byte("h1")}}, true) // of which lockedNode has heard
	waits := instance(id1, "w", compute.StateQueued, func(i *compute.Instance) {
		i.Project, i.Resources[compute.VCPU], i.ChangedAt = "own", 4, time.Now()
	})
	n.has(waits)
	explain := func(role auth.Role, project compute.Project) rest.Explanation {
		t.Helper()
		n.as = n.token(role, project)
		return into[rest.Explanation](n.do("GET", path(id1)+"/explain?project=own", nil), 200)
	}
	if e := explain(auth.RoleReader, "own"); e.Summary != "there is no host" || e.State != "queued" || e.Hosts.Total != 0 {
		t.Errorf("%+v", e)
	}
	n.hears(offering("rack1", 1))
	n.hears(offering("rack2", 3))
	e := explain(auth.RoleOperator, "")
	want := rest.Standings{
		Total: 2, Later: 2, By: map[string]uint32{"full": 2}, Empty: 4, Traits: []rest.UnfitTrait{},
		Short: []rest.Shortage{{Class: compute.VCPU, Hosts: 2, Least: 1}},
		Nearest: []rest.HostStanding{
			{Host: "rack2", Standing: "full", Short: compute.Resources{compute.VCPU: 1}},
			{Host: "rack1", Standing: "full", Short: compute.Resources{compute.VCPU: 3}},
		},
		Oldest: e.Hosts.Oldest,
	}
	equal(t, "full", want, *e.Hosts)
	if e.Place == nil || e.Place.Depth != 1 || len(e.YouCan) == 0 || len(e.OperatorsCan) != 1 || len(e.Next) == 0 {
		t.Errorf("%+v", e)
	}
	e = explain(auth.RoleReader, "own")
	if e.Hosts.Nearest != nil || e.OperatorsCan != nil || e.Hosts.Later != 2 || strings.Contains(e.Summary, "rack") {
		t.Errorf("a project sees %+v of %+v", e, e.Hosts)
	}
	n.hears(offering("rack2", 4)) // the very next word
	if e = explain(auth.RoleReader, "own"); e.Hosts.Now != 1 || !strings.HasPrefix(e.Summary, "1 host can take it now") {
		t.Errorf("with room: %s", e.Summary)
	}
}

// TestExplainSealed: a host that cannot open the user data is not one that fits.
func TestExplainSealed(t *testing.T) {
	keys := sealed.New("", hostkey.NewMaster([32]byte{1}))
	n := newNode(t)
	data, err := keys.Seal(sealed.Owner{Project: "default", Instance: id1}, []byte("data"))
	if err != nil {
		t.Fatal(err)
	}
	n.has(instance(id1, "w", compute.StateQueued, func(i *compute.Instance) { i.Boot.Sealed = data }))
	for opens, want := range map[compute.KeyID]string{"0a0b0c0d": "lacks-key", keys.IDs()[0]: "fits"} {
		b := offering("h1", 8)
		b.Opens = []compute.KeyID{opens}
		n.hears(b)
		e := into[rest.Explanation](n.do("GET", path(id1)+"/explain", nil), 200)
		equal(t, want, map[string]uint32{want: 1}, e.Hosts.By)
	}
}

// TestExplainEveryState answers, and what is not there is not found.
func TestExplainEveryState(t *testing.T) {
	n := newNode(t)
	n.offer()
	n.do("POST", "/v1/instances", rest.Boot{ID: id2, Flavor: "m1.small", Name: "new"})
	for _, state := range []compute.State{
		compute.StateQueued, compute.StateStarting, compute.StateActive, compute.StateDeleting, compute.StateDeleted,
		compute.StateError,
	} {
		n.has(instance(id1, "w", state))
		e := into[rest.Explanation](n.do("GET", path(id1)+"/explain", nil), 200)
		if e.Summary == "" || string(e.State) != state.String() || (e.Hosts != nil) != (state == compute.StateQueued) {
			t.Errorf("%s: %+v", state, e)
		}
	}
	e := into[rest.Explanation](n.do("GET", path(id2)+"/explain", nil), 200)
	if e.State != "accepted" || e.Name != "new" || !strings.Contains(e.Summary, "conductor") {
		t.Errorf("%+v", e)
	}
	n.do("GET", path(id3)+"/explain", nil).refused(404, compute.KindNotFound)
}

// TestExplainBoot says before a boot what its instance would say after it: as long as nothing changes between.
func TestExplainBoot(t *testing.T) {
	n := newNode(t)
	n.offer()
	why := func(query string) rest.Placement {
		t.Helper()
		return into[rest.Placement](n.do("GET", "/v1/explain?"+query, nil), 200)
	}
	p := why("flavor=m1.small")
	if p.Starts || p.Summary != "there is no host" || p.Queue != "m1.small" || p.Resources[compute.VCPU] != 1 {
		t.Errorf("%+v", p)
	}
	n.hears(offering("h1", 3))
	gpu := offering("h2", 2)
	gpu.Inventory.Traits, gpu.Free["CUSTOM_A100"] = []compute.Trait{"CUSTOM_GPU"}, 1
	gpu.Inventory.Totals = gpu.Inventory.Totals.Plus(compute.Resources{"CUSTOM_A100": 1})
	n.hears(gpu)
	if p = why("flavor=m1.small"); !p.Starts || p.Hosts.Now != 2 || p.Hosts.Room != 5 {
		t.Errorf("%+v", p)
	}
	if p = why("flavor=m1.small&with=gpu%3Da100"); !p.Starts || p.Hosts.Now != 1 || p.Hosts.By["lacks-trait"] != 1 {
		t.Errorf("%+v", p)
	}
	if p = why("flavor=m1.small&with=gpu%3Da100&avoid=h2"); p.Starts || p.Hosts.Now != 0 || p.Hosts.By["avoided"] != 1 {
		t.Errorf("%+v", p)
	}
	if p = why("flavor=m1.small&host=h1"); !p.Starts || p.Place != nil || p.Hosts.By["pinned-elsewhere"] != 1 {
		t.Errorf("%+v", p)
	}
	n.has(instance(id1, "waits", compute.StateQueued))
	if p = why("flavor=m1.small"); !p.Starts || p.Place.Position != 1 || p.Place.Depth != 1 {
		t.Errorf("behind another, with room for five: %+v of %+v", p, p.Place)
	}
	if p = why("flavor=m1.small&avoid=h1&avoid=h1"); p.Starts != (p.Hosts.Room > 1) || p.Hosts.By["avoided"] != 1 {
		t.Errorf("%+v", p)
	}
	into[rest.QuotaView](n.do("PUT", "/v1/quotas/default",
		rest.QuotaLimits{Limits: compute.Resources{compute.VCPU: 1}}), 200)
	if p = why("flavor=m1.small"); p.Starts || p.Refused == nil || p.Refused.Code != compute.QuotaExceeded ||
		!strings.HasPrefix(p.Summary, "it would be refused: over quota: VCPU limit 1, used 1, asked 1") {
		t.Errorf("over quota: %+v", p)
	}
	for query, field := range map[string]string{
		"flavor=m9": "flavor", "flavor=m1.small&with=gpu": "with", "flavor=m1.small&with=gpu%3Dx": "gpu",
		"flavor=m1.small&host=h9": "host", "": "flavor", "flavor=m1.small&avoid=Not+A+Host": "host",
	} {
		a := n.do("GET", "/v1/explain?"+query, nil)
		if got := into[rest.Problem](a, a.status); a.status < 400 || a.status >= 500 || !strings.HasPrefix(got.Field, field) {
			t.Errorf("%s: %d %+v", query, a.status, got)
		}
	}
	if n.Work("m1.small") != 1 {
		t.Error("asking boots")
	}
}

// TestWaitingCountsOnce: a host that a request avoids twice is one.
func TestWaitingCountsOnce(t *testing.T) {
	n := newNode(t)
	n.hears(offering("h1", 8))
	n.has(instance(id1, "w", compute.StateQueued,
		func(i *compute.Instance) { i.Boot.Avoid = []compute.HostID{"h1", "h1"} }))
	want := &rest.HostCounts{Total: 1, Avoided: 1}
	equal(t, "avoided", want, n.show(id1).Waiting.Hosts)
}

// TestPinnedSaysWhy in lists as it does when it is explained, and a project does not hear how much a host has free.
func TestPinnedSaysWhy(t *testing.T) {
	n := lockedNode(t)
	small := offering("rack1", 2)
	n.hears(small)
	n.has(instance(id1, "w", compute.StateQueued, func(i *compute.Instance) {
		i.Project, i.Boot.Host, i.Resources = "own", "rack1", compute.Resources{compute.VCPU: 4}
	}))
	for _, c := range []struct {
		role    auth.Role
		project compute.Project
		says    string
		room    int64
	}{{auth.RoleOperator, "", "which has too little room: 2 processors short", 2},
		{auth.RoleReader, "own", "which has too little room", 1}} {
		n.as = n.token(c.role, c.project)
		e := into[rest.Explanation](n.do("GET", path(id1)+"/explain?project=own", nil), 200)
		if !strings.HasSuffix(e.Summary, c.says) || e.Hosts.Empty != c.room {
			t.Errorf("to %s: %+v of %+v", c.role, e, e.Hosts)
		}
	}
	small.Inventory.Totals = compute.Resources{compute.VCPU: 3}
	n.hears(small)
	n.as = n.token(auth.RoleOperator, "")
	shown := into[rest.Instance](n.do("GET", path(id1)+"?project=own", nil), 200)
	if w := shown.Waiting; w.Code != compute.PinnedHostUnavailable || w.Detail != "it is too small even when empty" {
		t.Errorf("%+v", w)
	}
}

// TestWhatIsTooMuchForOneAnswer: any reader may ask, so what one answer costs is bounded by the kinds and the hosts.
func TestWhatIsTooMuchForOneAnswer(t *testing.T) {
	n := newNode(t)
	n.offer()
	n.hears(offering("h1", 8))
	n.hears(offering("h2", 8))
	mix := func() answer {
		return n.do("POST", "/v1/placements", `{"mix":[{"flavor":"m1.small"},{"flavor":"m1.small"}]}`)
	}
	refused := func(a answer, field, remedy string) {
		t.Helper()
		if p := a.refused(422, compute.KindInvalid); p.Field != field || p.Remedy != remedy ||
			!strings.Contains(p.Message, "2 hosts") {
			t.Errorf("%+v", p)
		}
	}
	n.judged = judgedForAKind * 2 * 2
	into[rest.Placements](mix(), 200)
	n.judged--
	refused(mix(), "mix", "ask about fewer kinds at a time")
	into[rest.CapacityBy](n.do("GET", "/v1/capacity", nil), 200)
	n.judged = 2
	refused(n.do("GET", "/v1/capacity?by=gpu", nil), "flavor", "give one flavor")
}

// TestPagesOfQueuesAreJudgedWithinABound: a page has as many queues as hosts can be judged for, and a walk has them
// all.
func TestPagesOfQueuesAreJudgedWithinABound(t *testing.T) {
	n := newNode(t)
	n.offer() // three queues
	n.hears(offering("h1", 8))
	n.hears(offering("h2", 8))
	page := func(query string) rest.Queues { return into[rest.Queues](n.do("GET", "/v1/queues"+query, nil), 200) }
	all := page("")
	if len(all.Items) != 3 || all.Next != "" {
		t.Fatalf("%+v", all)
	}
	for judged, most := range map[int]int{7: 3, 6: 3, 5: 2, 4: 2, 3: 1, 1: 1} {
		n.judged = judged
		got := page("")
		if len(got.Items) != most {
			t.Errorf("%d queues are judged for 2 hosts each, where %d may be in all", len(got.Items), judged)
		}
		for got.Next != "" {
			more := page("?marker=" + got.Next)
			got.Items, got.Next = append(got.Items, more.Items...), more.Next
		}
		equal(t, "the walk", all, got)
	}
}

// TestListsJudgeHostsWithinABound: a list tells of all why they wait, and of as many kinds of machines as hosts can be
// judged for what became of hosts.
func TestListsJudgeHostsWithinABound(t *testing.T) {
	n := newNode(t)
	n.hears(offering("h1", 8))
	n.hears(offering("h2", 8))
	for id, queue := range map[compute.InstanceID]compute.QueueName{id1: "a", id2: "b", id3: "c", id4: "a"} {
		n.has(instance(id, string(queue), compute.StateQueued, func(i *compute.Instance) { i.Queue = queue }))
	}
	for judged, want := range map[int]int{7: 4, 6: 4, 5: 3, 4: 3, 3: 2, 2: 2, 1: 0} {
		n.judged = judged
		told := 0
		for _, i := range n.list("").Items {
			if i.Waiting == nil || i.Waiting.Code != compute.WaitingForCapacity {
				t.Errorf("%d: %+v", judged, i.Waiting)
			} else if i.Waiting.Hosts != nil {
				told++
			}
		}
		if told != want {
			t.Errorf("of %d it tells what became of hosts, and not of %d, where %d may be judged", told, want, judged)
		}
	}
}

// TestFewAnswersJudgeHostsAtOnce, and a caller that goes away leaves its place.
func TestFewAnswersJudgeHostsAtOnce(t *testing.T) {
	n := newNode(t)
	n.offer()
	n.hears(offering("h1", 8))
	ask := func(ctx context.Context, status int, when string) {
		t.Helper()
		for _, req := range []*http.Request{
			httptest.NewRequestWithContext(ctx, "POST", "/v1/placements", strings.NewReader(`{"flavor":"m1.small"}`)),
			httptest.NewRequestWithContext(ctx, "GET", "/v1/explain?flavor=m1.small", nil),
			httptest.NewRequestWithContext(ctx, "GET", "/v1/capacity", nil),
			httptest.NewRequestWithContext(ctx, "GET", "/v1/queues", nil),
		} {
			if a := n.ask(req); a.status != status || status == 503 && a.header.Get("Retry-After") == "" {
				t.Errorf("%s %s: %d %q %s", req.URL, when, a.status, a.header, a.body)
			}
		}
	}
	for range judgingAtOnce {
		n.judging <- struct{}{}
	}
	n.config.SyncTimeout = time.Millisecond
	ask(t.Context(), 503, "while as many are answered as may be")
	<-n.judging
	n.config.SyncTimeout = time.Minute
	ask(t.Context(), 200, "once there is a place")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 9 { // a place that is free may be taken before it is seen that nobody waits
		ask(gone, 503, "of a caller that has gone")
	}
	if len(n.judging) != judgingAtOnce-1 {
		t.Errorf("%d are answered", len(n.judging))
	}
}

// TestReadersKeepNoOperatorFromJudging, however many they are, nor operators a reader.
func TestReadersKeepNoOperatorFromJudging(t *testing.T) {
	for name, busy := range map[string]func(*node) (places chan struct{}, kept, free string){
		"readers": func(n *node) (chan struct{}, string, string) {
			return n.projectJudging, n.token(auth.RoleReader, "own"), n.token(auth.RoleOperator, "")
		},
		"operators": func(n *node) (chan struct{}, string, string) {
			return n.judging, n.token(auth.RoleOperator, ""), n.token(auth.RoleReader, "own")
		},
	} {
		n := lockedNode(t)
		places, kept, free := busy(n)
		for range judgingAtOnce {
			places <- struct{}{}
		}
		for _, path := range []string{"/v1/queues", "/v1/capacity", "/v1/explain?flavor=m1.small&project=own"} {
			n.as, n.config.SyncTimeout = kept, time.Millisecond
			n.do("GET", path, nil).refused(503, compute.KindUnavailable)
			n.as, n.config.SyncTimeout = free, time.Minute
			if a := n.do("GET", path, nil); a.status != 200 {
				t.Errorf("while %s are answered: %s: %d %s", name, path, a.status, a.body)
			}
		}
	}
}

// TestStandingsAreDocumented: the API's document names all that a host can be to a machine.
func TestStandingsAreDocumented(t *testing.T) {
	by, _ := reflect.TypeFor[rest.Standings]().FieldByName("By")
	named := strings.FieldsFunc(by.Tag.Get("doc"), func(r rune) bool { return strings.ContainsRune(" :,.", r) })
	for s := explain.Standing(0); s.String() != "unknown"; s++ {
		if !slices.Contains(named, s.String()) {
			t.Errorf("%s is not among them: %q", s, named)
		}
	}
}
