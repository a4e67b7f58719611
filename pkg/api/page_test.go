// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// TestWalkSeesEveryInstanceOnce: however instances are accepted, decided,
// changed and forgotten while somebody walks through the list, whatever was
// there all the time is seen exactly once, and nothing is seen twice. A request
// that another node accepted at another time moves nothing.
func TestWalkSeesEveryInstanceOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := newNode(t)
		w := &walked{node: n, there: map[compute.InstanceID]bool{}, throughout: map[compute.InstanceID]bool{}}
		for range rapid.IntRange(0, 20).Draw(rt, "before") {
			w.step(rt)
		}
		for id := range w.there {
			w.throughout[id] = true
		}
		seen := map[compute.InstanceID]int{}
		limit, marker := rapid.IntRange(1, 5).Draw(rt, "limit"), ""
		for pages := 0; ; pages++ {
			page := n.list(fmt.Sprintf("all=true&fields=id&limit=%d&marker=%s", limit, url.QueryEscape(marker)))
			for _, i := range page.Items {
				seen[i.ID]++
			}
			if marker = page.Next; marker == "" {
				break
			}
			if pages > 200 {
				rt.Fatal("the walk does not end")
			}
			for range rapid.IntRange(0, 4).Draw(rt, "meanwhile") {
				w.step(rt)
			}
		}
		for id := range w.throughout {
			if seen[id] != 1 {
				rt.Fatalf("%s was there throughout and seen %d times", id, seen[id])
			}
		}
		for id, times := range seen {
			if times > 1 && !w.forgotten[id] {
				rt.Fatalf("%s was seen %d times", id, times)
			}
		}
	})
}

// walked is what happens to a list.
type walked struct {
	*node
	there, throughout, forgotten map[compute.InstanceID]bool
}

// step lets one thing happen to one of a few instances.
func (w *walked) step(rt *rapid.T) {
	id := compute.InstanceID(fmt.Sprintf("%08d-1111-4111-8111-111111111111", rapid.IntRange(0, 15).Draw(rt, "id")))
	at := start.Add(time.Duration(rapid.IntRange(0, 5).Draw(rt, "at")) * time.Second)
	switch rapid.IntRange(0, 3).Draw(rt, "what") {
	case 0: // accepted, perhaps again, perhaps by another node
		w.Requests([]wire.Record{wire.EncodeRequest(compute.Request{
			Project: "default", Instance: id, Op: compute.OpBoot, Boot: &compute.Boot{Flavor: "m1.small"}, At: at,
		})}, true)
		w.there[id] = true
	case 1, 2: // decided or changed
		state := rapid.SampledFrom([]compute.State{
			compute.StateQueued, compute.StateActive, compute.StateDeleted,
		}).Draw(rt, "state")
		w.has(instance(id, "", state, func(i *compute.Instance) { i.AcceptedAt = at }))
		w.there[id] = true
	case 3: // forgotten
		w.Instances([]wire.Record{wire.Tombstone(wire.KeyInstance("default", id))}, true)
		delete(w.there, id)
		delete(w.throughout, id)
		if w.forgotten == nil {
			w.forgotten = map[compute.InstanceID]bool{}
		}
		w.forgotten[id] = true
	}
}

// TestFirstMatchesSorting: picking the first few is the same as sorting all.
func TestFirstMatchesSorting(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all := rapid.SliceOf(rapid.IntRange(0, 20)).Draw(rt, "all")
		n := rapid.IntRange(1, 10).Draw(rt, "n")
		compare := func(a, b int) int { return a - b }
		want := slices.Sorted(slices.Values(all))
		want = want[:min(n, len(want))]
		if got := smallest(n, slices.Clone(all), compare); !slices.Equal(got, want) {
			rt.Fatalf("first %d of %v: %v, want %v", n, all, got, want)
		}
	})
}

