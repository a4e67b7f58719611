// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func path(id compute.InstanceID) string { return "/v1/instances/" + string(id) }

func (n *node) show(id compute.InstanceID) rest.Instance {
	n.Helper()
	return into[rest.Instance](n.do("GET", path(id), nil), 200)
}

func TestShowAll(t *testing.T) {
	n := newNode(t)
	i := instance(id1, "web", compute.StateActive, func(i *compute.Instance) {
		i.Boot.With, i.Queue = compute.Choices{"gpu": "a100"}, "m1.small.gpu-a100"
		i.Boot.Image, i.Boot.Metadata, i.Boot.UserData = "debian", map[string]string{"a": "b"}, "secret"
		i.Boot.Avoid = []compute.HostID{"h9"}
		i.Attempt, i.Version, i.Power = 2, 7, compute.PowerRunning
		i.Failures = []compute.Failure{{Host: "h3", Attempt: 1, Class: compute.FailureHost, Message: "disk", At: start}}
		i.StartingAt, i.ActiveAt = start.Add(2*time.Second), start.Add(3*time.Second)
	})
	n.has(i)
	want := rest.Instance{
		ID: id1, Project: "default", Name: "web", State: "active", Flavor: "m1.small",
		With: compute.Choices{"gpu": "a100"}, Queue: "m1.small.gpu-a100",
		Resources: compute.Resources{compute.VCPU: 1, compute.MemoryMB: 2048, compute.DiskGB: 20},
		Image:     "debian", Metadata: map[string]string{"a": "b"}, Attempts: 3, OnNoCapacity: "wait",
		Avoid: []compute.HostID{"h9"},
		Host:  "h1", Attempt: 2, Power: "running", Version: 7,
		Failures:   []rest.Failure{{Host: "h3", Attempt: 1, Class: "host", Message: "disk", At: start}},
		AcceptedAt: start, QueuedAt: start.Add(time.Second), Deadline: start.Add(time.Hour),
		StartingAt: start.Add(2 * time.Second), ActiveAt: start.Add(3 * time.Second), ChangedAt: start.Add(time.Second),
	}
	a := n.do("GET", path(id1), nil)
	equal(t, "shown", want, into[rest.Instance](a, 200))
	if strings.Contains(string(a.body), "user_data") {
		t.Error("user data is for the machine, not for whoever looks")
	}
	n.do("GET", path(id1)+"?project=web", nil).refused(404, compute.KindNotFound)
}

// TestNeverDecided: what the conductor rejects, because it lies in another's
// partition or because its id is another project's, is not shown as accepted.
func TestNeverDecided(t *testing.T) {
	n := newNode(t)
	twin := compute.Project("q")
	for wire.Partition(twin, 4) != wire.Partition("default", 4) {
		twin += "q"
	}
	boot := func(p compute.Project) wire.Record {
		return wire.EncodeRequest(compute.Request{
			Project: p, Instance: id1, Op: compute.OpBoot, Boot: &compute.Boot{Flavor: "m1.small"}, At: start,
		})
	}
	astray := boot("default")
	astray.Partition = (wire.Partition("default", 4) + 1) % 4
	n.Server.Requests([]wire.Record{astray}, true)
	n.do("GET", path(id1), nil).refused(404, compute.KindNotFound)

	n.Requests([]wire.Record{boot(twin)}, true)
	n.has(instance(id1, "mine", compute.StateQueued)) // the conductor read this project's first
	n.do("GET", path(id1)+"?project="+string(twin), nil).refused(404, compute.KindNotFound)
	n.Requests([]wire.Record{boot(twin)}, true)
	n.do("GET", path(id1)+"?project="+string(twin), nil).refused(404, compute.KindNotFound)
	n.offer()
	n.do("POST", "/v1/instances?project="+string(twin), map[string]any{"id": id1, "flavor": "m1.small"}).refused(
		409, compute.KindConflict,
	)
	if got := n.show(id1); got.Name != "mine" {
		t.Errorf("%+v", got)
	}
}

