// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
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

// wide is a cell with many queues of one flavor, and what is known of them.
type wide struct {
	*node
	queues, hosts int
}

const wideFlavor = compute.FlavorName("m1.wide")

// newWide is a node that has read so many queues, advice about each of them, a
// beacon of each host, an instance that runs of every tenth queue, and one that
// waits in the first.
func newWide(t testing.TB, queues, hosts int) *wide {
	w := &wide{node: newNode(t), queues: queues, hosts: hosts}
	into[rest.Change](w.do("POST", "/v1/flavors", rest.Flavor{
		Name:      wideFlavor,
		Resources: compute.Resources{compute.VCPU: 1, compute.MemoryMB: 1, compute.DiskGB: 1},
	}), 200)
	full := compute.Advice{At: start, Full: true}
	for i := range queues {
		w.Queues([]wire.Record{wire.EncodeQueue(w.queue(i))}, true)
		full.About = append(full.About, w.news(i))
	}
	w.Advice([]wire.Record{wire.EncodeAdvice(full)}, true)
	for i := range hosts {
		w.hears(w.beacon(i))
	}
	w.has(instance(id1, "web", compute.StateQueued, func(in *compute.Instance) {
		in.Boot.Flavor, in.Boot.With, in.Queue = wideFlavor, w.queue(0).Choices, w.queue(0).Name
	}))
	for i := 0; i < queues; i += 10 {
		id := compute.InstanceID(fmt.Sprintf("%08d-2222-4222-8222-222222222222", i))
		w.has(instance(id, fmt.Sprintf("db-%05d", i), compute.StateActive, func(in *compute.Instance) {
			in.Boot.Flavor, in.Boot.With, in.Queue = wideFlavor, w.queue(i).Choices, w.queue(i).Name
			in.Host = w.beacon(i % hosts).Host
		}))
	}
	return w
}

func (w *wide) queue(i int) compute.Queue {
	q := compute.Queue{
		Flavor:    wideFlavor,
		Choices:   compute.Choices{"gpu": "a100", "number": compute.AxisValue(fmt.Sprintf("n%05d", i))},
		Resources: compute.Resources{compute.VCPU: 1, compute.MemoryMB: 1, compute.DiskGB: 1},
		Required:  []compute.Trait{"CPU_AVX2"}, Group: "agents-0", TopicID: "1",
	}
	q.Name = compute.NameQueue(q.Flavor, q.Choices)
	return q
}

func (w *wide) news(i int) compute.QueueAdvice {
	return compute.QueueAdvice{Queue: w.queue(i).Name, Eligible: 1, Hosts: compute.HostCounts{Eligible: 1, Full: 1}}
}

func (w *wide) beacon(i int) compute.Beacon {
	return compute.Beacon{
		Host: compute.HostID(fmt.Sprintf("h%05d", i)), Waiting: []compute.QueueName{w.queue(i % 100).Name},
	}
}

// get asks, and answers the marker of the next page.
func (w *wide) get(path string) (next string) {
	answer := httptest.NewRecorder()
	w.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	if answer.Code != http.StatusOK {
		w.Fatalf("%s: %d %s", path, answer.Code, answer.Body)
	}
	_, next, _ = strings.Cut(answer.Body.String(), `"next":"`)
	next, _, _ = strings.Cut(next, `"`)
	return next
}

// asked are the requests whose answers are the same size however many queues there are.
func (w *wide) asked() map[string]string {
	return map[string]string{
		"first page of queues":  "/v1/queues?limit=100",
		"page behind a queue":   "/v1/queues?limit=100&marker=" + string(w.queue(50).Name),
		"page of a flavor":      "/v1/queues?limit=100&flavor=" + string(wideFlavor),
		"queue":                 "/v1/queues/" + string(w.queue(7).Name),
		"flavors":               "/v1/flavors",
		"flavor":                "/v1/flavors/" + string(wideFlavor),
		"some hosts":            "/v1/hosts?limit=5",
		"host":                  "/v1/hosts/h00001",
		"instance that waits":   "/v1/instances/" + string(id1),
		"instances":             "/v1/instances?limit=10",
		"instances of a flavor": "/v1/instances?limit=10&flavor=" + string(wideFlavor),
		"instances of a queue":  "/v1/instances?queue=" + string(w.queue(10).Name),
		"instances by ref":      "/v1/instances?ref=" + string(id1[:8]),
		"instances that wait":   "/v1/instances?state=queued",
		"quota":                 "/v1/quotas/default",
		"document":              "/openapi.json",
	}
}

