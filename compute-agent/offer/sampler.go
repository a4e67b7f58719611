// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

const (
	// Epoch is how long a sample holds.
	Epoch = compute.SampleHolds
	// stale is how long without any advice until depths are forgotten.
	stale = 60 * time.Second
	// MostExtra is how many queues a host waits on only because work lies there, if it has sampled none. A fetch
	// that lists many queues costs a broker many times one that lists few, and where work lies one queue is enough
	// to bring some: when brokers fall behind, all queues are deep.
	MostExtra = 4
	// rounds is in how many epochs every queue is visited once when there is no advice: within a minute.
	rounds = uint64(stale / Epoch)
)

// Sampler chooses the queues that this host waits on while no queue manager rings it. A record should meet a fetch
// that waits, and a broker should not pay for more waiting fetches than that takes. No host asks another: each waits on
// a queue with a chance p, decided by a hash of host, queue and epoch, so that about as many hosts wait as should.
//
//	p = min(1, want/W)     W: hosts that are eligible for the queue, by the advice of the queue manager
//	want = 8 + D           D: records that lie in it, by the same advice
//	p·(1½ − used)          if the host's weigher is spread; used: the share of the host in use
//	p·(½ + used)           if it is pack
//
// On an empty queue fewer wait where queues are many: Share says how many, and why. The constants:
//
//   - 8 (compute.UsualWaiters): with 8 in the mean no host waits on an empty queue in 3 of 10,000 epochs (e⁻⁸). The
//     queue manager may ask for more where much comes (QueueAdvice.Waiters).
//   - D more, because each of the records takes one host away from the queue.
//   - ½ and 1½ (tilt): the weigher makes a host up to three times as likely as another, and shuts none out.
//   - 15 s (Epoch): how long a sample holds. Hosts begin their epochs at different moments, so that not all of them
//     open new fetches at once.
//   - 60 s (stale): after twelve pieces of advice that did not come, what was said is not true any more; each host
//     then visits each queue once a minute.
//
// When an epoch begins, queues are sampled by what is known then (Systematic), so that the host waits on about as many
// in each epoch. What advice says of one queue meanwhile changes that queue alone (Waits). Work that is said to lie in
// a queue may be looked for by every host, by each in a few queues at a time (Extra).
type Sampler struct {
	host     compute.HostID
	weigher  compute.Weigher
	entries  []entry                   // of the queues listed, in an order of the host's own
	share    Share                     // of the queues listed
	in       uint64                    // the epoch that queues were sampled for
	used     float64                   // of the host, when they were sampled
	at       map[compute.QueueName]int // places in entries
	about    map[compute.QueueName]compute.QueueAdvice
	adviceAt time.Time                 // when the last advice came; zero, and so long ago: never
	skipped  map[compute.QueueName]int // how often in a row a queue was chosen and not fetched
	said     time.Time                 // when the last advice was made, by the queue manager's clock
	refuted  map[compute.QueueName]refuted
	rings    bool                           // the queue manager rings hosts, by the last advice
	deep     map[compute.QueueName]struct{} // of about: those in which work is said to lie
	current  bool                           // the chances follow from the last advice
	read     read                           // the last time that advice was read
	before   read                           // the time before
	open     time.Time                      // until when a host that is rung polls deep queues
	polled   uint64                         // the epoch of the last short polls
}

// refuted is work that was said to lie in a queue, and did not come.
type refuted struct {
	said  time.Time // the advice that was known then
	until time.Time // when the queue is tried again, whatever is said
}

// entry is one queue that may be sampled: there are thousands, sampled again and again, so that all
// that is needed is at hand.
type entry struct {
	queue   compute.QueueName
	class   compute.Priority
	needs   compute.Resources
	order   uint64 // its place in the sample, and when it is due where nothing is known
	news    compute.QueueAdvice
	advised bool    // news is something
	idle    float64 // the chance to wait, if no work lay there
	all     float64 // the chance to wait, with the work that does
	chance  float64 // that it was sampled with; 0: it was not there to be sampled
	sampled bool    // for this epoch
	own     bool    // the host waits on it, whether work lies there or not
}

// NewSampler is one host's.
func NewSampler(h compute.HostID, w compute.Weigher) *Sampler {
	return &Sampler{
		host: h, weigher: w, about: map[compute.QueueName]compute.QueueAdvice{}, skipped: map[compute.QueueName]int{},
		refuted: map[compute.QueueName]refuted{}, deep: map[compute.QueueName]struct{}{},
	}
}

// List says which queues there are to sample.
func (l *Sampler) List(queues []compute.Queue) {
	before, was := l.entries, l.at
	l.entries, l.at = make([]entry, len(queues)), make(map[compute.QueueName]int, len(queues))
	for i, q := range queues {
		news, advised := l.about[q.Name]
		l.entries[i] = entry{
			queue: q.Name, class: q.Priority, needs: q.Resources, order: hash(string(l.host), string(q.Name), 0), news: news,
			advised: advised,
		}
		if j, listed := was[q.Name]; listed {
			l.entries[i].chance, l.entries[i].sampled = before[j].chance, before[j].sampled
		}
	}
	slices.SortFunc(l.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.queue, b.queue))
	})
	for i := range l.entries {
		l.at[l.entries[i].queue] = i
	}
	l.current = false
}

