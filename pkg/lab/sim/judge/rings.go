// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// Worked is a call of a hypervisor that takes its time.
type Worked struct {
	Host     compute.HostID
	Instance compute.InstanceID
	Method   string
	From, To time.Time
}

// Offered is what a host said of itself.
type Offered struct {
	Seen  time.Time
	Host  compute.HostID
	State compute.HostState
	Asks  bool      // it does not know whether it is alone under its name
	Said  time.Time // its record's
}

// AddWork notes that a hypervisor is busy, until done.
func (r *Recording) AddWork(h compute.HostID, id compute.InstanceID, method string) (done func()) {
	w := Worked{Host: h, Instance: id, Method: method, From: time.Now()}
	return func() {
		w.To = time.Now()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.Works = append(r.Works, w)
	}
}

func (r *Recording) AddFetch(h compute.HostID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Fetches[h] = append(r.Fetches[h], time.Now())
}

const (
	// idleTime is how long a host that offers may do nothing while work waits that
	// it has room for, where nothing is at fault. It is rung for the work within a
	// second or two; if it waits on another queue by then, with room for the work of
	// only one of them, that fetch has to end first, which takes 5 s at most.
	idleTime = 7 * time.Second
	// firstRing is how long the first ring for work may count where claims are slow (Slowest of queues/ring), and
	// rungAgain how long one that was lost may count, whatever was rung before.
	firstRing = 3 * time.Second
	rungAgain = 16 * time.Second
	// unrungTime is that where nothing but rings is at fault: an idle host reads advice
	// every forty seconds, and polls what it tells of every 15 s.
	unrungTime = 70 * time.Second
	// adviceTime is how far apart the looks of an idle host at advice are: a fetch may
	// last 40 s. A host cannot tell how old the first advice is that it reads.
	adviceTime = 45 * time.Second
	// listed is how many queues a fetch lists (offer.MostListed), and fetchTime how long
	// it lasts if nothing comes (DefaultPullWait of pkg/kafka/share).
	listed    = 64
	fetchTime = 5 * time.Second
	// recovers is how long after the last fault nothing counts as at fault any more:
	// work that was taken away comes again a minute later, and is rung for in turns
	// that are up to 15 s apart by then.
	recovers = 90 * time.Second
)

// orphanTime is how long a host may do nothing where queue managers end:
//
//	adviceTime + RingsLast       until it does not count on being rung any more
//	+ SampleHolds                until it samples queues
//	+ 3·SampleHolds              until each queue was sampled once, a quarter of them in each
//	                             epoch; up to two hosts wait on all queues at once
//	+ round                      until each of those was listed in a fetch, 64 at a time
//	+ 2·round                    where some of the queue's work is not for this host, which leaves
//	                             it to others twice, until the queue's next turn
func (r *Recording) orphanTime(q compute.QueueName) time.Duration {
	round := time.Duration((len(r.Schedule.Queues())+listed-1)/listed) * fetchTime
	most := adviceTime + compute.RingsLast + compute.SampleHolds + round
	if len(r.Schedule.World.Hosts) > 2 {
		most += 3 * compute.SampleHolds
	}
	if r.behindOthers(q) > 0 {
		most += 2 * round
	}
	return most
}

// span is a time from one moment to another.
type span struct{ from, to time.Time }

// sound is when nothing is at fault, and how long a host may do nothing then.
func (r *Recording) sound() (span, time.Duration) {
	end := latest(r.Calm, r.Settled)
	slack := 60 * r.Schedule.World.Latency.Duration()
	onlyRings := !slices.ContainsFunc(r.Schedule.Faults, func(f schedule.Fault) bool {
		return f.Kind != schedule.FaultRing || f.Key == schedule.RingDead || f.Key == schedule.RingManagers
	})
	switch {
	case len(r.Schedule.Faults) == 0:
		return span{r.Start, end}, idleTime + slack
	case r.Schedule.Orphaned():
		return span{r.Start, end}, slack // and orphanTime
	case r.Schedule.LostFor() > 0:
		lost := r.Schedule.LostFor().Duration()
		return span{r.Start, end}, min(max(3*lost, firstRing), lost+rungAgain, unrungTime) + idleTime + slack
	case onlyRings:
		return span{r.Start, end}, unrungTime + slack
	}
	return span{latest(r.Calm, r.Up).Add(recovers), end}, idleTime + slack
}

