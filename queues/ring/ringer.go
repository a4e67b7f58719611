// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"container/heap"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/sorted"
)

// Ringer remembers what waits and which hosts were rung. It is not safe for concurrent use;
// times must not go backwards.
type Ringer struct {
	rules   Rules
	hosts   Hosts
	queues  map[compute.QueueName]*queue
	waiting map[compute.QueueName]struct{} // of them: those in which work lies
	timers  timers
	held    map[compute.HostID]int // on how many queues each host is held
	claims  time.Duration          // how long claims take lately
	tokens  float64                // rings that may go out now
	filled  time.Time              // when tokens were last added
	looked  time.Time              // when holds were last looked at
	ahead   time.Duration          // of the log
	changed bool                   // ahead was, and timers count from what it was before
}

// queue is what waits in one queue, and which hosts were rung for it.
type queue struct {
	name  compute.QueueName
	works map[string]Work // published and not claimed
	picky int             // of them: how many will not run on some host
	apart int             // of them: how many want a host each, for a group keeps its members apart
	later map[string]Work // to be published

	rung    map[compute.HostID]time.Time // until when each ring counts
	held    map[compute.HostID]time.Time // until when each host waits on the queue
	next    time.Time                    // when it is looked at again; zero: only when something comes
	rounded time.Time                    // when it was last looked at
	judged  time.Time                    // when the last round was, if that left work
	fewer   bool                         // work was claimed since
	nowFit  []compute.HostID             // fit since the last round, and did not before: no more than are wanted
	vain    int                          // rounds in a row after which no less work was there
	rate    float64                      // builds a second, lately
	rated   time.Time                    // when that was so; zero: nothing came yet
}

// New is a ringer that knows of no work.
func New(r Rules, hosts Hosts) *Ringer {
	return &Ringer{
		rules: r, hosts: hosts, queues: map[compute.QueueName]*queue{}, waiting: map[compute.QueueName]struct{}{},
		held: map[compute.HostID]int{}, tokens: r.AtOnce,
	}
}

func (r *Ringer) queue(name compute.QueueName) *queue {
	q := r.queues[name]
	if q == nil {
		q = &queue{
			name: name, works: map[string]Work{}, later: map[string]Work{},
			rung: map[compute.HostID]time.Time{}, held: map[compute.HostID]time.Time{},
		}
		r.queues[name] = q
	}
	return q
}

// Came takes a build that waits in a queue from now on, or from when it is due.
func (r *Ringer) Came(name compute.QueueName, w Work, now time.Time) {
	q := r.queue(name)
	if due := r.due(w); due.After(now) {
		q.later[w.Key] = w
		r.schedule(q, due)
		return
	}
	r.publish(q, w, now)
}

// Ahead says how far the caller's clock is ahead of the log, by which work is due.
func (r *Ringer) Ahead(by time.Duration) {
	if (by - r.ahead).Abs() >= aheadMatters {
		r.ahead, r.changed = by, true
	}
}

// aheadMatters is from which change on Ahead is heard: all queues are looked through at each.
const aheadMatters = 10 * time.Millisecond

// due is when work that is to come is published, by the caller's clock.
func (r *Ringer) due(w Work) time.Time { return w.Due.Add(r.ahead) }

// dueAnew has queues looked at when work is due by what Ahead said last. A timer that comes too early does no harm.
func (r *Ringer) dueAnew() {
	if !r.changed {
		return
	}
	r.changed = false
	for _, q := range r.queues {
		r.scheduleDue(q)
	}
}

// publish counts a build among those that lie in the queue. How long claims take is
// told from here on, by one clock: that of the conductor may be another.
func (r *Ringer) publish(q *queue, w Work, now time.Time) {
	w.Due, w.apart = now, w.Apart != nil && w.Apart()
	q.works[w.Key], r.waiting[q.name] = w, struct{}{}
	q.countWork(w, 1)
	q.noteBuild(now)
	if when := q.rounded.Add(deepEvery); len(q.works) > deep && when.After(now) {
		r.schedule(q, when)
		return
	}
	r.schedule(q, now)
}

