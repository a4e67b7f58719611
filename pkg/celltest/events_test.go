// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/statusserver"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// nodes are the addresses of API nodes. Each connection goes to the next one.
type nodes struct {
	mu    sync.Mutex
	addrs []string
	calls atomic.Uint64
}

func (n *nodes) set(i int, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs[i] = addr
}

func (n *nodes) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	n.mu.Lock()
	addr := n.addrs[n.calls.Add(1)%uint64(len(n.addrs))]
	n.mu.Unlock()
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// heard is one change, as a listener has heard it or as it is in the log.
type heard struct {
	project   compute.Project
	id        compute.InstanceID
	version   compute.Version
	state     string
	partition int32
	goesOn    string // the id, of a listener to one project
}

// listener follows events and breaks off every so many, if it does.
type listener struct {
	project compute.Project // empty: all
	every   int
	after   string

	mu    sync.Mutex
	heard []heard
	gaps  int
	err   error
}

func (l *listener) run(ctx context.Context, c *client.Client) {
	for ctx.Err() == nil && l.failed() == nil {
		n := 0
		ask := client.Follow{AllProjects: l.project == "", After: l.after, Since: time.Unix(0, 0)}
		for told, err := range c.Events(ctx, ask) {
			l.mu.Lock()
			switch {
			case compute.KindOf(mayPass(err)) == compute.KindUnavailable: // of a node that is stopped: the next is another
				l.mu.Unlock()
				continue
			case err != nil:
				l.err = err
			case told.Kind == rest.EventChange:
				e := told.Event
				h := heard{e.Project, e.Instance, e.Version, string(e.State), wire.Partition(e.Project, 4), ""}
				if l.project != "" {
					h.goesOn, _, _ = strings.Cut(told.ID, "@")
				}
				l.heard = append(l.heard, h)
			default:
				l.gaps++
			}
			l.mu.Unlock()
			l.after = told.ID
			if n++; err != nil || l.every > 0 && n == l.every {
				break
			}
		}
	}
}

func (l *listener) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *listener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.heard)
}

// changesIn are what the log says, read by the test itself: the changes of a project, or of all, by partition.
func changesIn(t *testing.T, recs []wire.Record, project compute.Project) map[int32][]heard {
	t.Helper()
	all := map[int32][]heard{}
	for _, rec := range recs {
		if rec.IsTakeover() || rec.Value == nil {
			continue
		}
		i, err := wire.DecodeInstance(rec)
		if err != nil {
			t.Fatal(err)
		}
		if project != "" && i.Project != project {
			continue
		}
		h := heard{i.Project, i.ID, i.Version, i.State.String(), rec.Partition, ""}
		if project != "" {
			h.goesOn = fmt.Sprintf("%d:%d", rec.Partition, rec.Offset+1)
		}
		all[rec.Partition] = append(all[rec.Partition], h)
	}
	return all
}

// fewListeners break off now and then, and are all that there are where -race plays the test; manyListeners are as many as a
// node takes by itself.
const fewListeners, manyListeners = 60, 1000