// deciding is a node, and conductors whose position is the one that it is told.
func deciding(t *testing.T) (n *node, decide func(position int64)) {
	position := int64(0)
	home := wire.Partition("default", 4)
	n = nodeThat(t, func(c *Config) {
		c.Decided = func(context.Context) (map[int32]int64, error) { return map[int32]int64{home: position}, nil }
	}).read()
	return n, func(p int64) {
		position = p
		if err := n.dropRefused(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// bootAt is a boot as it lies in requests.
func bootAt(id compute.InstanceID, name string, offset int64) wire.Record {
	rec := wire.EncodeRequest(compute.Request{
		Project: "default", Instance: id, Op: compute.OpBoot, Boot: &compute.Boot{Name: name, Flavor: "m1.small"}, At: start,
	})
	rec.Offset = offset
	return rec
}

// TestRefusedBootsAreNotAccepted: what conductors have dealt with and is no instance is not shown as accepted until
// this node starts again. What they have not dealt with is, and so is what they have decided meanwhile.
func TestRefusedBootsAreNotAccepted(t *testing.T) {
	n, decide := deciding(t)
	r := n.counted()
	forged, signed := bootAt(id1, "forged", 5), bootAt(id3, "signed", 7)
	signed.Headers = append(signed.Headers, wire.Header{Key: wire.HeaderPublisher, Value: []byte("1 ci q 01020304 00")})
	n.Requests([]wire.Record{forged, bootAt(id2, "real", 6), signed}, true)
	decide(5)
	decide(9) // of another log than the one that was read
	if got := n.show(id1); got.State != "accepted" {
		t.Errorf("what nobody has dealt with is %s", got.State)
	}
	n.sync = func() error { n.has(instance(id2, "real", compute.StateQueued)); return nil }
	decide(7)
	gone := n.do("GET", path(id1), nil).refused(404, compute.KindNotFound)
	for _, want := range []string{"refused", "not signed", "offset 5 in partition"} {
		if !strings.Contains(gone.Detail+gone.Remedy, want) {
			t.Errorf("it does not say %q: %+v", want, gone)
		}
	}
	if two, three := n.show(id2), n.show(id3); two.State != "queued" || three.State != "accepted" {
		t.Errorf("%s and %s, want queued and accepted", two.State, three.State)
	}
	decide(8)
	gone = n.do("GET", path(id3), nil).refused(404, compute.KindNotFound)
	if strings.Contains(gone.Detail+gone.Remedy, "not signed") {
		t.Errorf("it was: %+v", gone)
	}
	if !n.views.instances.decidedAll() {
		t.Error("there is nothing undecided, and the node goes on asking")
	}
	telemetrytest.Is(t, r, 2, "berth_api_dropped_boots_total")
}

// TestARefusedBootIsRepeated under the same id, once its cause is mended, and is a new request.
func TestARefusedBootIsRepeated(t *testing.T) {
	n, decide := deciding(t)
	n.offer()
	body := map[string]any{"id": id1, "flavor": "m1.small"}
	n.do("POST", "/v1/instances", body)
	n.Requests([]wire.Record{bootAt(id1, "", 41)}, true) // where the broker put it
	decide(42)
	n.do("GET", path(id1), nil).refused(404, compute.KindNotFound)
	n.published()
	n.do("POST", "/v1/instances", body)
	if sent := n.published(); len(sent) != 1 {
		t.Fatalf("%d were published", len(sent))
	}
	if got := n.show(id1); got.State != "accepted" {
		t.Errorf("it is %s", got.State)
	}
	n.Instances([]wire.Record{wire.Tombstone(wire.KeyInstance("default", id1))}, true)
	if gone := n.do("GET", path(id1), nil).refused(404, compute.KindNotFound); strings.Contains(gone.Detail, "refused") {
		t.Errorf("it was decided since: %+v", gone)
	}
}

// TestTheLastRequestForAnIDCounts: a stranger's boot that was before the real one takes it along with it only once
// both are dealt with.
func TestTheLastRequestForAnIDCounts(t *testing.T) {
	n, decide := deciding(t)
	n.Requests([]wire.Record{bootAt(id1, "forged", 5), bootAt(id1, "real", 6)}, true)
	decide(6)
	if got := n.show(id1); got.State != "accepted" {
		t.Errorf("it is %s", got.State)
	}
	decide(7)
	n.do("GET", path(id1), nil).refused(404, compute.KindNotFound)
}

// TestAcceptedElsewhere: a GET after a 202 finds it on any node.
func TestAcceptedElsewhere(t *testing.T) {
	n := newNode(t)
	boot := wire.EncodeRequest(compute.Request{
		Project: "default", Instance: id1, Op: compute.OpBoot,
		Boot: &compute.Boot{Name: "web", Flavor: "m1.small"}, At: start,
	})
	n.sync = func() error { n.Requests([]wire.Record{boot}, true); return nil }
	got := n.show(id1)
	if got.State != "accepted" || got.Name != "web" || !got.AcceptedAt.Equal(start) ||
		got.Attempts != compute.DefaultAttempts {
		t.Errorf("shown as %+v", got)
	}
	n.do("GET", path(id2), nil).refused(404, compute.KindNotFound)

	n.sync = func() error { return errors.New("broker away") }
	n.do("GET", path(id2), nil).refused(503, compute.KindUnavailable)
	n.show(id1) // what is known needs no Sync
}

// TestRequestsAndRecordsMeetInAnyOrder: the two topics are read independently.
func TestRequestsAndRecordsMeetInAnyOrder(t *testing.T) {
	n := newNode(t)
	boot := wire.EncodeRequest(compute.Request{
		Project: "default", Instance: id1, Op: compute.OpBoot,
		Boot: &compute.Boot{Name: "asked", Flavor: "m1.small"},
	})
	boot.Time = start
	n.has(instance(id1, "decided", compute.StateQueued))
	n.Requests([]wire.Record{boot}, true)
	if got := n.show(id1); got.State != "queued" || got.Name != "decided" {
		t.Errorf("a request read late hides the record: %+v", got)
	}
	n.Instances([]wire.Record{wire.Tombstone(wire.KeyInstance("default", id1))}, true)
	n.do("GET", path(id1), nil).refused(404, compute.KindNotFound)

	n.Requests([]wire.Record{boot}, true)
	if got := n.show(id1); got.State != "accepted" || !got.AcceptedAt.Equal(start) {
		t.Errorf("a request without its own time has the record's: %+v", got)
	}
	n.has(instance(id1, "decided", compute.StateError))
	if got := n.show(id1); got.State != "error" || got.Name != "decided" {
		t.Errorf("the record does not replace the request: %+v", got)
	}
}

// TestUnreadableRecordsAreLeftOut: they stop nothing and change nothing.
func TestUnreadableRecordsAreLeftOut(t *testing.T) {
	n := newNode(t)
	bad := wire.Record{Key: []byte("x"), Value: []byte{0xff}}
	good := wire.EncodeInstance(instance(id1, "web", compute.StateActive))
	n.Instances([]wire.Record{bad, {Key: []byte("no slash")}, good}, true)
	n.Requests([]wire.Record{bad}, true)
	n.Queues([]wire.Record{bad}, true)
	n.Hosts([]wire.Record{bad}, true)
	n.Advice([]wire.Record{bad}, true)
	n.show(id1)
}

func TestDelete(t *testing.T) {
	n := newNode(t)
	n.offer()
	into[rest.Instance](n.do("POST", "/v1/instances", rest.Boot{ID: id1, Flavor: "m1.small"}), 202)
	n.has(instance(id2, "web", compute.StateActive), instance(id3, "old", compute.StateDeleted))
	n.published()
	for _, id := range []compute.InstanceID{id1, id2} {
		a := n.do("DELETE", path(id), nil)
		if got := into[rest.Instance](a, 202); got.ID != id || a.header.Get("Location") != path(id) {
			t.Errorf("answered %+v at %s", got, a.header.Get("Location"))
		}
		recs := n.published()
		if len(recs) != 1 {
			t.Fatalf("published %v", recs)
		}
		req, err := wire.DecodeRequest(recs[0])
		if err != nil || req.Op != compute.OpDelete || req.Instance != id || req.Project != "default" ||
			recs[0].Topic != "test.requests" {
			t.Errorf("published %+v to %s, %v", req, recs[0].Topic, err)
		}
	}
	if got := into[rest.Instance](n.do("DELETE", path(id3), nil), 202); got.State != "deleted" ||
		len(n.published()) != 0 {
		t.Errorf("deleted already, so there is nothing to ask: %+v", got)
	}
	n.do("DELETE", path("44444444-4444-4444-8444-444444444444"), nil).refused(404, compute.KindNotFound)
	n.do("DELETE", path("x"), nil).refused(422, compute.KindInvalid)
	n.do("DELETE", path(id2)+"?project=No", nil).refused(422, compute.KindInvalid)
	n.fail = errors.New("no leader")
	n.do("DELETE", path(id2), nil).refused(504, compute.KindTimeout)
}

func (n *node) list(query string) rest.Instances {
	n.Helper()
	return into[rest.Instances](n.do("GET", "/v1/instances?"+query, nil), 200)
}

func names(page rest.Instances) string {
	var out []string
	for _, i := range page.Items {
		out = append(out, i.Name)
	}
	return strings.Join(out, " ")
}

func TestList(t *testing.T) {
	n := newNode(t)
	later := func(d int) func(*compute.Instance) {
		return func(i *compute.Instance) { i.AcceptedAt = start.Add(time.Duration(d) * time.Second) }
	}
	n.has(
		instance(id1, "c-active", compute.StateActive, later(3)),
		instance(id2, "a-queued", compute.StateQueued, later(1), func(i *compute.Instance) {
			i.Queue, i.Boot.Flavor = "big", "big"
		}),
		instance(id3, "b-gone", compute.StateDeleted, later(2)),
		instance("44444444-4444-4444-8444-444444444444", "d-gone", compute.StateDeleted, later(4)),
		instance("55555555-5555-4555-8555-555555555555", "theirs", compute.StateActive, func(i *compute.Instance) {
			i.Project = "other"
		}),
	)
	boot := wire.EncodeRequest(compute.Request{
		Project: "default", Instance: "66666666-6666-4666-8666-666666666666", Op: compute.OpBoot,
		Boot: &compute.Boot{Name: "e-asked", Flavor: "m1.small"}, At: start.Add(5 * time.Second),
	})
	n.Requests([]wire.Record{boot}, true)
	for query, want := range map[string]string{
		"":                           "a-queued c-active e-asked",
		"all=true":                   "a-queued b-gone c-active d-gone e-asked",
		"project=other":              "theirs",
		"project=nobody":             "",
		"state=active":               "c-active",
		"state=active&state=deleted": "b-gone c-active d-gone",
		"state=accepted":             "e-asked",
		"name=c-active":              "c-active",
		"name=b-gone":                "",
		"name=b-gone&all=true":       "b-gone",
		"host=h1":                    "c-active",
		"host=h2":                    "",
		"flavor=big":                 "a-queued",
		"queue=m1.small":             "c-active e-asked",
		"queue=big&state=active":     "",
		"id=" + string(id1):          "c-active",
		"id=" + string(id1) + "&id=99999999-1111-4111-8111-111111111111":  "c-active",
		"id=" + string(id1) + "&id=" + string(id3) + "&id=" + string(id1): "b-gone c-active",
		"id=" + string(id3): "b-gone",
		"id=" + string(id1) + "&id=" + string(id3) + "&state=deleted": "b-gone",
		"ref=c-active":       "c-active",
		"ref=b":              "b-gone",
		"ref=nothing":        "",
		"ref=11111111":       "c-active",
		"ref=6":              "e-asked",
		"ref=" + string(id2): "a-queued",
	} {
		if got := names(n.list(query)); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// TestRefPrefersTheBestMatch: an exact name is never made ambiguous by longer
// ones, nor a live instance by a deleted one.
func TestRefPrefersTheBestMatch(t *testing.T) {
	n := newNode(t)
	n.has(
		instance(id1, "web", compute.StateActive),
		instance(id2, "web-2", compute.StateActive),
		instance(id3, "web-2", compute.StateDeleted),
		instance("44444444-4444-4444-8444-444444444444", "db-1", compute.StateDeleted),
		instance("45444444-4444-4444-8444-444444444444", "db-2", compute.StateDeleted),
	)
	for ref, want := range map[string]string{
		"web": "web", "web-": "web-2", "we": "web web-2", "web-2": "web-2",
		"33": "web-2", "4": "db-1 db-2", "44": "db-1", "db": "db-1 db-2",
	} {
		got := n.list("ref=" + ref)
		if names(got) != want {
			t.Errorf("%s: %q, want %q", ref, names(got), want)
		}
	}
	if got := n.list("ref=web-2"); got.Items[0].ID != id2 {
		t.Errorf("the deleted one was meant: %+v", got)
	}
}

// TestRefThatMayMeanTooMany: what begins too many names or ids is refused, and deleted ones count where there are no
// others.
func TestRefThatMayMeanTooMany(t *testing.T) {
	n := newNode(t)
	n.has(
		instance(id1, "web", compute.StateActive), instance(id2, "web-2", compute.StateActive),
		instance(id3, "web-3", compute.StateDeleted), instance(id4, "db-1", compute.StateDeleted),
		instance("45444444-4444-4444-8444-444444444444", "db-2", compute.StateDeleted),
	)
	n.meant = 1
	for _, ref := range []string{"we", "w", "db", "4"} {
		p := n.do("GET", "/v1/instances?ref="+ref, nil).refused(422, compute.KindInvalid)
		if p.Field != "ref" || p.Value != ref || p.Message != "may mean more than 1 instances" ||
			!strings.HasPrefix(p.Remedy, "give more of the name or id") {
			t.Errorf("%s: %+v", ref, p)
		}
	}
	for ref, want := range map[string]string{"web": "web", "web-": "web-2", "db-1": "db-1", "44": "db-1", "x": ""} {
		if got := names(n.list("ref=" + ref)); got != want {
			t.Errorf("%s: %q, want %q", ref, got, want)
		}
	}
	n.meant = 2
	if got := names(n.list("ref=we")); got != "web web-2" {
		t.Errorf("as many as may be: %q", got)
	}
}

// TestFreshLists: a node that lags does not answer that a name is still another instance's to a caller that is to act
// upon it. One that only looks is answered, also while Kafka is silent.
func TestFreshLists(t *testing.T) {
	for _, query := range []string{"ref=web", "ref=we", "name=web"} {
		n := newNode(t)
		n.has(instance(id1, "web", compute.StateActive))
		n.sync = func() error {
			n.has(instance(id1, "web", compute.StateDeleted), instance(id2, "web", compute.StateActive))
			return nil
		}
		is := func(query string, want compute.InstanceID) {
			t.Helper()
			if got := n.list(query).Items; len(got) != 1 || got[0].ID != want {
				t.Errorf("%s: %+v, want %s", query, got, want)
			}
		}
		is(query, id1)
		is(query+"&fresh=true", id2)
		n.sync = func() error { return errors.New("silent") }
		n.do("GET", "/v1/instances?fresh=true&"+query, nil).refused(503, compute.KindUnavailable)
		is(query, id2)
	}
}

func TestListRefusals(t *testing.T) {
	n := newNode(t)
	for query, field := range map[string]string{
		"state=asleep": "state[0]", "limit=0": "limit", "limit=1001": "limit", "limit=x": "limit", "marker=x": "marker",
		"marker=1_x": "marker", "id=1111": "id", "host=H%201": "host", "flavor=M1": "flavor",
		"fields=colour": "fields", "project=A": "project", "all=perhaps": "all", "nonsense=1": "nonsense",
	} {
		if p := n.do("GET", "/v1/instances?"+query, nil).refused(422, compute.KindInvalid); p.Field != field {
			t.Errorf("%s: field %q, want %q", query, p.Field, field)
		}
	}
}

// TestPages: whatever the page size, all pages together are the list, in order,
// also where many instances are of the same instant.
func TestPages(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := newNode(t)
		count := rapid.IntRange(0, 30).Draw(rt, "count")
		for c := range count {
			at := start.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "second")) * time.Second)
			n.has(instance(compute.InstanceID(fmt.Sprintf("%08d-1111-4111-8111-111111111111", c)), fmt.Sprint(c),
				compute.StateActive,
				func(i *compute.Instance) { i.AcceptedAt = at }))
		}
		whole := n.list("")
		limit := rapid.IntRange(1, 10).Draw(rt, "limit")
		var all []rest.Instance
		after := ""
		for {
			page := n.list(fmt.Sprintf("limit=%d&marker=%s", limit, url.QueryEscape(after)))
			all = append(all, page.Items...)
			if len(page.Items) > limit || len(all) > count {
				rt.Fatalf("%d on a page of %d, %d so far of %d", len(page.Items), limit, len(all), count)
			}
			if after = page.Next; after == "" {
				break
			}
		}
		if got, want := names(rest.Instances{Items: all}), names(whole); got != want || len(whole.Items) != count {
			rt.Fatalf("pages %q, whole %q", got, want)
		}
		if !slices.IsSortedFunc(all, func(a, b rest.Instance) int { return a.AcceptedAt.Compare(b.AcceptedAt) }) {
			rt.Fatal("not oldest first")
		}
	})
}

