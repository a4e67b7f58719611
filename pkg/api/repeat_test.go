// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// keyedBoot asks with these keys, each in a header of its own.
func (n *node) keyedBoot(body string, keys ...string) answer {
	n.Helper()
	req := httptest.NewRequest("POST", "/v1/instances", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header[http.CanonicalHeaderKey(keyHeader)] = keys
	return n.ask(req)
}

const (
	plain = `{"flavor":"m1.small","name":"web"}`
	other = `{"flavor":"m1.small","name":"db","attempts":5}`
)

// cluster is a log that several nodes write to and read only when they catch
// up: what other nodes do, none knows by itself.
type cluster struct {
	mu    sync.Mutex
	log   []wire.Record
	nodes []*node
}

func newCluster(t *testing.T, size int) *cluster {
	c := &cluster{}
	for range size {
		c.join(t)
	}
	return c
}

// join adds a node that has read all there is, as one that has just started.
func (c *cluster) join(t *testing.T) *node {
	n := newNode(t)
	n.offer()
	n.sync = func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, other := range c.nodes {
			c.log = append(c.log, other.published()...)
		}
		n.Requests(c.log, true)
		return nil
	}
	c.nodes = append(c.nodes, n)
	if err := n.sync(); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestKeyIsOneInstance(t *testing.T) {
	c := newCluster(t, 2)
	first := into[rest.Instance](c.nodes[0].keyedBoot(plain, "deploy-42"), 202)
	if first.ID != wire.KeyedInstance("default", "deploy-42") {
		t.Errorf("id %s", first.ID)
	}
	for name, n := range map[string]*node{
		"same node": c.nodes[0], "another node": c.nodes[1], "after a restart": c.join(t),
	} {
		if again := into[rest.Instance](n.keyedBoot(plain, "deploy-42"), 202); again.ID != first.ID ||
			!again.AcceptedAt.Equal(first.AcceptedAt) {
			t.Errorf("%s: %+v, want %+v", name, again, first)
		}
		if len(n.published()) != 0 {
			t.Errorf("%s: published again", name)
		}
	}
	elsewhere := into[rest.Instance](
		c.nodes[0].keyedBoot(`{"flavor":"m1.small","name":"web","project":"p"}`, "deploy-42"), 202,
	)
	if elsewhere.ID == first.ID {
		t.Error("another project's key is another machine")
	}
}

func TestKeyWithAnotherBody(t *testing.T) {
	c := newCluster(t, 2)
	first := into[rest.Instance](c.nodes[0].keyedBoot(plain, "deploy-42"), 202)
	for name, n := range map[string]*node{
		"another node": c.nodes[1], "same node": c.nodes[0], "after a restart": c.join(t),
	} {
		p := n.keyedBoot(other, "deploy-42").refused(409, compute.KindConflict)
		if p.Field != keyHeader || p.Value != "deploy-42" ||
			!strings.Contains(p.Remedy, "/v1/instances/"+string(first.ID)) {
			t.Errorf("%s: %+v", name, p)
		}
		if p.Reason == nil || p.Reason.Code != compute.RequestDiffers || p.Reason.Detail != "name, attempts" {
			t.Errorf("%s: reason %+v", name, p.Reason)
		}
		p = n.do("POST", "/v1/instances", rest.Boot{ID: first.ID, Flavor: "m1.small", Name: "db"}).refused(409,
			compute.KindConflict)
		if p.Field != "id" || p.Value != string(first.ID) || p.Reason.Detail != "name" {
			t.Errorf("%s: %+v", name, p)
		}
		if len(n.published()) != 0 {
			t.Errorf("%s: published all the same", name)
		}
	}
}

func TestKeyRefusals(t *testing.T) {
	n := newNode(t)
	n.offer()
	for name, c := range map[string]struct {
		body  string
		keys  []string
		field string
		want  string
	}{
		"empty":              {plain, []string{""}, keyHeader, "is empty"},
		"too long":           {plain, []string{strings.Repeat("k", maxKey+1)}, keyHeader, "is too long"},
		"not ASCII":          {plain, []string{"schlüssel"}, keyHeader, "not printable ASCII"},
		"control characters": {plain, []string{"a\tb"}, keyHeader, "not printable ASCII"},
		"given twice":        {plain, []string{"a", "b"}, keyHeader, "more than once"},
		"an id besides": {
			`{"flavor":"m1.small","id":"` + string(id1) + `"}`, []string{"a"}, "id", "leave the id out",
		},
	} {
		p := n.keyedBoot(c.body, c.keys...).refused(422, compute.KindInvalid)
		if p.Field != c.field || !strings.Contains(p.Detail, c.want) || p.Remedy == "" {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if len(n.published()) != 0 {
		t.Error("published all the same")
	}
	id := wire.KeyedInstance("default", "a")
	for _, ok := range []answer{
		n.keyedBoot(`{"flavor":"m1.small","id":"`+string(id)+`"}`, "a"),
		n.keyedBoot(plain, strings.Repeat("k", maxKey)), n.keyedBoot(plain, "{ }~!"),
	} {
		into[rest.Instance](ok, 202)
	}
}

// TestKeyAfterTheEnd: a key answers its instance, whatever became of it. It
// never makes a second one.
func TestKeyAfterTheEnd(t *testing.T) {
	id := wire.KeyedInstance("default", "deploy-42")
	for _, state := range []compute.State{compute.StateActive, compute.StateDeleted, compute.StateError} {
		n := newNode(t)
		n.offer()
		n.has(instance(id, "web", state))
		if got := into[rest.Instance](n.keyedBoot(plain, "deploy-42"),
			202); got.State != rest.State(state.String()) || len(n.published()) != 0 {
			t.Errorf("%s: answered %s", state, got.State)
		}
		n.keyedBoot(other, "deploy-42").refused(409, compute.KindConflict)
	}
	n := newNode(t)
	n.offer()
	// deleted before anybody booted it
	n.has(compute.Instance{ID: id, Project: "default", State: compute.StateDeleted, EndedAt: start})
	if got := into[rest.Instance](n.keyedBoot(plain, "deploy-42"), 202); got.State != "deleted" {
		t.Errorf("answered %s", got.State)
	}
}

// TestUserDataOfTheEnded is dropped with the machine: a repetition cannot be
// told from it by its user data, but by everything else.
func TestUserDataOfTheEnded(t *testing.T) {
	const with, without, differs = `{"flavor":"m1.small","name":"web","user_data":"aGk="}`, plain,
		`{"flavor":"m1.small","name":"db","user_data":"aGk="}`
	id := wire.KeyedInstance("default", "deploy-42")
	for _, c := range []struct {
		state compute.State
		body  string
		says  string // what differs
	}{
		{compute.StateActive, with, ""},
		{compute.StateActive, without, "user_data"},
		{compute.StateError, with, ""},
		{compute.StateError, without, ""},
		{compute.StateDeleted, with, ""},
		{compute.StateDeleted, without, ""},
		{compute.StateDeleted, differs, "name"},
	} {
		n := newNode(t)
		n.offer()
		n.has(instance(id, "web", c.state, func(i *compute.Instance) {
			if !c.state.Ended() {
				i.Boot.UserData = "hi"
			}
		}))
		a := n.keyedBoot(c.body, "deploy-42")
		if c.says == "" {
			into[rest.Instance](a, 202)
		} else if p := a.refused(409, compute.KindConflict); p.Reason == nil || p.Reason.Detail != c.says {
			t.Errorf("%s, %s: %+v", c.state, c.body, p)
		}
	}
}

// TestKeyWhenKafkaIsSilent: a node that does not know what others accepted accepts nothing.
func TestKeyWhenKafkaIsSilent(t *testing.T) {
	n := newNode(t)
	n.offer()
	n.sync = func() error { return errors.New("no leader") }
	a := n.keyedBoot(plain, "deploy-42")
	if p := a.refused(503, compute.KindUnavailable); a.header.Get("Retry-After") == "" ||
		!strings.Contains(p.Remedy, "nothing was done") {
		t.Errorf("%+v %v", p, a.header)
	}
	if len(n.published()) != 0 {
		t.Error("published")
	}
}

// TestKeyTwiceAtOnce: of two requests that come to one node together, the second
// waits and learns of the first.
func TestKeyTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.offer()
		n.holds()
		answers := make(chan answer, 2)
		for _, body := range []string{plain, other} {
			go func() { answers <- n.keyedBoot(body, "deploy-42") }()
			synctest.Wait()
		}
		close(n.hold)
		first, second := <-answers, <-answers
		if first.status+second.status != 202+409 || len(n.published()) != 1 {
			t.Errorf("answered %d and %d", first.status, second.status)
		}
	})
}