// Many listen at two API nodes, and move from one to the other, while a broker is killed and one of the nodes is stopped
// and another one begins: each hears every change that is in the log, once, and in its order. So does the receiver of a
// forwarder, which refuses for a while and is left by one forwarder to the next.
func TestEventsThroughABrokerKill(t *testing.T) {
	t.Parallel()
	on := kafkatest.StartT(t, kafkatest.Options{Nodes: 3, Heap: "256m", Properties: fastBrokers()})
	r, _ := oneFlavor(t, kafkatest.Broker{Addrs: on.Addrs(), Prefix: "events.", Real: true}, smallHost(1), smallHost(2))
	startAPI := func(name string) string {
		part, f := cell.NewAPIWithServer(r.prepared(name), statusserver.Options{Address: "127.0.0.1:0"}, cell.APIOptions{})
		r.start(name, part)
		return f.Addr().String()
	}
	to := &nodes{addrs: []string{r.api, startAPI("api-2")}}
	projects := []compute.Project{"p", "q", ""}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var listeners []*listener
	many := fewListeners
	if os.Getenv("BERTH_TEST_LONG") == "1" {
		many = manyListeners
	}
	for n := range many {
		l := &listener{project: projects[n%3]}
		if n < fewListeners {
			l.every = []int{0, 1, 7}[n/3%3]
		}
		c, err := client.New(client.Config{Address: r.api, Project: l.project, Patience: patience, Dial: to.dial})
		r.must(err)
		t.Cleanup(c.Close)
		listeners = append(listeners, l)
		all.Go(func() { l.run(ctx, c) })
	}

	c, err := client.New(client.Config{Address: r.api, Project: "p", Patience: patience, Dial: to.dial})
	r.must(err)
	t.Cleanup(c.Close)
	posted := newReceiver(t, c)

	asked := map[compute.InstanceID]compute.State{}
	boot := func(n int) (ids []compute.InstanceID) {
		for i := range n {
			c := r.client(client.Config{Project: projects[i%2]})
			id := compute.InstanceID(uuid.NewString())
			_, err := c.Boot(t.Context(), id, compute.Boot{Name: fmt.Sprintf("vm-%d", i), Flavor: "m1.small"})
			r.must(err)
			ids, asked[id] = append(ids, id), compute.StateActive
		}
		return ids
	}
	end := func(ids []compute.InstanceID) {
		for i, id := range ids {
			_, err := r.client(client.Config{Project: projects[i%2]}).Delete(t.Context(), id)
			r.must(err)
			asked[id] = compute.StateDeleted
		}
	}
	first := boot(10)
	r.await(first, compute.StateActive)

	leads, err := kafkatest.AskLeads(on.Addrs())
	r.must(err)
	defer leads.Close()
	r.poll("every broker has all", func() bool { ok, _ := leads.Whole(t.Context()); return ok })
	victim, err := leads.Leader(t.Context(), r.cell("test").Topics().Instances(), wire.Partition("p", 4))
	r.must(err)
	posted.refuses.Store(true)
	r.must(on.Kill(victim))
	second := boot(6)
	end(first)
	r.await(second, compute.StateActive)
	r.await(first, compute.StateDeleted)
	r.poll("the receiver has refused something", func() bool { return posted.refused.Load() > 0 })
	posted.stop()
	r.stop("api-2")
	posted.refuses.Store(false)
	third := boot(4)
	to.set(1, startAPI("api-3"))
	r.must(on.Restart(t.Context(), victim))
	posted.start()
	end(second)
	r.await(second, compute.StateDeleted)
	r.await(third, compute.StateActive)

	recs, err := kafkatest.Records(t.Context(), on.Addrs(), r.cell("test").Topics().Instances())
	r.must(err)
	states := map[compute.InstanceID]compute.State{}
	for _, rec := range recs {
		if i, err := wire.DecodeInstance(rec); err == nil && !rec.IsTakeover() {
			states[i.ID] = i.State
		}
	}
	if diff := cmp.Diff(asked, states); diff != "" {
		t.Fatalf("what was asked for and the log (-asked +log):\n%s", diff)
	}
	byPost := changesIn(t, recs, "p")[wire.Partition("p", 4)]
	r.poll("the receiver has all changes", func() bool { return posted.count() >= len(byPost) })
	posted.stop()
	if diff := cmp.Diff(byPost, posted.heard, cmp.AllowUnexported(heard{})); diff != "" || len(posted.other) > 0 {
		t.Errorf("the receiver was told of %v, too, and (-log +heard):\n%s", posted.other, diff)
	}
	for n, l := range listeners {
		want, total := changesIn(t, recs, l.project), 0
		for _, part := range want {
			total += len(part)
		}
		r.poll(fmt.Sprintf("listener %d has heard %d changes", n, total), func() bool {
			return l.count() >= total || l.failed() != nil
		})
		l.mu.Lock()
		got := map[int32][]heard{}
		for _, h := range l.heard {
			got[h.partition] = append(got[h.partition], h)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(heard{})); diff != "" || l.gaps > 0 || l.err != nil {
			t.Errorf("listener %d to %q: %d gaps, %v (-log +heard):\n%s", n, l.project, l.gaps, l.err, diff)
		}
		l.mu.Unlock()
	}
}