// TestListsOfNamesPage: queues, hosts, flavors, capabilities and quotas, whatever
// the size of a page; what is there throughout is seen once.
func TestListsOfNamesPage(t *testing.T) {
	n := newNode(t)
	n.offer()
	for i := range 7 {
		n.hears(compute.Beacon{Host: compute.HostID(fmt.Sprintf("h%d", i))})
		n.has(instance(compute.InstanceID(fmt.Sprintf("%08d-1111-4111-8111-111111111111", i)), "", compute.StateActive,
			func(in *compute.Instance) { in.Project = compute.Project(fmt.Sprintf("p%d", i)) }))
		into[rest.Change](n.do("POST", "/v1/flavors", rest.Flavor{
			Name:      compute.FlavorName(fmt.Sprintf("f%d", i)),
			Resources: compute.Resources{compute.VCPU: 1, compute.MemoryMB: 1, compute.DiskGB: 1},
		}), 200)
	}
	for path, count := range map[string]int{
		"/v1/queues": 3, "/v1/hosts": 7, "/v1/flavors": 8, "/v1/capabilities": 2, "/v1/quotas": 8,
	} {
		whole := n.names(path, 1000)
		if len(whole) != count || !slices.IsSorted(whole) {
			t.Errorf("%s: %v, want %d", path, whole, count)
		}
		for limit := 1; limit <= count; limit++ {
			equal(t, fmt.Sprintf("%s by %d", path, limit), whole, n.names(path, limit))
		}
		p := n.do("GET", path+"?limit=0", nil).refused(422, compute.KindInvalid)
		if p.Field != "limit" || p.Value != "0" || p.Remedy == "" {
			t.Errorf("%s: %+v", path, p)
		}
	}
	n.Hosts([]wire.Record{wire.Tombstone([]byte("h3"))}, true)
	if got := n.names("/v1/hosts?marker=h3", 2); strings.Join(got, " ") != "h4 h5 h6" {
		t.Errorf("behind a host that is gone: %v", got)
	}
}

// names walks through a list.
func (n *node) names(path string, limit int) []string {
	n.Helper()
	at, err := url.Parse(path)
	if err != nil {
		n.Fatal(err)
	}
	query := at.Query()
	query.Set("limit", fmt.Sprint(limit))
	var out []string
	for {
		at.RawQuery = query.Encode()
		page := into[struct {
			Items []map[string]any
			Next  string
		}](n.do("GET", at.String(), nil), 200)
		if len(page.Items) > limit {
			n.Fatalf("%d on a page of %d", len(page.Items), limit)
		}
		for _, item := range page.Items {
			for _, name := range []string{"name", "host", "axis", "project"} {
				if text, ok := item[name].(string); ok {
					out = append(out, text)
					break
				}
			}
		}
		if page.Next == "" {
			return out
		}
		if page.Next == query.Get("marker") {
			n.Fatalf("%s: the walk does not get on from %q", path, page.Next)
		}
		query.Set("marker", page.Next)
	}
}

func TestFields(t *testing.T) {
	n := newNode(t)
	n.has(instance(id1, "web", compute.StateActive), instance(id2, "db", compute.StateQueued))
	for query, want := range map[string]string{
		"fields=name,state": `{"items":[{"id":"` + string(id1) +
			`","name":"web","state":"active"},{"id":"` + string(id2) + `","name":"db","state":"queued"}]}`,
		"fields=id&name=web": `{"items":[{"id":"` + string(id1) + `"}]}`,
		"fields=host,with":   `{"items":[{"id":"` + string(id1) + `","host":"h1"},{"id":"` + string(id2) + `"}]}`,
		"fields=state&limit=1": `{"items":[{"id":"` + string(id1) + `","state":"active"}],"next":"` +
			fmt.Sprint(start.UnixNano()) + "_" + string(id1) + `"}`,
		"fields=name&name=nothing": `{"items":[]}`,
	} {
		if a := n.do("GET", "/v1/instances?"+query, nil); a.status != 200 || strings.TrimSpace(string(a.body)) != want {
			t.Errorf("%s: %d\n got %s\nwant %s", query, a.status, a.body, want)
		}
	}
	if a := n.do("GET", path(id1)+"?fields=flavor",
		nil); strings.TrimSpace(string(a.body)) != `{"id":"`+string(id1)+`","flavor":"m1.small"}` {
		t.Errorf("%s", a.body)
	}
	for _, at := range []string{"/v1/instances?fields=id,colour", path(id1) + "?fields=colour"} {
		p := n.do("GET", at, nil).refused(422, compute.KindInvalid)
		if p.Field != "fields" || p.Value != "colour" ||
			!strings.Contains(p.Remedy, "id, project, name, state, reason, waiting, flavor") {
			t.Errorf("%s: %+v", at, p)
		}
	}
	n.do("GET", "/v1/instances?fields=,", nil).refused(422, compute.KindInvalid)
}

// TestAllFieldsCanBeChosen: choosing them all is choosing none.
func TestAllFieldsCanBeChosen(t *testing.T) {
	n := newNode(t)
	n.has(instance(id1, "web", compute.StateQueued))
	whole := into[map[string]any](n.do("GET", path(id1), nil), 200)
	var names []string
	for _, f := range instanceFields {
		names = append(names, f.name)
	}
	equal(t, "all fields", whole,
		into[map[string]any](n.do("GET", path(id1)+"?fields="+strings.Join(names, ","), nil), 200))
	data, err := json.Marshal(selected{instance: rest.Instance{}, only: fields{"id"}})
	if err != nil || string(data) != `{"id":""}` {
		t.Errorf("%s %v", data, err)
	}
}