// checkSets compares what is of each set.
func checkSets(t *rapid.T, v *instances, model map[instanceKey]entry) {
	mates := func(a, b *compute.Instance) bool {
		return a != nil && !a.State.Ended() && a.Project == b.Project && a.Boot.Set().ID == b.Boot.Set().ID
	}
	for _, k := range model {
		if k.instance == nil || k.instance.Boot.Set().ID == "" {
			continue
		}
		want := 0
		for _, other := range model {
			if mates(other.instance, k.instance) {
				want++
			}
		}
		if got := len(v.mates(k.instance)); got != want {
			t.Fatalf("%d of set %s, not %d", got, k.instance.Boot.Set().ID, want)
		}
	}
}

// TestViewsMatchADumbOne: after any sequence of records the indexes say what a
// plain scan of the newest records says.
func TestViewsMatchADumbOne(t *testing.T) {
	ids := []compute.InstanceID{id1, id2, id3}
	queues := []compute.QueueName{"a", "b"}
	states := []compute.State{
		compute.StateQueued, compute.StateStarting, compute.StateActive, compute.StateDeleted,
		compute.StateError,
	}
	rapid.Check(t, func(rt *rapid.T) {
		v := newInstances(0)
		model := map[instanceKey]entry{}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			at := instanceKey{
				rapid.SampledFrom([]compute.Project{"p", "q"}).Draw(rt, "project"),
				rapid.SampledFrom(ids).Draw(rt, "id"),
			}
			name, queue := rapid.SampledFrom([]string{"", "x", "y"}).Draw(rt, "name"), rapid.SampledFrom(queues).Draw(
				rt, "queue",
			)
			boot := compute.Boot{Name: name, Flavor: compute.FlavorName(queue)}
			host := rapid.SampledFrom([]compute.HostID{"h1", "h2"}).Draw(rt, "host")
			switch rapid.IntRange(0, 2).Draw(rt, "what") {
			case 0:
				v.apply([]change{{key: at}})
				delete(model, at)
			case 1:
				r := &compute.Request{Project: at.project, Instance: at.id, Boot: &boot}
				v.accept([]asked{{Request: r}}, nil)
				if _, ok := model[at]; !ok {
					model[at] = entry{request: r}
				}
			case 2:
				i := &compute.Instance{Project: at.project, ID: at.id, Boot: boot, Queue: queue,
					State:     rapid.SampledFrom(states).Draw(rt, "state"),
					QueuedAt:  start.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "at")) * time.Second),
					Resources: compute.Resources{compute.VCPU: 2}}
				if i.State == compute.StateQueued && rapid.Bool().Draw(rt, "pinned") {
					i.Boot.Host = host
				} else if i.State != compute.StateQueued {
					i.Host = host
				} else if rapid.Bool().Draw(rt, "of a set that is offered whole") {
					i.Boot.InSet(compute.Set{
						ID: rapid.SampledFrom(ids).Draw(rt, "set"), Size: 2,
						Whole: rapid.SampledFrom(queues).Draw(rt, "whole in"),
					})
				} else if rapid.Bool().Draw(rt, "a placeholder") {
					i.Boot.AsPlaceholder(compute.Placeholder{Of: "r", Kept: rapid.Bool().Draw(rt, "kept")})
					if rapid.Bool().Draw(rt, "its time is to come") {
						i.PublishAt = start.Add(time.Hour)
						i.Failures = make([]compute.Failure, rapid.IntRange(0, 1).Draw(rt, "failed"))
					}
				}
				v.apply([]change{{key: at, instance: i}})
				place := unixNano(i.QueuedAt)
				if before, ok := model[at]; ok {
					place = before.listedAt // it stays where it was seen
				}
				model[at] = entry{instance: i, listedAt: place}
			}
			checkViews(rt, v, model, queues)
			checkSets(rt, v, model)
			checkLists(rt, v, model, states)
		}
	})
}