// checkIdle: I6, tighter: no host that offers does nothing, for longer than idleTime,
// while work waits in an open queue that fits it and has room there.
func checkIdle(r *Recording) (wrong []Violation) {
	sound, most := r.sound()
	if sound.to.Sub(sound.from) < most {
		return nil
	}
	lives := r.hostLives()
	for _, w := range r.waits() {
		wait := span{latest(w.from, sound.from), earliest(w.to, sound.to)}
		most := most + r.behindOthers(w.instance.Queue)
		if r.Schedule.Orphaned() {
			most += r.orphanTime(w.instance.Queue)
		}
		if w.late {
			most += rungAgain
		}
		if wait.to.Sub(wait.from) > most {
			most += r.behindLate(w)
			if r.besideRuled(w.instance, w.from) {
				most += rungAgain
			}
		}
		if wait.to.Sub(wait.from) <= most {
			continue
		}
		for _, h := range r.Schedule.World.Hosts {
			if !r.mayRun(w.instance, h) {
				continue
			}
			life := lives[h.ID].without(r.saves(h.ID, w.instance.Queue))
			idle := life.idle(wait, r.Needs(w.instance), h.Totals)
			if long := idle.to.Sub(idle.from); long > most && long > most+r.rungAfterOthers(w, wait.from, h.ID) {
				wrong = append(wrong, broken(
					"idle",
					w.instance.ID,
					idle.to,
					"%s waits in %s from %s to %s, and %s has room and did nothing from %s to %s",
					w.instance.Boot.Name,
					w.instance.Queue,
					r.At(w.from),
					r.At(w.to),
					h.ID,
					r.At(idle.from),
					r.At(idle.to),
				)...)
				break
			}
		}
	}
	return wrong
}

// rungAfterOthers is how much later a host may be rung because others were rung for the work before, and took other
// work then, the last of them so long after from: nobody knows which one of several that a host has room for it takes.
func (r *Recording) rungAfterOthers(w waiting, from time.Time, h compute.HostID) time.Duration {
	before, last := map[compute.HostID]time.Time{}, from
	for _, x := range r.Rings {
		if x.Queue != w.instance.Queue || x.Hold > 0 || x.Seen.Before(w.from) || x.Seen.After(w.to) {
			continue
		}
		if x.Host != h {
			if _, rung := before[x.Host]; !rung {
				before[x.Host] = x.Seen
			}
			continue
		}
		for _, c := range r.Claims {
			rung, is := before[c.Host]
			if is && c.Instance != w.instance.ID && c.Seen.After(rung) && c.Seen.Before(x.Seen) {
				last = latest(last, c.Seen)
			}
		}
		break
	}
	return min(last.Sub(from), rungAgain)
}

// behindLate is how much longer work may wait behind what was past its deadline: a host leaves that to others once, for
// two seconds.
func (r *Recording) behindLate(w waiting) time.Duration {
	q, _ := lineOf(w.instance)
	late := map[work]bool{}
	for _, b := range slices.Concat(r.Builds, r.Wholes) {
		if b.Queue == q && b.Seen.Before(w.to) && b.Deadline.Before(w.to) {
			late[work{b.Instance, b.Attempt}] = true
		}
	}
	for _, c := range r.Claims {
		delete(late, work{c.Instance, c.Attempt})
	}
	return time.Duration(len(late)) * leftFor
}