// TestTooManyWithOneKey: requests that wait for an earlier one are bounded too, whatever
// they wait for.
func TestTooManyWithOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.offer()
		n.locks.limit = 3
		n.holds()
		answers := make(chan answer, 10)
		ask := func(key string) {
			go func() { answers <- n.keyedBoot(plain, key) }()
			synctest.Wait()
		}
		for range 4 { // one publishes, three wait
			ask("deploy-42")
		}
		ask("deploy-43") // nobody waits for it
		for range 2 {
			ask("deploy-42")
			ask("deploy-43")
		}
		for range 4 {
			(<-answers).tooMany("3")
		}
		close(n.hold)
		for range 5 {
			into[rest.Instance](<-answers, 202)
		}
		if n.locks.waiting != 0 || len(n.locks.busy) != 0 {
			t.Errorf("%d wait, %d are under way", n.locks.waiting, len(n.locks.busy))
		}
	})
}

// TestDifferencesMatchEquality: two requests differ in something exactly if they
// are not the same, defaults filled in.
func TestDifferencesMatchEquality(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(who string) compute.Boot {
			b := compute.Boot{
				Name: rapid.SampledFrom([]string{"", "a"}).Draw(rt, who), Flavor: "f",
				Attempts: compute.Attempt(rapid.SampledFrom([]int{0, 3, 4}).Draw(rt, who)),
				Metadata: rapid.SampledFrom([]map[string]string{nil, {}, {"a": "b"}}).Draw(rt, who),
				With:     rapid.SampledFrom([]compute.Choices{nil, {}, {"gpu": "a100"}}).Draw(rt, who),
				UserData: rapid.SampledFrom([]compute.UserData{"", "\x01"}).Draw(rt, who),
				Rules:    compute.InGroup(rapid.SampledFrom([]compute.GroupName{"", "web"}).Draw(rt, who)),
				Avoid:    rapid.SampledFrom([][]compute.HostID{nil, {}, {"h"}}).Draw(rt, who),
				Host:     rapid.SampledFrom([]compute.HostID{"", "h1"}).Draw(rt, who),
			}
			return b
		}
		a, b := draw("a"), draw("b")
		same := string(wire.EncodeRequest(compute.Request{Op: compute.OpBoot, Boot: ref(a.WithDefaults())}).Value) ==
			string(wire.EncodeRequest(compute.Request{Op: compute.OpBoot, Boot: ref(b.WithDefaults())}).Value)
		if got := differences(a, b); (len(got) == 0) != same {
			rt.Fatalf("%+v and %+v: %v, same %v", a, b, got, same)
		}
	})
}

func ref[T any](v T) *T { return &v }