// TestPartsOfAWholeSetStandTogether: in the queue in which a set is offered whole the part that leads stands for all.
func TestPartsOfAWholeSetStandTogether(t *testing.T) {
	v := newInstances(1)
	part := func(id compute.InstanceID, at time.Duration, set compute.InstanceID) *compute.Instance {
		return &compute.Instance{
			Project: "p", ID: id, State: compute.StateQueued, Queue: "one", QueuedAt: start.Add(at),
			Boot: compute.Boot{Rules: compute.RulesOf("", compute.Set{ID: set, Size: 3, Whole: "all"}, 0)},
		}
	}
	parts := []*compute.Instance{part(id1, 2, id2), part(id2, 2, id2), part(id3, 2, id2)}
	before := part("00000000-0000-4000-8000-000000000000", 1, "00000000-0000-4000-8000-000000000000")
	for _, i := range append(parts, before) {
		v.apply([]change{{key: instanceKey{i.Project, i.ID}, instance: i}})
	}
	for _, i := range parts {
		if before, depth, oldest := v.position(i); before != 1 || depth != 2 || !oldest.Equal(start.Add(1)) {
			t.Errorf("%s is at %d of %d since %s", i.ID, before, depth, oldest)
		}
		if own := v.ownBefore(i); own != 1 {
			t.Errorf("%d of its project are before %s", own, i.ID)
		}
	}
}

