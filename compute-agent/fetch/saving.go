// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/sorted"
	"github.com/berth-project/berth/pkg/wire"
)

// saving is the queue that this host saves room for: work of it has waited for long and fits no host. All that is free
// here goes to it, and other work gets what is left beside what one machine of it needs.
type saving struct {
	queue        compute.QueueName // empty: none
	since, until time.Time
	preempt      bool // preemptible machines may be taken away for it
}

// Ended ways of a saving, as metrics name them.
const (
	SavingTaken   = "taken"   // work of the queue was taken
	SavingTime    = "time"    // it had lasted long enough
	SavingGone    = "gone"    // nothing waits for it any more, as the queue manager says, or the queue is gone
	SavingStopped = "stopped" // the host takes no work
)

// save takes what a look says of savings. A host that saves for one queue does not begin to for another.
func (f *Fetcher) save(l compute.Look, now time.Time) {
	f.SavingDue(now)
	switch s := &f.saving; {
	case l.Spend:
		if s.queue == l.Queue {
			f.endSaving(SavingGone)
		}
	case l.Save == 0 || s.queue != "" && s.queue != l.Queue:
	default:
		if s.queue == "" {
			s.queue, s.since = l.Queue, now
		}
		s.until, s.preempt = now.Add(l.Save), s.preempt || l.Preempt
	}
}

// SavingDue ends a saving whose time is over, or whose queue is not for this host any more; it answers when the next is
// due, zero if the host saves for nothing.
func (f *Fetcher) SavingDue(now time.Time) time.Time {
	if f.saving.queue == "" {
		return time.Time{}
	}
	switch _, _, ours := f.needs(f.saving.queue); {
	case !now.Before(f.saving.until):
		f.endSaving(SavingTime)
	case !ours:
		f.endSaving(SavingGone)
	}
	return f.saving.until
}

func (f *Fetcher) endSaving(how string) {
	f.saving, f.changed = saving{}, true
	if f.o.Saved != nil {
		f.o.Saved(how)
	}
}

// Took says that work of a queue was taken here.
func (f *Fetcher) Took(q compute.QueueName) {
	if q != "" && f.saving.queue == q {
		f.endSaving(SavingTaken)
	}
}

// Stopped says that the host takes no work for now.
func (f *Fetcher) Stopped() {
	if f.saving.queue != "" {
		f.endSaving(SavingStopped)
	}
}

// Saving is what the host saves room for; nil: nothing.
func (f *Fetcher) Saving(now time.Time) *compute.Saving {
	if f.saving.queue == "" {
		return nil
	}
	needs, _, _ := f.needs(f.saving.queue)
	return &compute.Saving{
		Queue: f.saving.queue, Needs: needs, Age: now.Sub(f.saving.since), Left: max(0, f.saving.until.Sub(now)),
		Preempt: f.saving.preempt,
	}
}

// besideSaved is the room beside what one machine of the queue needs that the host saves for.
func (f *Fetcher) besideSaved(room offer.Room) offer.Room {
	if needs, _, ours := f.needs(f.saving.queue); ours {
		return room.Keep(needs)
	}
	return room
}

// forOthers is the room for other queues than the one that the host saves for, beside open fetches.
func (f *Fetcher) forOthers(room offer.Room) offer.Room {
	if f.waitsOn(f.saving.queue) {
		return room
	}
	return f.besideSaved(room)
}

// RoomForPinned is the room that work for this host alone may have now, of what is free. What may wait leaves what the
// host saves if its machine might be taken away for that queue: it would come again and again, and the queue's work
// never.
func (f *Fetcher) RoomForPinned(b compute.Build, room offer.Room) offer.Room {
	if f.mightGo(b) {
		return f.forOthers(f.Beside(room))
	}
	return f.Beside(room)
}

// mightGo says whether the machine of work for this host alone might be taken away for the queue that the host saves
// for. What may not wait is taken away once at most.
func (f *Fetcher) mightGo(b compute.Build) bool {
	_, class, ours := f.needs(f.saving.queue)
	return ours && class != compute.PriorityLow && b.Preemptible && b.In.ID == "" && !b.WaitUntil.IsZero()
}

