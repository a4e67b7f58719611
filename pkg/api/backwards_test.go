// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// TestOneNodeNeverGoesBack: whatever is booted, decided and changed, in whatever
// order and batches a node hears of it, and however often it starts again and
// reads everything anew from a log that was compacted meanwhile: once it has
// shown an instance, it shows that version or a later one, by id and in lists,
// or says that it is still reading. What any node accepted is never 404.
//
// Seen to fail when a request overwrites the decision, when a batch is applied
// backwards, when a node answers from its first batch on, when a new node reads
// requests from their end instead of from what was decided, and when its reader
// hands over again what it had handed over.
func TestOneNodeNeverGoesBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &watched{T: rt, at: start, shown: map[compute.InstanceID]rest.Instance{}}
		w.restart(t)
		for range rapid.IntRange(1, 80).Draw(rt, "steps") {
			switch rapid.IntRange(0, 12).Draw(rt, "what") {
			case 0, 1:
				w.boot()
			case 2, 3, 4:
				w.decide()
			case 5, 6:
				w.feed(w.node, w.some)
			case 7:
				w.compact()
			case 8, 9:
				w.restart(t)
			default:
				w.checkShown()
			}
		}
		w.feed(w.node, all)
		w.checkShown()
	})
}

// watched is a node, the log that it reads, and what it has shown so far.
type watched struct {
	*rapid.T
	node    *node
	logs    [4]logged
	at      time.Time
	asked   []compute.Request
	shown   map[compute.InstanceID]rest.Instance
	request [4]int // read so far by the node, by partition
	record  [4]int
}

// logged is one partition of the log. What was compacted is nil.
type logged struct {
	requests []wire.Record
	records  []*compute.Instance
	decided  int // requests that the conductor has committed
}

func (w *watched) partition() *logged {
	return &w.logs[rapid.IntRange(0, 3).Draw(w.T, "partition")]
}

// boot is a request that some node has accepted, perhaps again.
func (w *watched) boot() {
	w.at = w.at.Add(time.Second)
	r := compute.Request{
		Project: rapid.SampledFrom([]compute.Project{"default", "p", "q", "r2"}).Draw(w.T, "project"),
		Op:      compute.OpBoot, At: w.at,
		Boot: &compute.Boot{Flavor: "m1.small"},
	}
	r.Instance = wire.KeyedInstance(r.Project, rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 1, 1, -1).Draw(w.T, "id"))
	rec := wire.EncodeRequest(r)
	rec.Partition = wire.Partition(r.Project, 4)
	l := &w.logs[rec.Partition]
	l.requests = append(l.requests, rec)
	w.asked = append(w.asked, r)
}

// decide writes the next record of a partition: what the first undecided request
// leads to, or the next version of what is there.
func (w *watched) decide() {
	l := w.partition()
	w.at = w.at.Add(time.Second)
	if l.decided < len(l.requests) && rapid.Bool().Draw(w.T, "decides") {
		r, err := wire.DecodeRequest(l.requests[l.decided])
		if err != nil {
			w.Fatal(err)
		}
		if l.decided++; l.newest(r.Instance) == nil {
			inst := instance(r.Instance, "", compute.StateQueued, func(i *compute.Instance) {
				i.Project, i.AcceptedAt, i.ChangedAt = r.Project, r.At, w.at
			})
			l.records = append(l.records, &inst)
		}
		return
	}
	var live []*compute.Instance
	for n, i := range l.records {
		if i != nil && !i.State.Ended() && l.newest(i.ID) == l.records[n] {
			live = append(live, i)
		}
	}
	if len(live) == 0 {
		return
	}
	next := *rapid.SampledFrom(live).Draw(w.T, "changes")
	next.Version, next.ChangedAt = next.Version+1, w.at
	switch next.State = rapid.SampledFrom(after[next.State]).Draw(w.T, "becomes"); next.State {
	case compute.StateStarting:
		next.Host, next.Claim = "h1", "claim"
	case compute.StateQueued:
		next.Host, next.Claim, next.Attempt = "", "", next.Attempt+1
	}
	l.records = append(l.records, &next)
}

// after is what may follow a state.
var after = map[compute.State][]compute.State{
	compute.StateQueued:   {compute.StateStarting, compute.StateError, compute.StateDeleted},
	compute.StateStarting: {compute.StateActive, compute.StateQueued, compute.StateDeleting},
	compute.StateActive:   {compute.StateActive, compute.StateDeleting},
	compute.StateDeleting: {compute.StateDeleted},
}