// taken are the records that say something of one queue or one host.
func (w *wide) taken() map[string]func() {
	one := wire.EncodeQueue(w.queue(7))
	few := compute.Advice{At: start, About: []compute.QueueAdvice{w.news(3), w.news(5)}}
	return map[string]func(){
		"record of a queue": func() { w.Queues([]wire.Record{one}, true) },
		"queue goes, is back": func() {
			w.Queues([]wire.Record{wire.Tombstone(wire.KeyQueue(w.queue(7).Name)), one}, true)
		},
		"advice about two": func() { w.Advice([]wire.Record{wire.EncodeAdvice(few)}, true) },
		"beacon":           func() { w.hears(w.beacon(1)) },
	}
}

// TestQueuesMatchAModel: whatever comes and goes, also a queue of the same name and
// another flavor, pages and counts are those of a map that is sorted each time.
func TestQueuesMatchAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v, model := newQueues(), map[compute.QueueName]compute.Queue{}
		flavors := []compute.FlavorName{"", "a", "b"}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			name := compute.QueueName(fmt.Sprintf("q%d", rapid.IntRange(0, 9).Draw(rt, "name")))
			if rapid.IntRange(0, 3).Draw(rt, "goes") == 0 {
				v.remove(name)
				delete(model, name)
				continue
			}
			q := compute.Queue{
				Name: name, Flavor: rapid.SampledFrom(flavors[1:]).Draw(rt, "flavor"),
				State: rapid.SampledFrom([]compute.QueueState{compute.QueueOpen, compute.QueueClosed}).Draw(rt,
					"state"),
				Error: rapid.SampledFrom([]string{"", "", "no"}).Draw(rt, "error"),
			}
			v.put(&q)
			model[name] = q
		}
		for _, f := range flavors {
			var want []compute.QueueName
			var count queueCounts
			for _, name := range slices.Sorted(maps.Keys(model)) {
				if q := model[name]; f == "" || q.Flavor == f {
					want = append(want, name)
					*count.counter(&q)++
				}
			}
			if f != "" && v.count(f) != count {
				rt.Fatalf("flavor %s: %+v, want %+v", f, v.count(f), count)
			}
			p := Paging{Limit: rapid.IntRange(1, 4).Draw(rt, "limit")}
			var got []compute.QueueName
			for {
				page, next := v.page(f, p, nil)
				for _, q := range page {
					got = append(got, q.Name)
				}
				if next == p.Marker && next != "" {
					rt.Fatalf("flavor %q by %d: the walk does not get on from %q", f, p.Limit, next)
				}
				if p.Marker = next; next == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				rt.Fatalf("flavor %q by %d: %v, want %v", f, p.Limit, got, want)
			}
		}
	})
}

// TestWalkThroughQueues: queues come and go while somebody walks through them. The
// queue that the marker names may go too. What is there throughout is seen once.
func TestWalkThroughQueues(t *testing.T) {
	n := newNode(t)
	put := func(names ...string) {
		for _, name := range names {
			q := compute.Queue{
				Name: compute.QueueName(name), Flavor: "m1", Resources: compute.Resources{compute.VCPU: 1},
				TopicID: "1",
			}
			n.Queues([]wire.Record{wire.EncodeQueue(q)}, true)
		}
	}
	gone := func(name string) {
		n.Queues([]wire.Record{wire.Tombstone(wire.KeyQueue(compute.QueueName(name)))}, true)
	}
	page := func(query string) rest.Queues { return into[rest.Queues](n.do("GET", "/v1/queues?"+query, nil), 200) }
	names := func(q rest.Queues) (out []string) {
		for _, i := range q.Items {
			out = append(out, string(i.Name))
		}
		return append(out, "next="+q.Next)
	}
	put("b", "d", "f", "h")
	first := page("limit=2")
	equal(t, "first page", []string{"b", "d", "next=d"}, names(first))
	gone("d")          // the marker
	put("a", "c", "e") // before the marker, before it, and behind it
	equal(t, "second page", []string{"e", "f", "next=f"}, names(page("limit=2&marker="+first.Next)))
	equal(t, "last page", []string{"h", "next="}, names(page("limit=2&marker=f")))
	gone("h")
	equal(t, "behind all", []string{"next="}, names(page("marker=f")))
	equal(t, "marker that was never a queue", []string{"e", "f", "next="},
		names(page("marker="+url.QueryEscape("d.zzz"))))
}