// update works out again on how many queues the host would wait, and so the chances.
func (l *Sampler) update() {
	l.share, l.current = 0, true
	for i := range l.entries {
		if x := &l.entries[i]; x.advised {
			l.share.Add(x.news)
		}
	}
	for i := range l.entries {
		if x := &l.entries[i]; x.advised {
			x.idle, x.all = l.share.Chances(x.news)
			x.own = l.waits(x, x.idle)
		}
	}
}

// sample chooses the queues of an epoch, once: the chance of one moves all that come after it, so each
// piece of advice would change the sample of every host, and each build, which changes what is used of it, its own.
func (l *Sampler) sample(e uint64, used float64) {
	l.in, l.used = e, used
	next := NewSystematic(hash(string(l.host), "", e))
	for i := range l.entries {
		x := &l.entries[i]
		if x.chance, x.sampled = 0, false; x.advised {
			x.chance, x.sampled = x.idle, next.Next(Chance(l.weigher, x.idle, used))
		}
		x.own = x.sampled
	}
}

// waits says whether the host waits on a queue with a chance.
func (l *Sampler) waits(x *entry, chance float64) bool {
	if chance == x.chance {
		return x.sampled
	}
	return Waits(l.weigher, x.sampled, x.chance, chance, l.random(x), l.used)
}

// random is a queue's random number in the epoch.
func (l *Sampler) random(x *entry) uint64 { return hash(string(l.host), string(x.queue), l.in) }

// Advise takes advice that came now.
func (l *Sampler) Advise(a compute.Advice, now time.Time) {
	l.adviceAt, l.said, l.rings, l.current = now.Add(-l.age(a.At, now)), a.At, a.Rings, false
	if a.Full {
		clear(l.about)
		clear(l.deep)
		for i := range l.entries {
			l.entries[i].news, l.entries[i].advised = compute.QueueAdvice{}, false
		}
	}
	for _, q := range a.About {
		l.about[q.Queue] = q
		if delete(l.deep, q.Queue); q.Depth > 0 {
			l.deep[q.Queue] = struct{}{}
		}
		if i, listed := l.at[q.Queue]; listed {
			l.entries[i].news, l.entries[i].advised = q, true
		}
	}
}

// age is how old advice is that is read now: the host's time between its last two reads, less the
// queue manager's time between the advice that they brought. So the last advice of a queue manager
// that is gone is found to be old, and no clock is compared with another.
func (l *Sampler) age(at, now time.Time) time.Duration {
	if !now.Equal(l.read.now) {
		l.before, l.read.now = l.read, now
	}
	l.read.at = at
	if l.before.now.IsZero() || at.Before(l.before.at) {
		return 0
	}
	return max(0, now.Sub(l.before.now)-at.Sub(l.before.at))
}

// read is a moment on the host, and when the last advice was made that it had read by
// then, by the queue manager's clock.
type read struct{ now, at time.Time }

// Sample chooses among the queues with work that has room; used is the share of the host in use. The answer is in the
// order in which they should be served.
func (l *Sampler) Sample(room Room, used float64, now time.Time) []Candidate {
	e, advised := l.epoch(now), now.Sub(l.adviceAt) < stale
	if !l.current {
		l.update()
	}
	if l.in != e {
		l.sample(e, used)
	}
	var out, extra []Candidate
	for i := range l.entries {
		x := &l.entries[i]
		own := !x.advised || x.own || !advised && x.due(e)
		work := x.news.Depth > 0 && advised && !l.isRefuted(x.news, now)
		if !own && !work {
			continue
		}
		if !own && !l.waits(x, x.all) || !room.Fits(x.needs) {
			continue
		}
		c := Candidate{
			Queue: x.queue, Needs: x.needs, Skipped: l.skipped[x.queue], Deep: work, Unsaid: !advised, Extra: !own,
			Order: l.random(x),
		}
		if work {
			c.Oldest, c.Lies = x.news.Oldest, LiesBy(x.news, x.class)
		}
		if own {
			out = append(out, c)
		} else {
			extra = append(extra, c)
		}
	}
	if most := Extra(len(out)); len(extra) > most {
		sortExtra(extra)
		extra = extra[:most]
	}
	out = append(out, extra...)
	slices.SortFunc(out, Candidate.before)
	return out
}

// Rung says whether the queue manager rings hosts: then this one samples nothing. A
// queue manager that was not heard of for long rings nobody.
func (l *Sampler) Rung(now time.Time) bool {
	return l.rings && now.Sub(l.adviceAt) < compute.RingsLast
}

// NoteRing takes note that the host was rung: so there is a queue manager that rings hosts,
// whatever advice said last.
func (l *Sampler) NoteRing(now time.Time) { l.rings, l.adviceAt = true, now }

// Freed says that room appeared on the host: for a moment it may poll queues in
// which work is said to lie, since the queue manager is told of the room later.
func (l *Sampler) Freed(now time.Time) { l.open = now.Add(pollsFor) }