func checkViews(rt *rapid.T, v *instances, model map[instanceKey]entry, queues []compute.QueueName) {
	for _, p := range []compute.Project{"p", "q"} {
		used := compute.PartAmounts{}
		for at, k := range model {
			if at.project == p && k.instance != nil && k.instance.State.Counts() {
				for _, part := range compute.QuotaParts(k.boot().Priority()) {
					used.Add(part, compute.Resources{compute.Instances: 1, compute.VCPU: 2}, 1)
				}
			}
		}
		if got := v.used(p); !reflect.DeepEqual(got, used) {
			rt.Fatalf("project %s uses %v, want %v", p, got, used)
		}
	}
	for _, q := range queues {
		waiting, working := 0, 0
		var line []*compute.Instance
		for _, k := range model {
			if k.queue() == q && k.needsQueue() {
				working++
				if k.instance != nil && k.instance.State == compute.StateQueued {
					waiting++
				}
			}
			i := k.instance
			waits := i != nil && i.State == compute.StateQueued && i.Boot.Host == "" &&
				!(i.IsPlaceholder() && (i.Boot.Placeholder().Kept || i.PublishAt.After(start) && len(i.Failures) == 0))
			if i != nil && i.State == compute.StateQueued && !waits {
				if before, depth, _ := v.position(i); before != 0 || depth != 0 {
					rt.Fatalf("%s is in no line, and at %d of %d", i.ID, before, depth)
				}
			}
			if waits && cmp.Or(i.Whole(), i.Queue) == q {
				if i.Whole() == "" || i.ID == i.Boot.Set().ID { // one record is of all of the set
					line = append(line, i)
				}
			}
		}
		if v.waiting(q) != waiting || v.needing(q) != working {
			rt.Fatalf("queue %s: waiting %d, working %d; want %d and %d",
				q, v.waiting(q), v.needing(q), waiting, working)
		}
		slices.SortFunc(line, func(a, b *compute.Instance) int {
			return cmp.Or(a.QueuedAt.Compare(b.QueuedAt), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Project, b.Project))
		})
		if v.inLine(q) != len(line) {
			rt.Fatalf("queue %s: %d in line, want %d", q, v.inLine(q), len(line))
		}
		for n, i := range line {
			if before, depth, oldest := v.position(i); int(before) != n || int(depth) != len(line) ||
				!oldest.Equal(line[0].QueuedAt) {
				rt.Fatalf("%s is at %d of %d since %v, want %d of %d since %v",
					i.ID, before, depth, oldest, n, len(line), line[0].QueuedAt)
			}
		}
	}
	for at, k := range model {
		if got, ok := v.get(at); !ok || got != k {
			rt.Fatalf("get %v: %v", at, got)
		}
	}
}

