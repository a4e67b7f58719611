// SPDX-License-Identifier: Apache-2.0

package size

import (
	"math"
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
)

// host is one, with its agent.
type host struct {
	id        compute.HostID
	room      offer.Room // beside machines and builds
	seed      uint64
	builds    int
	open      []int32 // its fetches, one a broker at most
	fixed     []int32 // queues that it always waits on
	advice    *bulletin
	sampledBy *bulletin     // what it had read when its sample turned
	left      map[int32]int // how often in a row a queue was sampled and not fetched
	epoch     uint64        // the epoch that it last looked in, and one
	used      float64       // of it, when its sample turned
	said      int64         // when its last beacon went
	beacon    int64         // when the next goes
	saving    int32         // the queue that it saves room for; -1: none
	since     int64         // it saves
	until     int64         // it saves at most
}

// queue is one, as hosts and its broker know it.
type queue struct {
	name   compute.QueueName
	needs  compute.Resources
	size   int // which of the sizes
	broker int32
	seed   uint64

	published line[int32] // instances that no fetch has taken
	waiting   line[ref]   // fetches, those that are closed too
	live      int         // fetches that wait
	listing   int         // queues that these list, added up
	sent      int64       // the request that last brought records
	woken     int         // by it

	order line[int32] // instances in the order in which they were queued, to find the oldest
	depth int         // queued, not granted
	came  uint64      // ever queued
}

// fetch is an open one of a host.
type fetch struct {
	host, broker int32
	age          int32 // how often its place was used
	waits        bool
	listed       []int32
	reserved     offer.Reserved
}

// ref is a fetch that may be closed meanwhile.
type ref struct{ fetch, age int32 }

// line is what is taken in the order in which it came.
type line[T any] struct {
	all  []T
	from int
}

func (l *line[T]) push(x T) { l.all = append(l.all, x) }
func (l *line[T]) len() int { return len(l.all) - l.from }
func (l *line[T]) first() T { return l.all[l.from] }
func (l *line[T]) pop() T {
	x := l.all[l.from]
	if l.from++; l.from > 1024 && l.from*2 > len(l.all) {
		l.all, l.from = append(l.all[:0], l.all[l.from:]...), 0
	}
	return x
}

// look opens fetches for what fits, at brokers where the host has none open.
func (w *world) look(h int32) {
	x := &w.hosts[h]
	slots := w.o.Slots - x.builds
	if slots <= len(x.open) || len(x.open) == w.o.Brokers {
		return
	}
	sampled := w.savedToo(x, w.sample(x))
	if len(sampled) == 0 {
		return
	}
	if w.o.Mode == Claims { // such an agent lists whatever it is told to
		if len(x.open) == 0 {
			w.fetch(h, 0, offer.Planned{Listed: sampled})
		}
		return
	}
	sessions := make([]offer.Session, w.o.Brokers)
	for _, f := range x.open {
		sessions[w.fetches[f].broker].Open = &w.fetches[f].reserved
	}
	for _, c := range sampled {
		q := w.at[c.Queue]
		if session := &sessions[w.queues[q].broker]; session.Open == nil || c.Skipped > 0 && !w.lists(x, q) {
			session.Candidates = append(session.Candidates, c)
		}
	}
	room := w.fetchFirst(h, sessions, slots)
	for b, p := range offer.Plan(room, sessions, slots) {
		x.planned(w.at, p)
		if len(p.Listed) > 0 {
			w.fetch(h, b, p)
		}
	}
}

// lists says whether an open fetch of a host lists a queue.
func (w *world) lists(x *host, q int32) bool {
	return slices.ContainsFunc(x.open, func(f int32) bool { return slices.Contains(w.fetches[f].listed, q) })
}

// planned notes what was left out, as offer.Sampler does.
func (x *host) planned(at map[compute.QueueName]int32, p offer.Planned) {
	for _, c := range p.Listed {
		delete(x.left, at[c.Queue])
	}
	for _, c := range p.Left {
		if x.left == nil {
			x.left = map[int32]int{}
		}
		x.left[at[c.Queue]] = min(c.Skipped+1, 1000)
	}
}