// ShortPolls are the queues that a host that is rung polls all the same: those in
// which work is said to lie, for a moment after room appeared and once an epoch, so
// that a ring that was lost costs no more than that. needs answers what the queue's
// work needs and its class, and false for a queue that is not for this host.
func (l *Sampler) ShortPolls(
	room Room, now time.Time, needs func(compute.QueueName) (compute.Resources, compute.Priority, bool),
) []Candidate {
	if e := l.epoch(now); e != l.polled {
		l.polled, l.open = e, now.Add(pollsFor)
	}
	if !now.Before(l.open) {
		return nil
	}
	var out []Candidate
	for q := range l.deep {
		news := l.about[q]
		n, class, ours := needs(q)
		if !ours || l.isRefuted(news, now) || !room.Fits(n) {
			continue
		}
		out = append(out, Candidate{
			Queue: q, Needs: n, Skipped: l.skipped[q], Deep: true, Extra: true, Oldest: news.Oldest,
			Order: hash(string(l.host), string(q), l.polled), Lies: LiesBy(news, class),
		})
	}
	sortExtra(out)
	return out[:min(len(out), MostExtra)]
}

// Refuted says whether work was looked for in a queue in vain lately.
func (l *Sampler) Refuted(q compute.QueueName, now time.Time) bool {
	return now.Before(l.refuted[q].until)
}

// Lies is what is known of the work that lies in a queue of a class, unless it was looked for in vain.
func (l *Sampler) Lies(q compute.QueueName, class compute.Priority, now time.Time) Lies {
	news := l.about[q]
	if news.Depth == 0 || now.Sub(l.adviceAt) >= stale || l.isRefuted(news, now) {
		return Lies{Priority: class}
	}
	return LiesBy(news, class)
}

// pollsFor is how long after room appeared, or an epoch began, a host polls
// queues that it was not rung for.
const pollsFor = time.Second

// Late says whether work of a queue is said to have waited for long.
func (l *Sampler) Late(q compute.QueueName) bool {
	a := l.about[q]
	return a.Late && a.Depth > 0
}

// Oldest is since when work of a queue is said to wait.
func (l *Sampler) Oldest(q compute.QueueName) time.Time { return l.about[q].Oldest }

// Skipped is how often in a row a queue was chosen and not fetched.
func (l *Sampler) Skipped(q compute.QueueName) int { return l.skipped[q] }

// Extra is on how many queues a host waits only because work lies there, beside so
// many of its own.
func Extra(own int) int { return max(1, MostExtra-own) }

// Refute takes note that no work came from a queue in which some was said to lie: it is on its way somewhere already.
// Where brokers and conductors fall behind, much is, and all hosts that wait for it make them slower.
func (l *Sampler) Refute(q compute.QueueName, now time.Time) {
	l.refuted[q] = refuted{l.said, now.Add(Epoch)}
}

// isRefuted says whether what is said to lie in a queue was looked for in vain, and
// nothing of it is newer than that.
func (l *Sampler) isRefuted(news compute.QueueAdvice, now time.Time) bool {
	r, ok := l.refuted[news.Queue]
	if ok && (!now.Before(r.until) || news.Oldest.After(r.said)) {
		delete(l.refuted, news.Queue)
		return false
	}
	return ok
}

// due says whether the queue is due to be visited without advice: once
// in a minute, each host at another time.
func (x *entry) due(e uint64) bool { return (x.order+e)%rounds == 0 }

// epoch counts up every 15 s, at another moment on each host so that they do
// not all change over at once.
func (l *Sampler) epoch(now time.Time) uint64 {
	return uint64(now.Add(l.shift()).UnixNano()) / uint64(Epoch)
}

// NextEpoch is when queues are next sampled anew. It is so long after now, wherever the host's clock is set meanwhile.
func (l *Sampler) NextEpoch(now time.Time) time.Time {
	next := time.Unix(0, int64((l.epoch(now)+1)*uint64(Epoch))).Add(-l.shift())
	return now.Add(next.Sub(now))
}

func (l *Sampler) shift() time.Duration {
	return time.Duration(hash(string(l.host), "", 0) % uint64(Epoch))
}

// Planned takes note of which of the chosen queues are fetched and which were
// left out, so that these come first the next time.
func (l *Sampler) Planned(listed, left []Candidate) {
	for _, c := range listed {
		delete(l.skipped, c.Queue)
	}
	for _, c := range left {
		l.skipped[c.Queue] = min(c.Skipped+1, 1000)
	}
}

// Forget drops what is known of queues that do not exist any more.
func (l *Sampler) Forget(q compute.QueueName) {
	delete(l.about, q)
	delete(l.deep, q)
	delete(l.skipped, q)
	delete(l.refuted, q)
	if i, listed := l.at[q]; listed {
		l.entries[i].news, l.entries[i].advised = compute.QueueAdvice{}, false
		l.current = false
	}
}

// hash mixes two names and a number; every bit of the answer depends on all.
func hash(a, b string, n uint64) uint64 {
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	for _, s := range [...]string{a, b} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * prime
		}
		h = (h ^ 0xff) * prime
	}
	h ^= n * 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