func (l *logged) newest(id compute.InstanceID) *compute.Instance {
	for _, i := range slices.Backward(l.records) {
		if i != nil && i.ID == id {
			return i
		}
	}
	return nil
}

// compact removes what has a later version, or some of it.
func (w *watched) compact() {
	l := w.partition()
	for n, i := range l.records {
		if i != nil && l.newest(i.ID) != i && rapid.Bool().Draw(w.T, "compacts") {
			l.records[n] = nil
		}
	}
}

// restart is a new process under the same address: it reads requests from what
// the conductors have decided, and then the truth from its beginning.
func (w *watched) restart(t *testing.T) {
	w.node = unreadNode(t)
	w.node.catalog.Apply(nil, true)
	w.node.Queues(nil, true)
	w.node.Hosts(nil, true)
	for p, l := range w.logs {
		w.request[p], w.record[p] = l.decided, 0
	}
	n := w.node
	n.sync = func() error { w.feed(n, all); return nil }
}

// feed hands over up to so many records of each topic: one topic before the
// other, and the partitions in any order.
func (w *watched) feed(n *node, most func() int) {
	topics := []func(order []int){
		func(order []int) {
			recs, end := readOn(most(), order, &w.record, func(p int) []*compute.Instance { return w.logs[p].records })
			n.Instances(encoded(recs), end)
		},
		func(order []int) {
			recs, end := readOn(most(), order, &w.request, func(p int) []wire.Record { return w.logs[p].requests })
			n.Server.Requests(recs, end)
		},
	}
	for _, topic := range rapid.Permutation(topics).Draw(w.T, "topics") {
		topic(rapid.Permutation([]int{0, 1, 2, 3}).Draw(w.T, "order"))
	}
}

// some is how much comes at once; all is all there is.
func (w *watched) some() int { return rapid.SampledFrom([]int{0, 1, 2, 3, 1000}).Draw(w.T, "records") }
func all() int               { return 1 << 20 }

// readOn reads on in a topic; it says whether that was to the end of it.
func readOn[T any](most int, order []int, at *[4]int, log func(p int) []T) (recs []T, end bool) {
	end = true
	for _, p := range order {
		n := min(most-len(recs), len(log(p))-at[p])
		recs = append(recs, log(p)[at[p]:at[p]+n]...)
		at[p] += n
		end = end && at[p] == len(log(p))
	}
	return recs, end
}

func encoded(list []*compute.Instance) (recs []wire.Record) {
	for _, i := range list {
		if i != nil {
			recs = append(recs, wire.EncodeInstance(*i))
		}
	}
	return recs
}

// checkShown asks for everything that was ever asked for, by id and in lists.
func (w *watched) checkShown() {
	if rapid.Bool().Draw(w.T, "lists first") {
		w.list()
	}
	for _, r := range w.asked {
		if inst, ok := ask[rest.Instance](w, "/v1/instances/"+string(r.Instance)+"?project="+string(r.Project)); ok {
			w.sees(inst)
		}
	}
	w.list()
}

func (w *watched) list() {
	for _, p := range []compute.Project{"default", "p", "q", "r2"} {
		page, ok := ask[rest.Instances](w, "/v1/instances?all=true&project="+string(p))
		if !ok {
			return
		}
		listed := map[compute.InstanceID]bool{}
		for _, inst := range page.Items {
			listed[inst.ID] = true
			w.sees(inst)
		}
		for id, inst := range w.shown {
			if inst.Project == p && !listed[id] {
				w.Fatalf("%s was shown %s and is not listed any more", id, inst.State)
			}
		}
	}
}

// sees compares with what was shown before. What is only accepted has version 0.
func (w *watched) sees(inst rest.Instance) {
	if old, ok := w.shown[inst.ID]; ok && (inst.Version < old.Version || inst.ChangedAt.Before(old.ChangedAt)) {
		w.Fatalf("%s was shown %s version %d of %s, then %s version %d of %s",
			inst.ID, old.State, old.Version, old.ChangedAt, inst.State, inst.Version, inst.ChangedAt)
	}
	w.shown[inst.ID] = inst
}

// ask gets something; false if the node says that it is still reading.
func ask[T any](w *watched, path string) (out T, ok bool) {
	rec := httptest.NewRecorder()
	w.node.Handler().ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
	switch {
	case rec.Code == 503 && len(w.node.views.behind()) > 0:
		return out, false
	case rec.Code != 200:
		w.Fatalf("GET %s: %d %s", path, rec.Code, rec.Body)
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &out); err != nil {
		w.Fatal(err)
	}
	return out, true
}