// A round looks at all hosts that were rung. Where much work lies one build more hardly
// changes what it finds, so then rounds are some time apart.
const (
	deep      = 32
	deepEvery = 50 * time.Millisecond
)

func (q *queue) countWork(w Work, n int) {
	if w.picks() {
		q.picky += n
	}
	if w.apart {
		q.apart += n
	}
}

func (w Work) picks() bool { return len(w.Avoid)+len(w.Failed) > 0 || w.Kept != nil }

// Went takes note that a build does not wait any more: claimed says that a host has it.
func (r *Ringer) Went(name compute.QueueName, key string, claimed bool, now time.Time) {
	q := r.queues[name]
	if q == nil {
		return
	}
	delete(q.later, key)
	w, there := q.works[key]
	if !there {
		return
	}
	delete(q.works, key)
	q.countWork(w, -1)
	if q.fewer = q.fewer || claimed; claimed {
		took := min(now.Sub(w.Due), r.rules.Slowest)
		r.claims += (took - r.claims) / claimsBelieved
		r.ledToClaim(q, now)
	}
	if len(q.works) == 0 {
		delete(r.waiting, name)
		clear(q.rung)
		q.next, q.judged, q.vain, q.fewer, q.nowFit = time.Time{}, time.Time{}, 0, false, nil
		r.scheduleDue(q)
	}
}

// ledToClaim ends the waits of rounds in vain: a ring led to a claim. The host that has claimed has looked, so for what
// comes next it is rung again as soon as after a first round, though other work lies there that nobody takes.
func (r *Ringer) ledToClaim(q *queue, now time.Time) {
	if q.vain == 0 {
		return
	}
	q.vain, q.judged, q.fewer = 0, now, false
	soon := now.Add(r.ringCounts(0))
	for h, until := range q.rung {
		q.rung[h] = sorted.Sooner(until, soon)
	}
	r.schedule(q, soon)
}

// claimsBelieved is of how many claims the mean is taken.
const claimsBelieved = 8

// scheduleDue has the queue looked at when the next build is due.
func (r *Ringer) scheduleDue(q *queue) {
	for _, w := range q.later {
		r.schedule(q, r.due(w))
	}
}

// Forget drops a queue that is gone.
func (r *Ringer) Forget(name compute.QueueName) {
	q := r.queues[name]
	if q == nil {
		return
	}
	for h := range q.held {
		r.endHold(q, h)
	}
	if len(q.works)+len(q.later) == 0 {
		q.next = time.Time{}
		delete(r.queues, name)
		return
	}
	clear(q.rung)
}

// Reset says that nobody can be counted on to have been rung: another queue manager
// rang hosts until now.
func (r *Ringer) Reset(now time.Time) {
	clear(r.held)
	for _, q := range r.queues {
		clear(q.held)
		clear(q.rung)
		q.judged, q.vain, q.fewer = time.Time{}, 0, false
		if len(q.works) > 0 {
			r.schedule(q, now)
		}
	}
}

// EachWaiting calls each with every queue in which work waits.
func (r *Ringer) EachWaiting(each func(compute.QueueName)) {
	for name := range r.waiting {
		each(name)
	}
}

// NowFits says that a host fits a queue's work that did not fit it before. It will look
// by itself if it knows that work lies there; so it is rung a moment later.
func (r *Ringer) NowFits(name compute.QueueName, h compute.HostID, now time.Time) {
	if q := r.queues[name]; q != nil && len(q.works) > 0 {
		if q.vain = 0; len(q.nowFit) < r.wanted(q) && !slices.Contains(q.nowFit, h) {
			q.nowFit = append(q.nowFit, h)
		}
		r.schedule(q, now.Add(r.rules.Soonest/2))
	}
}