// beginFirst opens fetches of the queues that go before all others, each alone: a fetch that lists others too brings
// the work of any. They are the one that the host saves for, and those with work that has waited for long, the longest
// first. It answers the room that is left for the others.
func (f *Fetcher) beginFirst(
	q *Question, room offer.Room, slots int, sessions []wire.SessionID, plan []offer.Session, o opened,
) offer.Room {
	for _, c := range f.firsts(plan, o.began) {
		i := slices.IndexFunc(plan, func(s offer.Session) bool {
			return s.Open == nil && slices.ContainsFunc(s.Candidates, func(x offer.Candidate) bool { return x.Queue == c.Queue })
		})
		if i < 0 {
			continue // a fetch is open in its session
		}
		if f.first == c.Queue && slots-len(f.open) < 2 && f.othersTurn(c, room, plan, slots) {
			plan[i].Candidates = without(plan[i].Candidates, c.Queue)
			continue
		}
		in := room
		if c.Queue != f.saving.queue {
			in = f.forOthers(room)
		}
		alone := make([]offer.Session, len(plan))
		for j, s := range plan {
			alone[j].Open = s.Open
		}
		// The others come after a moment, if nothing is there; what was looked for in vain is waited for, and they come
		// beside.
		c.Probe = len(plan[i].Candidates) > 1 && !f.sampler.Refuted(c.Queue, o.began)
		alone[i].Candidates = []offer.Candidate{c}
		p := offer.Plan(in, alone, slots)[i]
		if len(p.Listed) == 0 {
			continue
		}
		f.begin(sessions[i], p, o, q.at[primary(sessions[i])])
		f.first = c.Queue
		f.changed = f.changed || !c.Probe && len(plan[i].Candidates) > 1 // the others, beside
		plan[i] = offer.Session{Open: &p.Reserved}
	}
	return f.forOthers(room)
}

// othersTurn says whether the last slot that is left is for others, where what goes first had it before: some of them
// are to be fetched at once, and there is room for them.
func (f *Fetcher) othersTurn(first offer.Candidate, room offer.Room, plan []offer.Session, slots int) bool {
	rest := slices.Clone(plan)
	for i, s := range rest {
		rest[i].Candidates = without(s.Candidates, first.Queue)
	}
	return slices.ContainsFunc(offer.Plan(f.forOthers(room), rest, slots), func(p offer.Planned) bool {
		return slices.ContainsFunc(p.Listed, func(c offer.Candidate) bool { return c.Called() })
	})
}

func without(all []offer.Candidate, q compute.QueueName) []offer.Candidate {
	return slices.DeleteFunc(slices.Clone(all), func(c offer.Candidate) bool { return c.Queue == q })
}

// firsts are the candidates that go before others.
func (f *Fetcher) firsts(plan []offer.Session, now time.Time) (out []offer.Candidate) {
	for _, s := range plan {
		for _, c := range s.Candidates {
			if c.Queue == f.saving.queue || f.lateFirst(c, plan, now) {
				out = append(out, c)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b offer.Candidate) int {
		mine := sorted.TrueFirst(a.Queue == f.saving.queue, b.Queue == f.saving.queue)
		return cmp.Or(mine, f.lateRank(a.Queue).Compare(f.lateRank(b.Queue)))
	})
	return out
}

// lateFirst says whether late work of a queue goes before others. What was looked for in vain does not, until the host
// is rung for it: it is listed with the others, for what is said to lie there may be gone.
func (f *Fetcher) lateFirst(c offer.Candidate, plan []offer.Session, now time.Time) bool {
	known := c.Rung || c.Behind || !f.sampler.Refuted(c.Queue, now)
	return known && f.sampler.Late(c.Queue) && (c.Called() || c.Deep) && !f.outranked(c.Queue, plan)
}

// lateRank is since when late work of a queue counts as waiting.
func (f *Fetcher) lateRank(q compute.QueueName) time.Time {
	return f.queues[q].Priority.Rank(f.sampler.Oldest(q))
}

// outranked says whether work of another class that is served first is known to lie where this host would fetch.
func (f *Fetcher) outranked(q compute.QueueName, plan []offer.Session) bool {
	return slices.ContainsFunc(plan, func(s offer.Session) bool {
		return slices.ContainsFunc(s.Candidates, func(c offer.Candidate) bool {
			class := f.queues[c.Queue].Priority
			return class != f.queues[q].Priority && !c.Since.IsZero() && class.Rank(c.Since).Before(f.lateRank(q))
		})
	})
}
