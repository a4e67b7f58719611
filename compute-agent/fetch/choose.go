// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
)

// candidates are the queues that this host would wait on now and does not yet.
func (f *Fetcher) candidates(room offer.Room, now time.Time) []offer.Candidate {
	waiting := map[compute.QueueName]bool{}
	for _, o := range f.open {
		maps.Copy(waiting, o.queues)
	}
	all := f.above(room, f.behind(room, f.rung(room, f.own(room, now), now), now), now)
	others := f.besideSaved(room)
	return slices.DeleteFunc(all, func(c offer.Candidate) bool {
		return waiting[c.Queue] || f.leftAlone(c.Queue, now) || c.Queue != f.saving.queue && !others.Fits(c.Needs)
	})
}

// own are the queues that the host finds by itself: by sampling, or, while it is rung,
// those in which work is said to lie.
func (f *Fetcher) own(room offer.Room, now time.Time) []offer.Candidate {
	if f.sampler.Rung(now) {
		return f.sampler.ShortPolls(room, now, f.needs)
	}
	if waits := f.began.Add(AdviceWithin); !f.advised && now.Before(waits) {
		f.again = waits
		return nil
	}
	if !f.listed {
		f.sampler.List(offer.Accepted(f.traits, f.list()))
		f.listed = true
	}
	return f.sampler.Sample(room, offer.Used(f.totals, room.Free()), now)
}

// AdviceWithin is how long a host that has just started samples nothing, for advice
// probably says that it will be rung.
const AdviceWithin = 10 * time.Second

// rung adds the queues that the host was rung for to those that it chose.
func (f *Fetcher) rung(room offer.Room, chosen []offer.Candidate, now time.Time) []offer.Candidate {
	f.rings.Listed(now, func(q compute.QueueName, look bool) {
		needs, class, ours := f.needs(q)
		if !ours || !room.Fits(needs) {
			return
		}
		var c *offer.Candidate
		c, chosen = f.choose(chosen, q, needs)
		c.Rung, c.Held, c.Deep, c.Extra = look, !look, c.Deep || look, false
		c.Lies = f.lies(q, class, look, now)
	})
	return chosen
}

// above adds the queues of higher classes above those in which work lies, where there is not room for both: a host may have
// heard of what lies in one and not of what lies in the other. It looks there for a moment, and where there was nothing
// not again for an epoch.
func (f *Fetcher) above(room offer.Room, chosen []offer.Candidate, now time.Time) []offer.Candidate {
	for _, c := range slices.Clone(chosen) {
		base, _ := compute.SplitTier(c.Queue)
		if f.queues[c.Queue].Priority == compute.PriorityNormal {
			base = c.Queue
		}
		for _, p := range compute.Priorities() { // the highest first
			q := compute.TierName(base, p)
			if p == c.Priority || c.Since.IsZero() {
				break
			}
			needs, class, ours := f.needs(q)
			there := slices.ContainsFunc(chosen, func(o offer.Candidate) bool { return o.Queue == q && !o.Since.IsZero() })
			if !ours || class != p || there || f.sampler.Refuted(q, now) || !room.Fits(needs) ||
				c.Needs.Plus(needs).FitsIn(room.Free()) {
				continue
			}
			var probe *offer.Candidate
			probe, chosen = f.choose(chosen, q, needs)
			probe.Probe, probe.Lies = true, offer.Lies{Priority: p, Since: now, Most: 1}
		}
	}
	return chosen
}

// behind adds the queues of which work is held: each is looked at before that is given back, whatever else waits for
// a place in the list. Where a host has more queues than one fetch lists, their turn would come later than that.
func (f *Fetcher) behind(room offer.Room, chosen []offer.Candidate, now time.Time) []offer.Candidate {
	for _, h := range f.held {
		q := h.ref.Queue.Name
		if needs, _, ours := f.needs(q); ours && now.Before(h.until) && room.Fits(needs) {
			var c *offer.Candidate
			c, chosen = f.choose(chosen, q, needs)
			c.Behind, c.Extra = true, false
		}
	}
	return chosen
}

// choose finds a queue among those chosen, or adds it. The pointer is good until the next is added.
func (f *Fetcher) choose(
	chosen []offer.Candidate, q compute.QueueName, needs compute.Resources,
) (*offer.Candidate, []offer.Candidate) {
	i := slices.IndexFunc(chosen, func(c offer.Candidate) bool { return c.Queue == q })
	if i < 0 {
		chosen = append(chosen, offer.Candidate{Queue: q, Needs: needs, Skipped: f.sampler.Skipped(q)})
		i = len(chosen) - 1
	}
	return &chosen[i], chosen
}

// needs is what a queue's work needs, and its class, if it is for this host.
func (f *Fetcher) needs(q compute.QueueName) (compute.Resources, compute.Priority, bool) {
	is, there := f.queues[q]
	return is.Resources, is.Priority, there && is.Accepts(f.traits)
}

// lies is what is known of the work that lies in a queue for which the host was rung: what advice and rings say, unless it was
// looked for in vain where the host only waits. Work leaves a queue from its oldest on, so what says that the oldest is
// younger is the newer word.
func (f *Fetcher) lies(q compute.QueueName, class compute.Priority, look bool, now time.Time) offer.Lies {
	known := f.sampler.Lies(q, class, now)
	if !look && f.sampler.Refuted(q, now) {
		return known
	}
	if since := f.rings.Since(q, now); since.After(known.Since) {
		known.Since, known.Most = since, max(known.Most, 1)
	}
	return known
}

// LeaveAlone gives others the chance to take what this host should not.
func (f *Fetcher) LeaveAlone(q compute.QueueName, now time.Time) {
	f.alone[q] = now.Add(f.o.LeaveAlone)
	f.changed = true
}

func (f *Fetcher) leftAlone(q compute.QueueName, now time.Time) bool {
	until, ok := f.alone[q]
	switch {
	case !ok:
		return false
	case !now.Before(until):
		delete(f.alone, q)
		return false
	case until.Before(f.again):
		f.again = until
	}
	return true
}