// besideRuled says whether other work seemed to lie in the same queue lately for which hosts were rung in vain: what its
// group or set decides, or what was told to one host.
func (r *Recording) besideRuled(i compute.Instance, at time.Time) bool {
	q, _ := lineOf(i)
	for n, w := range r.Log {
		x := w.Instance
		if lay, _ := lineOf(x); x.State != compute.StateQueued || x.ID == i.ID || lay != q || w.Seen.After(at) {
			continue
		}
		told := slices.ContainsFunc(r.Told, func(t Told) bool { return t.Instance == x.ID })
		if (told || r.ruled(x.Boot.Name)) && r.over(n).After(at.Add(-rungAgain)) {
			return true
		}
	}
	return false
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// mayRun says whether an instance would fit a host that is empty, and may run there.
func (r *Recording) mayRun(i compute.Instance, h schedule.Host) bool {
	traits := map[compute.Trait]bool{}
	for _, t := range h.Traits {
		traits[t] = true
	}
	failed := slices.ContainsFunc(i.Failures, func(f compute.Failure) bool { return f.Host == h.ID })
	q := compute.Queue{Required: i.Required, Forbidden: i.Forbidden}
	failed = failed || r.Schedule.World.Broken(h.ID, i.Boot.Image) != nil
	return !failed && (!r.ruled(i.Boot.Name) || r.packed(i)) && !slices.Contains(i.Boot.Avoid, h.ID) &&
		q.Accepts(traits) && i.Resources.FitsIn(h.Totals)
}

// waiting is work that waits in a queue for any host, claimed by none.
type waiting struct {
	span
	instance compute.Instance

	// late says that it came into its queue long after it was due there, as where others of its project were there and
	// no host took them. Hosts were rung for it in vain by then, and are again after rungAgain at the latest.
	late bool
}

// waitsOn says whether a claim was denied, so that its work waits on. What is denied because of its group, or is of
// a set, waits for more than room.
func (r *Recording) waitsOn(c Claimed) bool {
	ofSet := func(a Ask) bool { return a.ID == c.Instance && a.Set != "" }
	return r.denied(c.Claim) && !r.deniedByGroup(c.Claim) && !slices.ContainsFunc(r.Asks, ofSet)
}

// waits are all times in which work waited.
func (r *Recording) waits() []waiting { return r.waitsBeside(r.waitsOn) }

// waitsBeside are all times in which work was in a queue and not claimed; some claims count for nothing.
func (r *Recording) waitsBeside(nothing func(Claimed) bool) (list []waiting) {
	first := cameFirst(r.Builds)
	claimed := map[work]time.Time{}
	for _, c := range r.Claims {
		if k := (work{c.Instance, c.Attempt}); claimed[k].IsZero() && !nothing(c) {
			claimed[k] = c.Seen
		}
	}
	due := map[work]time.Time{}
	for n, w := range r.Log {
		i := w.Instance
		k := work{i.ID, i.Attempt}
		if w.Removed || i.State != compute.StateQueued || i.Boot.Host != "" || first[k].IsZero() {
			continue
		}
		if due[k].IsZero() {
			due[k] = latest(w.Seen, i.PublishAt)
		}
		x := waiting{span{latest(w.Seen, i.PublishAt, first[k]), r.over(n)}, i, first[k].Sub(due[k]) > promptly}
		if i.Whole() != "" {
			whole, known := r.asWhole(i)
			if !r.packed(i) || !known {
				continue
			}
			if x.instance = whole; !r.claimedOf(i, x.from).IsZero() {
				x.to = earliest(x.to, r.claimedOf(i, x.from))
			}
		}
		if at := claimed[k]; !at.IsZero() {
			x.to = earliest(x.to, at)
		}
		list = append(list, x)
	}
	return r.besideRogues(list)
}

// hostLife is what happened on a host, oldest first.
type hostLife []change

// change is a moment at which a host has more or less room, does more or less, or
// offers or does not.
type change struct {
	at     time.Time
	takes  compute.Resources // added to what is in use; nil: nothing
	gives  compute.Resources
	busy   int
	offers compute.HostState
	isSaid bool // what it offers
}

func (r *Recording) hostLives() map[compute.HostID]hostLife {
	last := r.last()
	lives := map[compute.HostID]hostLife{}
	type place struct {
		h  compute.HostID
		id compute.InstanceID
	}
	on := map[place]bool{}
	type move struct {
		place
		at    time.Time
		gone  bool
		order int // of those of one moment: what is gone then was there before work that lasts
	}
	var moves []move
	add := func(h compute.HostID, c change) { lives[h] = append(lives[h], c) }
	for _, w := range r.Works {
		add(w.Host, change{at: w.From, busy: 1})
		add(w.Host, change{at: w.To, busy: -1})
		order := 0
		if w.To.After(w.From) {
			order = 1
		}
		moves = append(moves, move{place{w.Host, w.Instance}, w.From, false, order})
	}
	for _, e := range r.Machines {
		if e.Kind == fake.Destroyed || e.Kind == fake.Undone {
			moves = append(moves, move{place{e.Host, e.Instance}, e.At, true, 0})
		}
	}
	slices.SortStableFunc(moves, func(a, b move) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.order, b.order))
	})
	for _, c := range moves {
		switch needs := last[c.id].Resources; {
		case c.gone && on[c.place]:
			add(c.h, change{at: c.at, gives: needs})
		case !c.gone && !on[c.place]:
			add(c.h, change{at: c.at, takes: needs})
		}
		on[c.place] = !c.gone
	}
	for _, o := range r.Offers {
		if o.State != compute.HostEnabled || !r.closing(o) {
			add(o.Host, change{at: o.Seen, offers: o.State, isSaid: true})
		}
	}
	for _, a := range r.Asks {
		if closes(a) { // it may have heard that before it says so
			add(a.Host, change{at: a.Began, offers: compute.HostDisabled, isSaid: true})
		}
	}
	for h := range lives {
		lives[h].sorted()
	}
	return lives
}

// closes says whether an operator asks a host to offer nothing.
func closes(a Ask) bool { return a.Op == schedule.LoadHost && a.Wish != "enable" }

// closing says whether a host that says that it offers was asked to offer nothing so shortly before that it may not have heard
// of that when it said so, and to offer again by nobody since.
func (r *Recording) closing(o Offered) bool {
	return slices.ContainsFunc(r.Asks, func(a Ask) bool {
		return closes(a) && a.Host == o.Host && a.Began.Before(o.Seen) && a.Began.After(o.Seen.Add(-seenLate)) &&
			!r.wishes(o.Host, a.Began, o.Seen)
	})
}

func (l hostLife) sorted() hostLife {
	slices.SortStableFunc(l, func(a, b change) int { return a.at.Compare(b.at) })
	return l
}

// idle is the longest part of a time in which the host offers, has room and does
// nothing.
func (l hostLife) idle(in span, needs, totals compute.Resources) (longest span) {
	used, busy, offers := compute.Resources{}, 0, false
	from := in.from
	upTo := func(at time.Time) {
		to := earliest(at, in.to)
		if offers && busy == 0 && needs.FitsIn(totals.Minus(used)) && to.Sub(from) > longest.to.Sub(longest.from) {
			longest = span{from, to}
		}
		from = latest(from, at)
	}
	for _, c := range l {
		if c.at.After(in.from) && (!c.isSaid || (c.offers == compute.HostEnabled) != offers) {
			upTo(c.at)
		}
		used, busy = used.Plus(c.takes).Minus(c.gives), busy+c.busy
		if c.isSaid {
			offers = c.offers == compute.HostEnabled
		}
	}
	upTo(in.to)
	return longest
}
