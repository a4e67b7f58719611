// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/queues/advise"
	"github.com/berth-project/berth/queues/ring"
	"github.com/berth-project/berth/queues/save"
)

// world is some hosts, a queue manager and what happens.
type world struct {
	t       *rapid.T
	now     time.Time
	events  events
	seq     int
	queues  []compute.Queue
	hosts   []*host
	work    []*piece // that waits, by offset
	offset  int64
	came    map[compute.QueueName]uint64
	advisor *advise.Advisor
	ringer  *ring.Ringer
	saver   *save.Saver
	deaf    time.Time     // until when rings are lost
	lost    time.Duration // for how long they were in all
	gone    bool          // there is no queue manager any more
	idle    map[pair]idle
	story   []string
}

// piece is a piece of work.
type piece struct {
	key      string
	offset   int64
	queue    compute.Queue
	came     time.Time
	avoid    []compute.HostID
	failed   []compute.HostID
	locked   compute.HostID // a host has it
	delivery int16
	over     bool // it waits no more
}

// event is what happens at a moment.
type event struct {
	at   time.Time
	seq  int
	does func()
}

type events []event

func (e events) Len() int      { return len(e) }
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
func (e events) Less(i, j int) bool {
	return cmp.Or(e[i].at.Compare(e[j].at), cmp.Compare(e[i].seq, e[j].seq)) < 0
}

func (w *world) in(d time.Duration, does func()) {
	w.seq++
	heap.Push(&w.events, event{w.now.Add(d), w.seq, does})
}

func (w *world) say(format string, args ...any) {
	w.story = append(w.story, w.now.Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

func (w *world) wrong(format string, args ...any) {
	w.t.Fatalf("%s:\n%s", fmt.Sprintf(format, args...), strings.Join(w.story, "\n"))
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, now: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC), came: map[compute.QueueName]uint64{},
		advisor: advise.New(advise.RingingRules()), idle: map[pair]idle{},
	}
	w.ringer = ring.New(ring.DefaultRules(), w.advisor)
	rules := save.DefaultRules()
	rules.For = time.Minute
	w.saver = save.New(rules, savings{w.advisor, w})
	w.ringer.Reset(w.now)
	for i := range rapid.IntRange(1, rapid.SampledFrom([]int{8, 8, 8, 100}).Draw(t, "most")).Draw(t, "queues") {
		broker := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "broker")
		q := compute.Queue{
			Name:      compute.QueueName(fmt.Sprint(broker, i)),
			Resources: compute.Resources{compute.VCPU: rapid.Int64Range(1, 8).Draw(t, "needs")},
		}.Tier(rapid.SampledFrom(compute.Priorities()).Draw(t, "class"))
		q.Group, q.TopicID = "g", "t"
		if rapid.IntRange(0, 3).Draw(t, "fast") == 0 {
			q.Required = []compute.Trait{fast}
		}
		w.queues = append(w.queues, q)
		w.say("queue %s needs %v", q.Name, q.Resources)
	}
	w.advisor.SetQueues(w.queues)
	for i := range rapid.IntRange(1, 5).Draw(t, "hosts") {
		w.hosts = append(w.hosts, w.newHost(i))
	}
	return w
}

// first is the oldest work of a queue, of those that some fetch lists, that nobody has.
func (w *world) first(queues []wire.QueueRef) (wire.QueueRef, *piece, bool) {
	for _, ref := range queues {
		for _, x := range w.work {
			if x.queue.Name == ref.Name && x.locked == "" {
				return ref, x, true
			}
		}
	}
	return wire.QueueRef{}, nil, false
}

// lies has brokers answer the fetches that wait for work of a queue.
func (w *world) lies(q compute.Queue) {
	for _, h := range w.hosts {
		for session, f := range h.open {
			if slices.ContainsFunc(f.queues, func(r wire.QueueRef) bool { return r.Name == q.Name }) {
				h.offered(session, f)
			}
		}
	}
}

// boot has work come.
func (w *world) boot(q compute.Queue, avoid, failed []compute.HostID) {
	w.offset++
	x := &piece{key: fmt.Sprint("vm-", w.offset), offset: w.offset, queue: q, came: w.now, avoid: avoid, failed: failed}
	w.work = append(w.work, x)
	w.came[q.Name]++
	w.say("%s comes into %s, avoids %v, failed on %v", x.key, q.Name, avoid, failed)
	w.lies(q)
	w.in(managerHears, func() {
		if !x.over {
			w.ringer.Came(q.Name, ring.Work{Key: x.key, Due: x.came, Avoid: x.avoid, Failed: x.failed}, w.now)
			w.advisor.MarkDirty(q.Name)
		}
	})
}

// managerHears is how long it takes until the queue manager reads something.
const managerHears = 5 * time.Millisecond

// claimed has a claim be granted.
func (w *world) claimed(x *piece, by compute.HostID) {
	w.say("%s is granted %s", by, x.key)
	w.leaves(x, true)
}

// cancel has work go that nobody has.
func (w *world) cancel(x *piece) {
	w.say("%s is deleted", x.key)
	w.leaves(x, false)
}