// NoLongerFits says that a host does not fit a queue's work any more that fitted it before. If it was rung for that, it
// has taken other work: another is rung a moment later, and not once the ring counts no more, which may be seconds.
func (r *Ringer) NoLongerFits(name compute.QueueName, h compute.HostID, now time.Time) {
	q := r.queues[name]
	if q == nil || len(q.works) == 0 {
		return
	}
	if _, rung := q.rung[h]; rung {
		r.schedule(q, now.Add(r.rules.Soonest/2)) // which drops the ring
	}
}

// Again says that hosts which have left a queue's work to others may take it now, and that it may want other hosts: it
// is as if none had been rung in vain.
func (r *Ringer) Again(name compute.QueueName, now time.Time) {
	if q := r.queues[name]; q != nil && len(q.works) > 0 {
		for key, w := range q.works {
			q.countWork(w, -1)
			w.apart = w.Apart != nil && w.Apart()
			q.countWork(w, 1)
			q.works[key] = w
		}
		clear(q.rung)
		q.vain, q.judged = 0, time.Time{}
		r.schedule(q, now.Add(r.rules.Soonest/2))
	}
}

// Next is when Rings should be asked again though nothing comes; zero: never.
func (r *Ringer) Next() (next time.Time) {
	r.dueAnew()
	for len(r.timers) > 0 && !r.timers[0].valid() {
		heap.Pop(&r.timers)
	}
	if len(r.timers) > 0 {
		next = r.timers[0].at
	}
	if len(r.held) > 0 && (next.IsZero() || r.looked.Add(holdsEvery).Before(next)) {
		next = r.looked.Add(holdsEvery)
	}
	return next
}

// Rings are the rings to send now. They count as sent.
func (r *Ringer) Rings(now time.Time) []Ring {
	r.fill(now)
	r.dueAnew()
	var out []Ring
	for len(r.timers) > 0 && !r.timers[0].at.After(now) {
		t := heap.Pop(&r.timers).(timer)
		if !t.valid() {
			continue
		}
		if r.tokens < 1 {
			heap.Push(&r.timers, timer{now.Add(r.rules.Soonest / 5), t.queue})
			t.queue.next = now.Add(r.rules.Soonest / 5)
			break
		}
		out = append(out, r.round(t.queue, now)...)
	}
	if now.Sub(r.looked) >= holdsEvery {
		r.looked = now
		out = append(out, r.holds(now)...)
	}
	return out
}

func (r *Ringer) fill(now time.Time) {
	r.tokens = min(r.rules.AtOnce, r.tokens+now.Sub(r.filled).Seconds()*r.rules.PerSecond)
	r.filled = now
}

// ringCounts is how long a ring counts.
func (r *Ringer) ringCounts(vain int) time.Duration {
	base := max(r.rules.Soonest, min(4*r.claims, r.rules.Slowest))
	return min(base<<min(vain, 10), r.rules.Latest)
}

// round rings as many hosts for a queue as are missing.
func (r *Ringer) round(q *queue, now time.Time) (out []Ring) {
	q.rounded = now
	for key, w := range q.later {
		if !r.due(w).After(now) {
			delete(q.later, key)
			r.publish(q, w, now)
		}
	}
	q.next = time.Time{}
	r.scheduleDue(q)
	if len(q.works) == 0 {
		return nil
	}
	r.endRound(q, now)
	ring := func(h compute.HostID) {
		q.rung[h] = now.Add(r.ringCounts(q.vain))
		out = append(out, Ring{h, compute.Look{Queue: q.name}})
		r.tokens--
	}
	for _, h := range r.newlyFit(q) {
		ring(h)
	}
	eligible, _ := r.hosts.Eligible(q.name)
	if missing := min(r.wanted(q), eligible) - len(q.rung) - r.serving(q); missing > 0 {
		for _, h := range r.sample(q, min(missing, int(r.tokens))) {
			ring(h)
		}
	}
	r.schedule(q, now.Add(r.ringCounts(q.vain)))
	for _, until := range q.rung {
		r.schedule(q, until)
	}
	return out
}

