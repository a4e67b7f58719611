// SPDX-License-Identifier: Apache-2.0

// Package advise decides what the queue manager tells about queues: how many
// hosts could take their work, and how much of it there is. It tells little:
// an agent needs to hear of a queue only when it would now wait on it half or
// twice as often.
//
// It keeps, for each host and queue, what the host is to the queue, and changes
// the counts only for hosts whose beacon changed or that fell silent. A tick
// looks only at queues that are marked dirty, and at no pair of host and queue.
package advise

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Rules bound what is told.
type Rules struct {
	Every  time.Duration // at most one record in this time
	Full   time.Duration // every queue is told of once in this time, if there are not too many
	Most   int           // most queues in one record; more follow in the next ones
	Silent time.Duration // a host not heard for this long does not count
	// Lain is how long work must have lain in a queue to be told of as such. What
	// is taken at once is no news: where a queue is served well its depth leaves
	// and reaches zero all the time, and telling every host would cost more than
	// serving it.
	Lain time.Duration
	Beat time.Duration // there is a record in this time, with nothing in it if there is no news; 0: not
	// Rings says in each record that hosts are rung for the work of every queue.
	Rings bool
}

// DefaultRules is one record a second, in full every 30 s, 2,000 queues a
// record (half of Kafka's 1 MiB with the longest names), silence after 60 s,
// work that has lain for 500 ms: what is known of it is a quarter of a second old.
// Nobody is rung, and no record comes without news.
func DefaultRules() Rules {
	return Rules{
		Every: time.Second, Full: 30 * time.Second, Most: 2000, Silent: compute.SilentAfter,
		Lain: 500 * time.Millisecond,
	}
}

// RingingRules are the default rules of a queue manager that rings hosts.
func RingingRules() Rules {
	r := DefaultRules()
	r.Beat, r.Rings = compute.AdviceBeat, true
	return r
}

// Progress is what is known of a queue's work.
type Progress struct {
	Came   uint64    // records that ever came into it, as far as anybody counted
	Depth  uint64    // records that no host has finished, strays among them
	Stray  uint64    // of them: those that no instance waits for
	Oldest time.Time // when the oldest of them was published, by the log; zero if none
	// Avoided are the hosts on which nothing that waits is ever to be built, each once;
	// none where nothing waits.
	Avoided []compute.HostID
	Late    bool // some of it has waited for long
}

// Advisor remembers hosts, queues and what was told. It is not safe for
// concurrent use.
type Advisor struct {
	rules  Rules
	names  *names
	queues []queue                   // by name
	at     map[compute.QueueName]int // places in queues
	hosts  map[compute.HostID]*host
	order  []*host  // all of them, in any order
	random uint64   // the state of the random numbers that hosts are sampled by
	counts []counts // of each queue
	rooms  []uint64 // of each queue: machines that its eligible hosts have room for together
	told   map[compute.QueueName]told
	last   time.Time                    // when something was told; zero: never
	full   time.Time                    // when telling in full began; zero: never
	due    int                          // in telling in full, the next queue
	young  bool                         // there is work that has not lain for long
	dirty  map[int]struct{}             // queues that the next tick looks at
	savers map[compute.QueueName]uint32 // hosts that say that they save for it
	taken  map[compute.QueueName]int    // builds of it that hosts take, as those say that are heard of
	ahead  time.Duration                // of the log
}

// told is what was last said of a queue.
type told struct {
	share float64 // the probability that follows from it
	work  bool    // work lay in it
	late  bool    // for long
	saved uint32  // by so many hosts
}

// New is an advisor that knows nothing.
func New(r Rules) *Advisor {
	return &Advisor{
		rules: r, names: newNames(), hosts: map[compute.HostID]*host{}, told: map[compute.QueueName]told{},
		dirty: map[int]struct{}{}, savers: map[compute.QueueName]uint32{}, taken: map[compute.QueueName]int{},
	}
}