// leaves has work wait no more, and the queue manager hear it.
func (w *world) leaves(x *piece, claimed bool) {
	x.over = true
	w.work = slices.DeleteFunc(w.work, func(y *piece) bool { return x == y })
	w.in(managerHears, func() {
		w.ringer.Went(x.queue.Name, x.key, claimed, w.now)
		w.advisor.MarkDirty(x.queue.Name)
	})
}

// heard has the queue manager hear a host.
func (w *world) heard(b compute.Beacon) {
	fitted := map[compute.QueueName]bool{}
	w.ringer.EachWaiting(func(q compute.QueueName) { fitted[q] = w.advisor.Fits(q, b.Host) })
	w.advisor.Observe(b, w.now)
	w.advisor.Reaches(b.Host, true)
	for q, before := range fitted {
		switch fits := w.advisor.Fits(q, b.Host); {
		case fits && !before:
			w.ringer.NowFits(q, b.Host, w.now)
		case before && !fits:
			w.ringer.NoLongerFits(q, b.Host, w.now)
		}
	}
}

// waits are the pieces of a queue that the queue manager knows to wait.
func (w *world) waits(q compute.QueueName) (list []*piece) {
	for _, x := range w.work {
		if x.queue.Name == q {
			list = append(list, x)
		}
	}
	return list
}

func (w *world) oldest(q compute.QueueName) time.Time {
	if all := w.waits(q); len(all) > 0 {
		return all[0].came
	}
	return time.Time{}
}

func (w *world) progress(q compute.QueueName) advise.Progress {
	all := w.waits(q)
	p := advise.Progress{Came: w.came[q], Depth: uint64(len(all)), Oldest: w.oldest(q), Late: w.saver.Late(q)}
	if len(all) > 0 {
		for _, h := range all[0].avoid {
			if !slices.ContainsFunc(all, func(x *piece) bool { return !slices.Contains(x.avoid, h) }) {
				p.Avoided = append(p.Avoided, h)
			}
		}
	}
	return p
}

// advice is what hosts read that read all of it.
func (w *world) advice() compute.Advice {
	a := advise.New(advise.RingingRules())
	a.SetQueues(w.queues)
	out, _ := a.Next(w.now, w.progress)
	return out
}

// ring has the queue manager tell hosts what it has to.
func (w *world) ring() {
	if w.gone {
		return
	}
	rings := w.ringer.Rings(w.now)
	for i := range rings {
		rings[i].Look.Oldest = w.oldest(rings[i].Look.Queue)
	}
	for _, t := range w.saver.Tell(w.now) {
		t.Look.Oldest = w.oldest(t.Look.Queue)
		rings = append(rings, ring.Ring{Host: t.Host, Look: t.Look})
	}
	for _, r := range rings {
		i := slices.IndexFunc(w.hosts, func(h *host) bool { return h.id == r.Host })
		h := w.hosts[i]
		if w.now.Before(w.deaf) {
			continue
		}
		w.in(h.latency, func() {
			w.say("%s is rung %s hold %v save %v spend %v", h.id, r.Look.Queue, r.Look.Hold, r.Look.Save, r.Look.Spend)
			if r.Look.Save > 0 {
				h.saves(r.Look)
			}
			h.fetches.Ring(r.Look, w.now)
		})
	}
}

// savings is what the saver knows.
type savings struct {
	*advise.Advisor
	w *world
}

func (s savings) Waiting(_ time.Time, each func(compute.QueueName, []save.Build, int)) {
	s.w.ringer.EachWaiting(func(q compute.QueueName) {
		var first []save.Build
		for _, x := range s.w.waits(q) {
			b := save.Build{Key: x.key, Class: x.queue.Priority}
			if len(x.avoid) > 0 {
				b.Not = func(h compute.HostID) bool { return slices.Contains(x.avoid, h) }
			}
			if first = append(first, b); len(first) == save.MostBuilds {
				break
			}
		}
		if len(first) > 0 {
			each(q, first, 0)
		}
	})
}

// pass lets time pass.
func (w *world) pass(long time.Duration) {
	for until := w.now.Add(long); ; {
		w.ring()
		for _, h := range w.hosts {
			h.look()
		}
		w.judge()
		at := w.next()
		if at.After(until) {
			w.now = until
			return
		}
		w.now = at
		for len(w.events) > 0 && !w.events[0].at.After(w.now) {
			heap.Pop(&w.events).(event).does()
		}
	}
}

// next is when something happens, at the latest a second from now.
func (w *world) next() time.Time {
	at := w.now.Add(time.Second)
	sooner := func(t time.Time) {
		if t.After(w.now) && t.Before(at) {
			at = t
		}
	}
	if len(w.events) > 0 {
		sooner(w.events[0].at)
		if !w.events[0].at.After(w.now) {
			return w.now
		}
	}
	for _, t := range []time.Time{w.ringer.Next(), w.saver.Next()} {
		if !t.IsZero() && !w.gone {
			sooner(latest(t, w.now.Add(time.Millisecond)))
		}
	}
	for _, h := range w.hosts {
		sooner(h.fetches.Due())
	}
	return at
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