// sample is offer.Sampler.Sample for a host that keeps no table of queues: the same chances, a
// hash of numbers instead of names, and an order of its own that is worked out instead of a
// sorted list.
func (w *world) sample(x *host) (out []offer.Candidate) {
	if w.o.Waiters > 0 {
		for _, q := range x.fixed {
			out = append(out, w.candidate(x, q, 0, compute.QueueAdvice{}))
		}
		return out
	}
	if x.advice == nil {
		return nil
	}
	e := w.epoch(x)
	if x.epoch != e+1 {
		x.epoch, x.used, x.sampledBy = e+1, offer.Used(w.inventory.Totals, x.room.Free()), x.advice
	}
	fits := make([]int8, len(w.o.Sizes))
	var extra [offer.MostExtra]offer.Candidate
	n := 0
	systematic := offer.NewSystematic(mix(x.seed + e*0x9e3779b97f4a7c15))
	for i := range w.queues {
		q := w.nth(x, i)
		was, about := x.sampledBy.of[q].idle, &x.advice.of[q] // not told of then: 0
		mine := systematic.Next(offer.Chance(w.o.Weigher, was, x.used))
		if !mine && about.told && about.about.Depth == 0 && about.idle <= was {
			continue
		}
		order := mix(x.seed ^ w.queues[q].seed + e*0x9e3779b97f4a7c15)
		own := !about.told || offer.Waits(w.o.Weigher, mine, was, about.idle, order, x.used)
		if !own && !offer.Waits(w.o.Weigher, mine, was, about.all, order, x.used) || !w.fits(x, q, fits) {
			continue
		}
		if own {
			out = append(out, w.candidate(x, q, order, about.about))
			continue
		}
		i := min(n, len(extra)-1)
		if n == len(extra) && extra[i].Order <= order {
			continue
		}
		for ; i > 0 && extra[i-1].Order > order; i-- {
			extra[i] = extra[i-1]
		}
		extra[i], n = w.candidate(x, q, order, about.about), min(n+1, len(extra))
	}
	return append(out, extra[:min(n, offer.Extra(len(out)))]...)
}

// nth is the queue at a place in a host's own order. Sampled places are evenly far apart: what
// is there must be so in no order that hosts have in common.
func (w *world) nth(x *host, place int) int32 {
	n := len(w.order)
	begin, shift := int(x.seed%uint64(n)), int(x.seed>>32%uint64(n))
	return w.order[(int(w.order[(place+begin)%n])+shift)%n]
}

func (w *world) candidate(x *host, q int32, order uint64, about compute.QueueAdvice) offer.Candidate {
	return offer.Candidate{
		Queue:   w.queues[q].name,
		Needs:   w.queues[q].needs,
		Skipped: x.left[q],
		Deep:    about.Depth > 0,
		Oldest:  about.Oldest,
		Order:   order,
	}
}

// fits asks for each size once a look.
func (w *world) fits(x *host, q int32, known []int8) bool {
	size := w.queues[q].size
	if known[size] == 0 {
		if known[size] = -1; x.room.Fits(w.queues[q].needs) {
			known[size] = 1
		}
	}
	return known[size] > 0
}

// epoch of a host's sample, which changes at another moment on each.
func (w *world) epoch(x *host) uint64 {
	return (uint64(w.now+int64(time.Hour)) + x.seed%uint64(offer.Epoch)) / uint64(offer.Epoch)
}

// fetch opens one.
func (w *world) fetch(h int32, broker int, p offer.Planned) {
	var id int32
	if n := len(w.unused); n > 0 {
		id, w.unused = w.unused[n-1], w.unused[:n-1]
	} else {
		id, w.fetches = int32(len(w.fetches)), append(w.fetches, fetch{})
	}
	f := &w.fetches[id]
	f.host, f.broker, f.reserved, f.listed, f.waits = h, int32(broker), p.Reserved, f.listed[:0], false
	contended := 0
	for _, c := range p.Listed {
		q := w.at[c.Queue]
		f.listed = append(f.listed, q)
		if w.queues[q].live+w.queues[q].published.len() > 0 && w.o.Hosts > 1 {
			contended++
		}
	}
	w.hosts[h].open = append(w.hosts[h].open, id)
	more := float64(w.o.Costs.Listed)*float64(len(f.listed)) + float64(w.o.Costs.Contended)*float64(contended)
	w.agenda.add(w.ask(forFetch, broker, more)-int64(w.o.Hop), asked, id, f.age)
}