// checkLists asks by a filter of each kind, any of which may be left open.
func checkLists(rt *rapid.T, v *instances, model map[instanceKey]entry, states []compute.State) {
	sh := &presenter{
		views: views{instances: v, hosts: newHosts()}, now: moment{start, start}, silent: map[compute.HostID]bool{"h2": true},
	}
	in := &listInput{
		Name:   rapid.SampledFrom([]string{"", "x"}).Draw(rt, "by name"),
		Host:   rapid.SampledFrom([]compute.HostID{"", "h1", "h2"}).Draw(rt, "by host"),
		Queue:  rapid.SampledFrom([]compute.QueueName{"", "a", "c"}).Draw(rt, "by queue"),
		Flavor: rapid.SampledFrom([]compute.FlavorName{"", "b", "c"}).Draw(rt, "by flavor"),
		All:    rapid.Bool().Draw(rt, "all"), Paging: Paging{Limit: rapid.IntRange(1, 5).Draw(rt, "limit")},
	}
	for _, s := range append(states, compute.StateAccepted, compute.StateUnknown) {
		if rapid.IntRange(0, 5).Draw(rt, "by state") == 0 {
			in.State = append(in.State, s.String())
		}
	}
	var want []entry
	for at, k := range model {
		if at.project == "p" && in.wants(sh, k) {
			want = append(want, k)
		}
	}
	slices.SortFunc(want, entry.compare)
	s := &Server{views: sh.views}
	var got []entry
	for after := (cursor{}); ; {
		found, err := s.candidates("p", in, sh, after)
		if err != nil {
			rt.Fatal(err)
		}
		page := smallest(in.Limit, found, entry.compare)
		if got = append(got, page...); len(page) < in.Limit {
			break
		}
		after = page[len(page)-1].cursor()
	}
	if len(got) != len(want) {
		rt.Fatalf("%+v: %d, want %d", in, len(got), len(want))
	}
	for i := range got {
		if got[i].key() != want[i].key() {
			rt.Fatalf("%+v: number %d is %v, want %v", in, i, got[i].key(), want[i].key())
		}
	}
}

func TestSilentHostsMakeInstancesUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.hears(compute.Beacon{Host: "h1"})
		n.has(
			instance(id1, "on-h1", compute.StateActive),
			instance(id2, "on-h2", compute.StateStarting, func(i *compute.Instance) { i.Host = "h2" }),
			instance(id3, "queued", compute.StateQueued),
		)
		states := func() string {
			return fmt.Sprint(n.show(id1).State, " ", n.show(id2).State, " ", n.show(id3).State)
		}
		time.Sleep(compute.SilentAfter)
		if got := states(); got != "active starting queued" {
			t.Errorf("after 60 s: %s", got)
		}
		time.Sleep(time.Second)
		if got := states(); got != "unknown unknown queued" {
			t.Errorf("after 61 s, h2 never heard: %s", got)
		}
		if got := names(n.list("state=unknown")); got != "on-h1 on-h2" {
			t.Errorf("filter by unknown: %s", got)
		}
		if h := into[rest.HostView](n.do("GET", "/v1/hosts/h1", nil), 200); h.State != "silent" {
			t.Errorf("host shown as %s", h.State)
		}
		n.hears(compute.Beacon{Host: "h1", At: start}) // its own clock plays no part
		if got := states(); got != "active unknown queued" {
			t.Errorf("heard again: %s", got)
		}
	})
}

func TestWhyWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		hosts   compute.HostCounts
		advised bool
		want    compute.ReasonCode
	}{
		"nothing known":   {want: compute.WaitingForCapacity},
		"no hosts at all": {advised: true, want: compute.NoEligibleHost},
		"one fits now": {
			compute.HostCounts{NeverFits: 3, Full: 1, Eligible: 1}, true, compute.WaitingForCapacity,
		},
		"all full":                  {compute.HostCounts{Full: 4}, true, compute.NoEligibleHost},
		"full or too small":         {compute.HostCounts{Full: 1, NeverFits: 4}, true, compute.NoEligibleHost},
		"all too small":             {compute.HostCounts{NeverFits: 4}, true, compute.NeverFits},
		"too small or drained":      {compute.HostCounts{NeverFits: 4, Draining: 1}, true, compute.NoEligibleHost},
		"too small or not heard of": {compute.HostCounts{NeverFits: 4, Silent: 1}, true, compute.NoEligibleHost},
	} {
		if got := whyWaiting(c.hosts, c.advised); got.Code != c.want {
			t.Errorf("%s: %s, want %s", name, got.Code, c.want)
		}
	}
}

func TestWaitingIsExplained(t *testing.T) {
	n := newNode(t)
	at := func(d int) func(*compute.Instance) {
		return func(i *compute.Instance) { i.QueuedAt = start.Add(time.Duration(d) * time.Second) }
	}
	n.has(
		instance(id2, "second", compute.StateQueued, at(2)),
		instance(id1, "first", compute.StateQueued, at(1), func(i *compute.Instance) { i.Project = "other" }),
		instance(id3, "pinned", compute.StateQueued, at(0), func(i *compute.Instance) { i.Boot.Host = "h1" }),
	)
	second := func() *rest.Reason { return n.show(id2).Waiting }
	place := &rest.Place{Position: 1, Depth: 2, Oldest: start.Add(time.Second)}
	equal(t, "without hosts",
		&rest.Reason{Code: compute.NoEligibleHost, Message: "there is no host for it", Place: place}, second())

	n.Advice([]wire.Record{wire.EncodeAdvice(compute.Advice{At: start, About: []compute.QueueAdvice{{
		Queue: "m1.small", Eligible: 3, Hosts: compute.HostCounts{Eligible: 3}, // which is old
	}}})}, true)
	draining := offering("h3", 8)
	draining.State = compute.HostDraining
	for _, b := range []compute.Beacon{offering("h1", 0), offering("h2", 0), draining} {
		n.hears(b)
	}
	equal(t, "all full", &rest.Reason{
		Code: compute.NoEligibleHost, Message: "no host can take it now: of 3 hosts 2 full, 1 draining", Place: place,
		Hosts: &rest.HostCounts{Total: 3, Full: 2, Draining: 1},
	}, second())
	n.hears(offering("h2", 1))
	equal(t, "one fits", &rest.Reason{
		Code: compute.WaitingForCapacity, Message: "waiting for a host, 2 of 2 in line", Place: place,
		Hosts: &rest.HostCounts{Total: 3, Eligible: 1, Full: 1, Draining: 1},
	}, second())
	n.has(instance(id2, "second", compute.StateQueued, at(2), func(i *compute.Instance) {
		i.Boot.Avoid = []compute.HostID{"h1", "h2", "nobody"}
	}))
	equal(t, "all that fit are avoided", &rest.Reason{
		Code: compute.NoEligibleHost, Message: "no host can take it now: of 3 hosts 2 avoided, 1 draining", Place: place,
		Hosts: &rest.HostCounts{Total: 3, Avoided: 2, Draining: 1},
	}, second())

	if got := n.show(id3).Waiting; got.Code != compute.WaitingForCapacity || got.Host != "h1" || got.Place != nil {
		t.Errorf("pinned work is in no line: %+v", got)
	}
	drained := offering("h1", 8)
	drained.State = compute.HostDraining
	n.hears(drained)
	if got := n.show(id3).Waiting; got.Code != compute.PinnedHostUnavailable ||
		got.Message != "host h1 cannot take it: it is draining" {
		t.Errorf("pinned to a draining host: %+v", got)
	}
}
