// SPDX-License-Identifier: Apache-2.0

package size

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/sorted"
	"github.com/berth-project/berth/queues/advise"
	"github.com/berth-project/berth/queues/save"
)

// fill is how full hosts were in the steady part of a run.
type fill struct {
	used, saving float64
	times        int
}

// ended: a machine is deleted, and its room is free.
func (w *world) ended(h, i int32) {
	x := &w.hosts[h]
	n := w.queues[w.instances[i].queue].needs[compute.VCPU]
	x.room = x.room.Hold(compute.Resources{compute.VCPU: -n}, compute.Place{})
	w.change(h)
	w.look(h)
}

// settled is when a run counts as steady.
func (w *world) settled() int64 { return 3 * int64(w.o.Life) }

// watch looks at how full hosts are, as long as requests come.
func (w *world) watch() {
	if w.due == len(w.instances) {
		return
	}
	free, saving := 0, 0
	for h := range w.hosts {
		free += int(w.hosts[h].room.Free()[compute.VCPU])
		if w.hosts[h].saving >= 0 {
			saving++
		}
	}
	w.fill.used += 1 - float64(free)/float64(w.o.size()*len(w.hosts))
	w.fill.saving, w.fill.times = w.fill.saving+float64(saving), w.fill.times+1
	w.agenda.add(w.now+int64(time.Second), steady, 0, 0)
}

// lived says how full hosts were and how long each size waited.
func (w *world) lived(r *Result) {
	if w.o.Life == 0 || w.fill.times == 0 {
		return
	}
	r.Fill, r.Saving = w.fill.used/float64(w.fill.times), w.fill.saving/float64(w.fill.times)
	waits, left := map[int][]int64{}, map[int]int{}
	for _, i := range w.instances {
		if i.accepted < w.settled() {
			continue
		}
		size := w.o.Sizes[w.queues[i.queue].size]
		until := i.granted
		if i.host < 0 {
			left[size]++
			until = w.now
		}
		waits[size] = append(waits[size], until-i.accepted)
	}
	for size, all := range waits {
		r.Waits = append(r.Waits, SizeMS{size, len(all), left[size], quantiles(all)})
	}
	slices.SortFunc(r.Waits, func(a, b SizeMS) int { return cmp.Compare(a.Size, b.Size) })
}

// waiting is what the saver knows of the world.
type waiting struct {
	*advise.Advisor
	w *world
}

// Waiting are the queues with requests that no host has.
func (x waiting) Waiting(_ time.Time, each func(compute.QueueName, []save.Build, int)) {
	for q := range x.w.queues {
		var first []save.Build
		order := &x.w.queues[q].order
		for _, i := range order.all[order.from:] {
			if x.w.instances[i].host < 0 {
				first = append(first, save.Build{Key: fmt.Sprint(i)})
			}
			if len(first) == save.MostBuilds {
				break
			}
		}
		if len(first) > 0 {
			each(x.w.queues[q].name, first, 0)
		}
	}
}

// tellSavers has hosts told to save.
func (w *world) tellSavers(now time.Time) {
	for _, t := range w.saver.Tell(now) {
		h := slices.IndexFunc(w.hosts, func(x host) bool { return x.id == t.Host })
		w.said = append(w.said, t)
		w.agenda.add(w.ask(forStream, h%w.o.Brokers, 0), told, int32(h), int32(len(w.said)-1))
	}
}

// toldSaving: a host reads that it is to save, or need not any more.
func (w *world) toldSaving(h int32, said int) {
	x, l := &w.hosts[h], w.said[said].Look
	q := w.at[l.Queue]
	switch {
	case l.Spend && x.saving == q:
		w.endSaving(h)
	case l.Save > 0 && x.saving < 0:
		x.saving, x.since = q, w.now
		fallthrough
	case l.Save > 0 && x.saving == q:
		x.until = w.now + int64(l.Save)
		w.agenda.add(x.until, spend, h, 0)
	}
	w.change(h)
	w.look(h)
}

// spend ends a saving whose time is over.
func (w *world) spend(h int32) {
	if x := &w.hosts[h]; x.saving >= 0 && w.now >= x.until {
		w.endSaving(h)
	}
}

func (w *world) endSaving(h int32) {
	w.hosts[h].saving = -1
	w.change(h)
	w.look(h)
}

// savedTaken ends a saving whose queue's work was taken.
func (w *world) savedTaken(h, q int32) {
	if w.hosts[h].saving == q {
		w.hosts[h].saving = -1
	}
}

// savedToo adds the queue that a host saves for to those that it sampled, once it fits.
func (w *world) savedToo(x *host, sampled []offer.Candidate) []offer.Candidate {
	if x.saving < 0 {
		return sampled
	}
	others, q := w.forOthers(x), &w.queues[x.saving]
	sampled = slices.DeleteFunc(sampled, func(c offer.Candidate) bool {
		return c.Queue == q.name || !others.Fits(c.Needs)
	})
	if x.room.Fits(q.needs) && !w.lists(x, x.saving) {
		sampled = append(sampled, w.candidate(x, x.saving, 0, compute.QueueAdvice{Depth: 1}))
	}
	return sampled
}

// forOthers is the room beside what a host saves.
func (w *world) forOthers(x *host) offer.Room {
	if x.saving < 0 || w.lists(x, x.saving) {
		return x.room
	}
	return x.room.Keep(w.queues[x.saving].needs)
}

// fetchFirst opens fetches, each of one queue, for what goes before all others, as fetch.Fetcher does: what the host
// saves for, then what has waited for long. It answers the room for the others.
func (w *world) fetchFirst(h int32, sessions []offer.Session, slots int) offer.Room {
	x := &w.hosts[h]
	for _, c := range w.firsts(x, sessions) {
		q := w.at[c.Queue]
		b, room := int(w.queues[q].broker), x.room
		if q != x.saving {
			room = w.forOthers(x)
		}
		if sessions[b].Open != nil {
			continue
		}
		alone := make([]offer.Session, len(sessions))
		for j, s := range sessions {
			alone[j].Open = s.Open
		}
		alone[b].Candidates = []offer.Candidate{c}
		if p := offer.Plan(room, alone, slots)[b]; len(p.Listed) > 0 {
			x.planned(w.at, p)
			w.fetch(h, b, p)
			sessions[b] = offer.Session{Open: &p.Reserved}
		}
	}
	return w.forOthers(x)
}

func (w *world) firsts(x *host, sessions []offer.Session) (out []offer.Candidate) {
	if w.o.Savings.After == 0 || x.advice == nil {
		return nil
	}
	for _, s := range sessions {
		for _, c := range s.Candidates {
			if q := w.at[c.Queue]; q == x.saving || c.Deep && x.advice.of[q].about.Late {
				out = append(out, c)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b offer.Candidate) int {
		mine := sorted.TrueFirst(w.at[a.Queue] == x.saving, w.at[b.Queue] == x.saving)
		return cmp.Or(mine, a.Oldest.Compare(b.Oldest))
	})
	return out
}