// asked: the broker looks for a record, and keeps the fetch if there is none.
func (w *world) asked(id, age int32) {
	f := &w.fetches[id]
	from := w.rand.below(len(f.listed))
	for i := range f.listed {
		if q := &w.queues[f.listed[(from+i)%len(f.listed)]]; q.published.len() > 0 {
			w.answer(id, q.published.pop())
			return
		}
	}
	f.waits = true
	for _, q := range f.listed {
		w.queues[q].waiting.push(ref{id, age})
		w.queues[q].live++
		w.queues[q].listing += len(f.listed)
	}
	w.agenda.add(w.now+int64(w.o.Wait), expire, id, age)
}

// stand makes a fetch wait no more.
func (w *world) stand(f *fetch) {
	if f.waits {
		for _, q := range f.listed {
			w.queues[q].live--
			w.queues[q].listing -= len(f.listed)
		}
	}
	f.waits = false
	f.age++
}

// answer gives a fetch a record.
func (w *world) answer(id, i int32) {
	w.stand(&w.fetches[id])
	w.agenda.add(w.now+int64(w.o.Hop), taken, id, i)
}

// leave closes a fetch at its host.
func (w *world) leave(id int32) *host {
	x := &w.hosts[w.fetches[id].host]
	x.open = slices.DeleteFunc(x.open, func(f int32) bool { return f == id })
	w.unused = append(w.unused, id)
	return x
}

func (w *world) expire(id, age int32) {
	if f := &w.fetches[id]; f.age == age {
		w.stand(f)
		w.leave(id)
		w.look(f.host)
	}
}

// enqueue: a record is in its queue. The host that has waited longest gets it.
func (w *world) enqueue(q, i int32) {
	for x := &w.queues[q]; x.waiting.len() > 0; {
		if r := x.waiting.pop(); w.fetches[r.fetch].age == r.age {
			w.answer(r.fetch, i)
			return
		}
	}
	w.queues[q].published.push(i)
}

// wakes is what a broker spends on the hosts that wait for a record of a queue: nearly all of
// them look and find it taken. Each record of a request finds one fewer.
func (w *world) wakes(q int32, request int64) float64 {
	x := &w.queues[q]
	if x.sent != request {
		x.sent, x.woken = request, 0
	}
	x.woken++
	if x.live <= x.woken {
		return 0
	}
	return float64(w.o.Costs.Woken) * math.Sqrt(float64(x.live-x.woken)) * float64(x.listing) / float64(x.live)
}

// taken: the record is at its host, which writes it down and looks again.
func (w *world) taken(id, i int32) {
	h := w.fetches[id].host
	x, q := w.leave(id), &w.queues[w.instances[i].queue]
	if w.o.Mode == Claims {
		w.grant(h, i)
		w.ask(forAck, int(q.broker), 0)
		w.look(h)
		return
	}
	x.room = x.room.Hold(q.needs, compute.Place{})
	x.builds++
	w.savedTaken(h, w.instances[i].queue)
	wait := w.o.Prepare
	if w.o.Mode == Berth {
		wait += w.o.Journal
		w.change(h)
	}
	w.agenda.add(w.now+int64(wait), prepared, h, i)
	w.look(h)
}

// prepared: it claims, and lets the record go.
func (w *world) prepared(h, i int32) {
	w.own()
	w.agenda.add(w.ask(forReport, w.leader(i), w.writes(1, 1)), claimed, h, i)
	w.ask(forAck, int(w.queues[w.instances[i].queue].broker), 0)
}

func (w *world) launched(h, i int32) {
	w.agenda.add(w.ask(forReport, w.leader(i), w.writes(1, 1)), started, h, i)
	w.hosts[h].builds--
	if w.o.Life > 0 {
		w.agenda.add(w.now+int64(w.rand.spread(w.o.Life)), ended, h, i)
	}
	w.look(h)
}
