// SPDX-License-Identifier: Apache-2.0

package size

import (
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/queues/advise"
)

// bulletin is all that was told of queues until some moment.
type bulletin struct {
	of    []news
	share offer.Share // of the queues that something was told of
}

// news is what hosts make of what was told of a queue.
type news struct {
	idle, all float64 // the chance to wait, without its work and with it

	told  bool
	about compute.QueueAdvice
}

// add takes a piece of advice.
func (b *bulletin) add(queue int32, a compute.QueueAdvice) {
	b.of[queue] = news{told: true, about: a}
}

// weigh works out the chances, when all was heard.
func (b *bulletin) weigh() {
	b.share = 0
	for i := range b.of {
		if b.of[i].told {
			b.share.Add(b.of[i].about)
		}
	}
	for i := range b.of {
		if n := &b.of[i]; n.told {
			n.idle, n.all = b.share.Chances(n.about)
		}
	}
}

// tell lets the queue manager tell what is new.
func (w *world) tell() {
	now := clock(w.now)
	a, any := w.advisor.Next(now, w.progress)
	if any {
		next := &bulletin{}
		if w.news != nil {
			next.of = slices.Clone(w.news.of)
		} else {
			next.of = make([]news, len(w.queues))
		}
		for _, q := range a.About {
			next.add(w.at[q.Queue], q)
		}
		next.weigh()
		w.news = next
		w.ask(forEffects, 0, w.writes(1, len(a.About)))
	}
	w.tellSavers(now)
	w.agenda.add(w.now+max(int64(w.advisor.NextIn(now)), int64(50*time.Millisecond)), tick, 0, 0)
}

// progress of a queue, as its instances say.
func (w *world) progress(name compute.QueueName) advise.Progress {
	q := &w.queues[w.at[name]]
	for q.order.len() > 0 && w.instances[q.order.first()].host >= 0 {
		q.order.pop()
	}
	if q.order.len() == 0 {
		return advise.Progress{Came: q.came}
	}
	return advise.Progress{Came: q.came, Depth: uint64(q.depth), Oldest: clock(w.instances[q.order.first()].granted),
		Late: w.saver.Late(name)}
}

// readAdvice: a host reads what was told meanwhile; without news its read ends by itself.
func (w *world) readAdvice(h int32) {
	x := &w.hosts[h]
	if w.o.Mode != Berth {
		w.look(h)
		return
	}
	next, new := w.now+int64(w.o.Wait), x.advice != w.news
	if new {
		next = w.now + int64(w.o.Pace)
		x.advice = w.news
	}
	w.agenda.add(max(next, w.ask(forAdvice, 0, 0)), readAdvice, h, 0)
	if new || x.epoch != w.epoch(x)+1 {
		w.look(h)
	}
}

func (w *world) says(x *host) compute.Beacon {
	b := compute.Beacon{Host: x.id, Inventory: w.inventory, Free: x.room.Free(), Saves: true}
	if x.saving >= 0 {
		b.Saving = &compute.Saving{
			Queue: w.queues[x.saving].name, Needs: w.queues[x.saving].needs,
			Age: time.Duration(w.now - x.since), Left: time.Duration(max(0, x.until-w.now)),
		}
	}
	return b
}

// change brings a host's next beacon forward.
func (w *world) change(h int32) {
	x := &w.hosts[h]
	if at := max(w.now+int64(time.Second), x.said+int64(w.o.Apart)); at < x.beacon {
		x.beacon = at
		w.agenda.add(at, beacon, h, 0)
	}
}

func (w *world) beacon(h int32) {
	x := &w.hosts[h]
	if w.now != x.beacon {
		return
	}
	w.advisor.Observe(w.says(x), clock(w.now))
	x.said = w.now
	x.beacon = max(w.now+int64(w.o.Beacon), w.ask(forBeacon, 0, w.writes(1, 4)))
	w.agenda.add(x.beacon, beacon, h, 0)
}