// newlyFit are the hosts to be rung because the work fits them now and did not before,
// however many others were rung: those others had their chance.
func (r *Ringer) newlyFit(q *queue) (out []compute.HostID) {
	for _, h := range q.nowFit {
		_, rung := q.rung[h]
		_, held := q.held[h]
		if len(out) < int(r.tokens) && !rung && !held && r.hosts.Fits(q.name, h) && !q.refused(h) {
			out = append(out, h)
		}
	}
	q.nowFit = nil
	return out
}

// refused says whether a host should not be rung: all the work avoids it, or failed there.
func (q *queue) refused(h compute.HostID) bool {
	return q.picky > 0 && q.picky == len(q.works) && q.unwelcome(h, true)
}

// endRound says whether the last round was in vain, once its rings count no more. A host
// that is full by now has nothing more to look for.
func (r *Ringer) endRound(q *queue, now time.Time) {
	maps.DeleteFunc(q.rung, func(h compute.HostID, until time.Time) bool {
		return !until.After(now) || !r.hosts.Fits(q.name, h)
	})
	if q.judged.IsZero() {
		q.judged = now
	}
	if now.Sub(q.judged) < r.ringCounts(q.vain) {
		return
	}
	if q.vain++; q.fewer {
		q.vain = 0
	}
	q.judged, q.fewer = now, false
}

// wanted is how many hosts should look at the work that lies in a queue.
func (r *Ringer) wanted(q *queue) int {
	n := len(q.works) - q.apart
	want := min(r.rules.First*n, 2*r.rules.Batch+n/r.rules.Batch)
	if q.vain == 0 { // else they wait for hosts that there are not, and conductors hold most of them
		want += min(q.apart, mostApart)
	}
	if q.vain > 0 {
		want += r.rules.First << min(q.vain-1, 12)
	}
	return want
}

// mostApart bounds how many hosts are rung at once for members of groups that want one each.
const mostApart = 64

// serving is how many of the hosts that are wanted wait on the queue already. What lies
// there is mostly on its way to a claim, as much of it as the hosts that wait can have
// in hand. Work that lies there all the same, they do not take: then they do not count.
func (r *Ringer) serving(q *queue) int {
	if q.vain > 0 {
		return 0
	}
	inHand := min(len(q.works), r.rules.Batch*len(q.held))
	return len(q.held) + r.rules.First*inHand
}

// sample draws hosts that may take some of the work, none of which was rung lately.
func (r *Ringer) sample(q *queue, n int) []compute.HostID {
	rung := func(h compute.HostID) bool {
		_, is := q.rung[h]
		return is
	}
	drawn := r.hosts.Sample(q.name, n, func(h compute.HostID) bool { return rung(h) || q.refused(h) })
	if len(drawn) > 0 || len(q.rung) > 0 {
		return drawn
	}
	return r.hosts.Sample(q.name, n, func(h compute.HostID) bool { return q.unwelcome(h, false) })
}

// maxAsked bounds how much work is asked whether it may run on a host.
const maxAsked = 200

// unwelcome says whether all work in the queue avoids a host, or failed there.
func (q *queue) unwelcome(h compute.HostID, failed bool) bool {
	asked := 0
	for _, w := range q.works {
		kept := w.Kept != nil && w.Kept(h)
		if !kept && !slices.Contains(w.Avoid, h) && !(failed && slices.Contains(w.Failed, h)) {
			return false
		}
		if asked++; asked == maxAsked {
			break
		}
	}
	return true
}

// rateSettles is how long the rate of a queue must have changed for two thirds of the
// change to be believed.
const rateSettles = 10 * time.Second

func (q *queue) noteBuild(now time.Time) {
	q.rate, q.rated = q.rateAt(now)+1/rateSettles.Seconds(), now
}

// rateAt is the rate as it is now.
func (q *queue) rateAt(at time.Time) float64 {
	return q.rate * math.Exp(-at.Sub(q.rated).Seconds()/rateSettles.Seconds())
}