// SetQueues says which queues there are. It compares every host with every
// queue, so call it when the list changed only.
func (a *Advisor) SetQueues(list []compute.Queue) {
	list = slices.SortedFunc(slices.Values(list), func(x, y compute.Queue) int { return cmp.Compare(x.Name, y.Name) })
	complete := a.due >= len(a.queues)
	before := a.queues
	a.names, a.queues, a.at = newNames(), make([]queue, 0, len(list)), make(map[compute.QueueName]int, len(list))
	kept := make(map[compute.QueueName]told, len(list))
	for _, q := range list {
		is := a.names.queue(q)
		if i, there := slices.BinarySearchFunc(before, q.Name, queue.compare); there {
			is.flow = before[i].flow
		}
		a.at[q.Name] = len(a.queues)
		a.queues = append(a.queues, is)
		if t, ok := a.told[q.Name]; ok {
			kept[q.Name] = t
		}
	}
	a.told, a.due = kept, 0
	a.counts, a.rooms = make([]counts, len(list)), make([]uint64, len(list))
	if complete {
		a.due = len(list)
	}
	a.markAllDirty()
	for _, h := range a.hosts {
		h.measure(a.names)
		h.is, h.room = nil, nil
		a.compare(h)
	}
}

// Observe takes a host's beacon, heard at a time of the caller's own clock.
func (a *Advisor) Observe(b compute.Beacon, at time.Time) {
	h, known := a.hosts[b.Host]
	if !known {
		h = &host{index: len(a.order)}
		a.hosts[b.Host], a.order = h, append(a.order, h)
	}
	h.heard = at
	a.noteTaken(h, b.Taking)
	if known && !h.silent && h.sameAs(b) {
		h.beacon.Saving = b.Saving // its times are counted from this beacon on
		h.beacon.Machines = b.Machines
		return
	}
	a.noteSavers(h.beacon.Saving, -1)
	h.beacon, h.silent = b, false
	a.noteSavers(b.Saving, 1)
	h.measure(a.names)
	a.compare(h)
}

// Forget drops a host: it is gone for good.
func (a *Advisor) Forget(id compute.HostID) {
	h, ok := a.hosts[id]
	if !ok {
		return
	}
	for q, is := range h.is {
		a.counts[q][is]--
		a.rooms[q] -= uint64(h.room[q])
		a.dirty[q] = struct{}{}
	}
	a.noteSavers(h.beacon.Saving, -1)
	a.noteTaken(h, nil)
	delete(a.hosts, id)
	last := len(a.order) - 1
	a.order[h.index], a.order[last].index = a.order[last], h.index
	a.order = a.order[:last]
}

// Ahead says how far the caller's clock is ahead of the log, by which Progress says since when work lies there. What is
// told is in the log's time.
func (a *Advisor) Ahead(by time.Duration) { a.ahead = by }

// Next is the record to write now, if there is anything to tell and it is not
// too early. What it answers counts as told. Times must not go backwards.
func (a *Advisor) Next(now time.Time, progress func(compute.QueueName) Progress) (compute.Advice, bool) {
	if !a.last.IsZero() && now.Sub(a.last) < a.rules.Every {
		return compute.Advice{}, false
	}
	a.markSilent(now)
	began := a.full.IsZero() || a.due >= len(a.queues) && now.Sub(a.full) >= a.rules.Full
	if began {
		a.full, a.due = now, 0
	}
	for i := a.due; i < min(a.due+a.room(), len(a.queues)); i++ {
		a.dirty[i] = struct{}{}
	}
	out, end := compute.Advice{At: now.Add(-a.ahead), Rings: a.rules.Rings}, len(a.queues)
	a.young = false
	for _, i := range slices.Sorted(maps.Keys(a.dirty)) {
		if len(out.About) == a.rules.Most {
			end = i
			break
		}
		about := a.about(i, progress(a.queues[i].name), now)
		is := a.heardAs(about, now)
		a.young = a.young || about.Depth > 0 && !is.work
		if about.Depth == 0 && !a.queues[i].flow.flows() {
			delete(a.dirty, i)
		}
		if i >= a.due && i < a.due+a.room() || a.isNews(about.Queue, is) {
			out.About = append(out.About, about)
			a.told[about.Queue] = is
		}
	}
	a.due = max(a.due, min(a.due+a.room(), end))
	out.Full = began && len(out.About) == len(a.queues)
	if len(out.About) == 0 && !out.Full && !a.beat(now) {
		return compute.Advice{}, false
	}
	a.last = now
	return out, true
}

// beat says whether it is time for a record though there is no news.
func (a *Advisor) beat(now time.Time) bool {
	return a.rules.Beat > 0 && now.Sub(a.last) >= a.rules.Beat
}

// MarkDirty has the next tick look at a queue: its work is not what it was.
func (a *Advisor) MarkDirty(q compute.QueueName) {
	if i, listed := a.at[q]; listed {
		a.dirty[i] = struct{}{}
	}
}