// TestHostsComeAndGo: a host that is forgotten is on no page any more.
func TestHostsComeAndGo(t *testing.T) {
	n := newNode(t)
	for _, h := range []compute.HostID{"h2", "h1", "h3", "h1"} {
		n.hears(compute.Beacon{Host: h})
	}
	n.Server.Hosts([]wire.Record{wire.Tombstone([]byte("h2")), wire.Tombstone([]byte("h9"))}, true)
	equal(t, "hosts", []string{"h1", "h3"}, n.names("/v1/hosts", 1))
}

// TestBeginningsMatchAScan: what a ref finds by the beginning of an id or a name is
// what a look at every instance finds, each once.
func TestBeginningsMatchAScan(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v, model := newInstances(4), map[compute.InstanceID]string{}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			id := compute.InstanceID(rapid.StringMatching("[ab]{3}").Draw(rt, "id"))
			if rapid.IntRange(0, 3).Draw(rt, "goes") == 0 {
				v.apply([]change{{key: instanceKey{"default", id}}})
				delete(model, id)
				continue
			}
			i := instance(id, rapid.StringMatching("[ab]{1,4}").Draw(rt, "name"), compute.StateActive)
			v.apply([]change{{key: instanceKey{"default", id}, instance: &i}})
			model[id] = i.Boot.Name
		}
		ref := rapid.StringMatching("[ab]{1,4}").Draw(rt, "ref")
		meant := func(is func(id, name string) bool) (out []compute.InstanceID) {
			for id, name := range model {
				if is(string(id), name) {
					out = append(out, id)
				}
			}
			slices.Sort(out)
			return out
		}
		want := meant(func(id, _ string) bool { return id == ref })
		if want == nil {
			want = meant(func(_, name string) bool { return name == ref })
		}
		if want == nil {
			want = meant(func(id, name string) bool {
				return strings.HasPrefix(id, ref) || strings.HasPrefix(name, ref)
			})
		}
		var got []compute.InstanceID
		most := rapid.IntRange(1, 31).Draw(rt, "most")
		found, more := v.resolve("default", ref, false, most)
		if more != (len(want) > most) || more && len(found) != most {
			rt.Fatalf("%q finds %d of %d, and more: %t, where %d may be found", ref, len(found), len(want), more, most)
		}
		if more {
			return
		}
		for _, k := range found {
			got = append(got, k.key().id)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			rt.Fatalf("%q finds %v, want %v", ref, got, want)
		}
	})
}

// TestRefusedLists: what cannot be meant is refused with its field, the value and
// what to do.
func TestRefusedLists(t *testing.T) {
	n := newNode(t)
	for query, want := range map[string][2]string{
		"limit=0": {"limit", "0"}, "limit=1001": {"limit", "1001"}, "limit=x": {"limit", "x"},
		"limit=-1":                         {"limit", "-1"},
		"flavor=" + url.QueryEscape("a b"): {"flavor", "a b"},
	} {
		p := n.do("GET", "/v1/queues?"+query, nil).refused(422, compute.KindInvalid)
		if p.Field != want[0] || p.Value != want[1] || strings.TrimSpace(p.Remedy) == "" {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

// BenchmarkLists is what requests and records take with 20,000 queues.
func BenchmarkLists(b *testing.B) {
	for _, hosts := range []int{10, 1000} {
		w := newWide(b, 20_000, hosts)
		asked := w.asked()
		asked["1,000 queues"] = "/v1/queues?limit=1000"
		asked["1,000 hosts"] = "/v1/hosts?limit=1000"
		for _, what := range slices.Sorted(maps.Keys(asked)) {
			b.Run(fmt.Sprintf("%d hosts/%s", hosts, what), func(b *testing.B) {
				for b.Loop() {
					w.get(asked[what])
				}
			})
		}
		b.Run(fmt.Sprintf("%d hosts/all queues", hosts), func(b *testing.B) {
			for b.Loop() {
				pages, next := 1, w.get("/v1/queues?limit=1000")
				for ; next != ""; pages++ {
					next = w.get("/v1/queues?limit=1000&marker=" + next)
				}
				if pages != w.queues/1000 {
					b.Fatalf("%d pages", pages)
				}
			}
		})
		taken := w.taken()
		full := compute.Advice{At: time.Now(), Full: true}
		for i := range w.queues {
			full.About = append(full.About, w.news(i))
		}
		rec := wire.EncodeAdvice(full)
		taken["advice about all"] = func() { w.Advice([]wire.Record{rec}, true) }
		for _, what := range slices.Sorted(maps.Keys(taken)) {
			b.Run(fmt.Sprintf("%d hosts/%s", hosts, what), func(b *testing.B) {
				for b.Loop() {
					taken[what]()
				}
			})
		}
	}
}