func (a *Advisor) markAllDirty() {
	clear(a.dirty)
	for i := range a.queues {
		a.dirty[i] = struct{}{}
	}
}

// NextIn is how soon Next should be asked again though nothing is new: when it was
// too early to tell, as soon as it is not.
func (a *Advisor) NextIn(now time.Time) time.Duration {
	wait := a.rules.Every
	if a.young {
		wait = min(a.rules.Lain, wait)
	}
	if early := a.last.Add(a.rules.Every).Sub(now); !a.last.IsZero() && early > 0 {
		wait = min(early, wait)
	}
	return wait
}

// Reset says that what was told cannot be counted on: all is told anew.
func (a *Advisor) Reset() {
	a.full, a.told = time.Time{}, map[compute.QueueName]told{}
	a.markAllDirty()
}

// room is how many queues of a full telling go into one record: half of it, so
// that news is never kept out.
func (a *Advisor) room() int {
	if len(a.queues) <= a.rules.Most {
		return len(a.queues)
	}
	return (a.rules.Most + 1) / 2
}

func (a *Advisor) about(i int, p Progress, now time.Time) compute.QueueAdvice {
	c, q := a.counts[i], &a.queues[i]
	q.flow.see(p.Came, now)
	avoided := a.eligibleOf(i, p.Avoided)
	fit := c[eligible] - avoided
	return compute.QueueAdvice{
		Queue: q.name, Eligible: fit, Waiters: min(q.flow.waiters(c[eligible], a.rooms[i]), fit),
		Depth: p.Depth, Stray: p.Stray, Oldest: p.Oldest, Late: p.Late, Savers: a.savers[q.name],
		Hosts: compute.HostCounts{
			NeverFits: c[neverFits], Silent: c[silent], Disabled: c[disabled], Draining: c[draining],
			Quarantined: c[quarantined], Full: c[full], Avoided: avoided, Eligible: fit,
		},
	}
}

// eligibleOf is how many of some hosts are eligible for a queue.
func (a *Advisor) eligibleOf(queue int, hosts []compute.HostID) (n uint32) {
	for _, id := range hosts {
		if h := a.hosts[id]; h != nil && h.is[queue] == eligible {
			n++
		}
	}
	return n
}

// isNews says whether hosts would now wait half or twice as often as they were
// told, or whether work came and stayed, or went.
func (a *Advisor) isNews(q compute.QueueName, is told) bool {
	was, ok := a.told[q]
	return !ok || is.work != was.work || is.late != was.late || is.saved != was.saved ||
		is.share >= 2*was.share || was.share >= 2*is.share
}

// heardAs is what an agent makes of the advice. Work of which nobody knows since
// when it lies there has lain for long.
func (a *Advisor) heardAs(about compute.QueueAdvice, now time.Time) told {
	share := 1.0
	if wanted, eligible := float64(about.Wanted()), float64(about.Eligible); wanted < eligible {
		share = wanted / eligible
	}
	lain := now.Add(-a.ahead).Sub(about.Oldest)
	return told{share: share, work: about.Depth > 0 && lain >= a.rules.Lain, late: about.Late, saved: about.Savers}
}

// markSilent finds the hosts that were not heard for too long.
func (a *Advisor) markSilent(now time.Time) {
	for _, h := range a.hosts {
		if !h.silent && now.Sub(h.heard) >= a.rules.Silent {
			h.silent = true
			a.noteTaken(h, nil)
			a.compare(h)
		}
	}
}

// compare works out anew what a host is to every queue.
func (a *Advisor) compare(h *host) {
	first := h.is == nil
	if first {
		h.is, h.room = make([]standing, len(a.queues)), make([]uint16, len(a.queues))
	}
	for i := range a.queues {
		is, room := h.standing(&a.queues[i]), uint16(0)
		if is == eligible {
			_, all := h.roomFor(&a.queues[i])
			room = machines(a.queues[i].needs, all)
		}
		if !first {
			if is == h.is[i] && room == h.room[i] {
				continue
			}
			a.counts[i][h.is[i]]--
			a.rooms[i] -= uint64(h.room[i])
		}
		h.is[i], h.room[i] = is, room
		a.counts[i][is]++
		a.rooms[i] += uint64(room)
		a.dirty[i] = struct{}{}
	}
}
