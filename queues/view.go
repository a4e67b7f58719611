// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/sorted"
	"github.com/berth-project/berth/pkg/twins"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/queues/advise"
	"github.com/berth-project/berth/queues/ring"
	"github.com/berth-project/berth/queues/save"
)

// view is what a manager has read. It goes on reading while another is active,
// so that it knows everything, and when each host was heard, once it is elected.
type view struct {
	log   *zap.Logger
	most  int              // queues
	now   func() time.Time // by this process's clock
	clock wire.Clock       // conductors say in the log's time when work is published

	mu         sync.Mutex
	flavors    map[compute.FlavorName]compute.Flavor
	axes       map[compute.AxisName]compute.Capability
	wanted     []compute.Queue // by the catalog; nil: to be worked out anew
	listed     map[compute.QueueName]compute.Queue
	relisted   bool                            // the advisor has not been told
	closed     map[compute.QueueName]time.Time // since when it is known to be closed
	need       map[string]need                 // by instance key
	reads      compute.Schema                  // the newest schema of instances that it reads
	later      map[string]bool                 // instances that only a later Berth can read, by key
	loads      map[compute.QueueName]*load
	came       map[compute.QueueName]uint64 // how much work came since this view began to read
	stray      map[compute.QueueName]uint64 // records that no instance waits for
	hosts      map[compute.HostID]bool
	unread     map[compute.HostID]bool // hosts whose last beacon cannot be read, or is not believed
	reached    map[compute.HostID]bool // hosts whose streams are known to be there
	twins      twins.Watch
	warned     map[compute.HostID]time.Time // when the agents of a host were told last that they are several
	asks       map[compute.HostID]ask       // agents that are to be told whether they are alone
	groups     groups
	advisor    *advise.Advisor
	ringer     *ring.Ringer
	saver      *save.Saver
	rejects    rejects
	shared     compute.Shared
	unreadable func(wire.Record, error)               // hears of a record that cannot be read
	believe    func(wire.Record, compute.Beacon) bool // says whether a beacon is its host's; nil: it is
	voices     hostkey.Heard                          // in hosts; kept of a host that is forgotten
	unsigned   map[compute.HostID]bool                // hosts whose last beacon had no MAC that was checked
}

// need is an instance that a queue must still serve.
type need struct {
	queue compute.QueueName
	// own must stay too: in queue its set is offered whole, and it may come to be in parts; empty: none
	own     compute.QueueName
	waiting bool      // its work is in the queue, or will be
	holds   bool      // it is a placeholder
	due     time.Time // when it is published, by the log
	avoid   string    // the hosts where it is never to be built, each once, with spaces between
}

// load is the need for one queue.
type load struct {
	work    int                    // queued and starting instances
	waiting *sorted.List[waiter]   // those with work in the queue, the first published first
	avoid   map[compute.HostID]int // by host: how many of them are never to be built there
}

// waiter is an instance with work in a queue.
type waiter struct {
	due time.Time // when its work is published, by the log
	key string    // of the instance
}

func firstDue(a, b waiter) int {
	if c := a.due.Compare(b.due); c != 0 {
		return c
	}
	return strings.Compare(a.key, b.key)
}

func newView(o Options) *view {
	advisor := advise.New(o.Advice)
	v := &view{
		log: o.Logger, most: o.MostQueues, now: o.Now, reads: o.Reads,
		flavors: map[compute.FlavorName]compute.Flavor{}, axes: map[compute.AxisName]compute.Capability{},
		later: map[string]bool{}, listed: map[compute.QueueName]compute.Queue{},
		closed: map[compute.QueueName]time.Time{},
		need:   map[string]need{}, loads: map[compute.QueueName]*load{}, came: map[compute.QueueName]uint64{},
		stray: map[compute.QueueName]uint64{},
		hosts: map[compute.HostID]bool{}, unread: map[compute.HostID]bool{}, reached: map[compute.HostID]bool{},
		unsigned: map[compute.HostID]bool{}, warned: map[compute.HostID]time.Time{}, asks: map[compute.HostID]ask{},
		groups:  newGroups(),
		advisor: advisor, ringer: ring.New(o.Rings, advisor), relisted: true,
	}
	v.saver = save.New(o.savings(), savings{advisor, v})
	if v.now == nil {
		v.now = time.Now
	}
	return v
}

// logTime is the time of the log when this process's clock shows now. What records say of times is compared with it.
// How long a host has been silent or a ring counts is told by this process's clock alone.
func (v *view) logTime(now time.Time) time.Time { return v.clock.At(now).Round(0) }

// ahead is how far what this process's clock shows now is ahead of the log.
func (v *view) ahead(now time.Time) time.Duration { return now.Round(0).Sub(v.logTime(now)) }

func (v *view) catalog(rec wire.Record, now time.Time) {
	e, err := wire.DecodeCatalog(rec)
	switch {
	case err != nil:
		v.unreadable(rec, err)
		return
	case e.GroupName != "":
		key := compute.GroupKey{Project: e.Project, Name: e.GroupName}
		if delete(v.groups.rules, key); e.Group != nil {
			v.groups.rules[key] = *e.Group
		}
		for _, q := range v.groups.waitIn(key) {
			v.ringer.Again(q, now)
		}
		return // queues are what they were
	case e.Flavor != nil:
		v.flavors[e.FlavorName] = *e.Flavor
	case e.Capability != nil:
		v.axes[e.Axis] = *e.Capability
	case e.FlavorName != "":
		delete(v.flavors, e.FlavorName)
	case e.Axis != "":
		delete(v.axes, e.Axis)
	default:
		return // quotas are no business of queues
	}
	v.wanted = nil
}

// wantedQueues is what is wanted: what the catalog asks for, and the tiers of that.
func (v *view) wantedQueues() []compute.Queue {
	queues := v.fromCatalog()
	return slices.Concat(queues, v.tiers(queues))
}

// fromCatalog works out what the catalog asks for. A flavor that would make
// more queues than may be is left out whole: the catalog refuses it, so only
// a foreign hand wrote it.
func (v *view) fromCatalog() []compute.Queue {
	if v.wanted != nil {
		return v.wanted
	}
	v.wanted = []compute.Queue{}
	for _, name := range slices.Sorted(maps.Keys(v.flavors)) {
		f := v.flavors[name]
		if n := compute.CountPermutations(f, v.axes); len(v.wanted)+n > v.most {
			v.log.Error("flavor left out: too many queues", zap.String("flavor", string(name)),
				zap.Int("queues", n), zap.Int("most", v.most))
			continue
		}
		v.wanted = append(v.wanted, compute.Permutations(f, v.axes)...)
	}
	return v.wanted
}

func (v *view) queue(rec wire.Record, now time.Time) {
	v.relisted = true
	if rec.Value == nil {
		delete(v.listed, compute.QueueName(rec.Key))
		delete(v.closed, compute.QueueName(rec.Key))
		delete(v.came, compute.QueueName(rec.Key))
		v.ringer.Forget(compute.QueueName(rec.Key))
		return
	}
	q, err := wire.DecodeQueue(rec)
	if err != nil {
		v.unreadable(rec, err)
		return
	}
	if v.listed[q.Name].TopicID != q.TopicID {
		v.ringer.Again(q.Name, now) // conductors publish what has waited for it, and no host could look there before
	}
	v.listed[q.Name] = q
	if q.State != compute.QueueClosed {
		delete(v.closed, q.Name)
	} else if _, known := v.closed[q.Name]; !known {
		v.closed[q.Name] = now
	}
}

// host takes a record of a host; past: it was read before the end of the log. It answers whether
// the host is new, and whether its agents are to be told something.
func (v *view) host(rec wire.Record, past bool, now time.Time) (first, tell bool) {
	id := compute.HostID(rec.Key)
	if rec.Value == nil {
		delete(v.hosts, id)
		delete(v.unread, id)
		delete(v.unsigned, id)
		v.advisor.Forget(id)
		v.twins.Forget(id)
		delete(v.asks, id)
		return false, false
	}
	b, err := wire.DecodeBeacon(rec)
	if err != nil {
		v.unreadable(rec, err)
		v.unread[id] = true
		return false, false
	}
	if v.believe != nil && !v.believe(rec, b) {
		v.unread[id] = true
		return false, false // what was known before stays
	}
	delete(v.unread, id)
	v.beacon(b, now)
	first = !v.hosts[b.Host]
	v.hosts[b.Host] = true
	return first, v.noteVoice(b, past, now)
}

// beacon takes a beacon.
func (v *view) beacon(b compute.Beacon, now time.Time) {
	v.noteChange(b.Host, now, func() {
		v.advisor.Observe(b, now)
		v.advisor.Reaches(b.Host, v.reached[b.Host])
	})
}

// streamThere takes note that a host's stream is there.
func (v *view) streamThere(h compute.HostID, now time.Time) {
	v.reached[h] = true
	v.noteChange(h, now, func() { v.advisor.Reaches(h, true) })
}

// noteChange has a host rung if it can take, after something is known of it, what waits and
// what it could not before; and others for what it could take before, and cannot any more.
func (v *view) noteChange(h compute.HostID, now time.Time, known func()) {
	fitted := map[compute.QueueName]bool{}
	v.ringer.EachWaiting(func(q compute.QueueName) { fitted[q] = v.advisor.Fits(q, h) })
	known()
	for q, before := range fitted {
		switch fits := v.advisor.Fits(q, h); {
		case fits && !before:
			v.ringer.NowFits(q, h, now)
		case before && !fits:
			v.ringer.NoLongerFits(q, h, now)
		}
	}
}

// queueChange says what an instance's record changed for its queues.
type queueChange struct {
	told  bool // work came into a queue, or the last went: agents should hear of it
	came  bool // work came into a queue: hosts should be rung
	freed bool // the last instance left a queue that does not stay: it may go now
	lacks bool // it needs a tier that is not listed
}

// instance keeps only the instances that need a queue.
func (v *view) instance(rec wire.Record, now time.Time) (out queueChange) {
	key := string(rec.Key)
	var is need
	var work ring.Work
	var in groupMember
	onHost := false
	if delete(v.later, key); rec.Value != nil {
		if wire.LaterThan(rec, v.reads) {
			if len(v.later) == 0 {
				v.log.Warn("no queue is removed: a later version of Berth wrote records of instances; upgrade "+
					"this queue manager",
					zap.Int32("partition", rec.Partition), zap.Int64("offset", rec.Offset))
			}
			v.later[key] = true
			return out
		}
		i, err := wire.DecodeInstance(rec.ReadUpTo(v.reads))
		if err != nil {
			v.unreadable(rec, err)
			return out
		}
		v.shared.Instance(&i)
		onHost = i.State == compute.StateStarting
		is = needOf(i)
		waits := is.queue
		if !is.waiting {
			waits = ""
		}
		in = memberOf(i, waits)
		work = v.workOf(key, i)
	}
	left, queues := v.groups.note(key, in)
	defer func() {
		for _, q := range queues {
			v.ringer.NowFits(q, left, now)
		}
		out.came = out.came || len(queues) > 0
	}()
	was := v.need[key]
	if is == was {
		return out
	}
	if is.waiting && !(was.waiting && was.queue == is.queue) { // the end of a back-off is no second attempt
		v.came[is.queue]++
	}
	out = v.drop(key, was)
	if was.waiting {
		v.ringer.Went(was.queue, key, onHost, now)
		v.advisor.MarkDirty(was.queue)
	}
	if is.queue != "" {
		out.told, out.lacks = v.add(key, is) || out.told, v.lacks(is.queue)
	}
	if is.waiting {
		v.ringer.Came(is.queue, work, now)
		v.advisor.MarkDirty(is.queue)
		out.came = true
	}
	return out
}

// workOf says where an instance's work must not run, and where it rather should not.
// Work that does not back off is published now, whatever time it is for its conductor.
func (v *view) workOf(key string, i compute.Instance) ring.Work {
	w := ring.Work{Key: key, Due: i.PublishAt, Avoid: i.Boot.Avoid}
	for _, f := range i.Failures {
		w.Failed = append(w.Failed, f.Host)
	}
	if g := i.Boot.Group(); g != "" {
		key := compute.GroupKey{Project: i.Project, Name: g}
		w.Kept = func(h compute.HostID) bool { return v.groups.keeps(key, h) }
		w.Apart = func() bool { return v.groups.apart(key) }
	}
	return w
}

// needOf says what an instance needs of its queue; nothing if it neither waits
// nor may come back to wait.
func needOf(i compute.Instance) need {
	switch i.State {
	case compute.StateQueued:
		due := i.QueuedAt
		if i.PublishAt.After(due) {
			due = i.PublishAt
		}
		// pinned work is in no queue, nor is what takes a placeholder, or a placeholder that its conductor keeps
		waiting := i.Boot.Host == "" && i.Boot.In().ID == "" && !i.Boot.Placeholder().Kept
		is := need{queue: i.Queue, waiting: waiting, holds: i.IsPlaceholder(), due: due, avoid: hostList(i.Boot.Avoid)}
		if whole := i.Whole(); whole != "" {
			if is.waiting = i.Leads(); is.waiting { // one record is of all of its set
				is.queue, is.own = whole, i.Queue
			}
		}
		return is
	case compute.StateStarting:
		return need{queue: i.Queue}
	}
	return need{}
}

// hostList is the hosts, each once, with spaces between.
func hostList(hosts []compute.HostID) string {
	var names []string
	for _, h := range hosts {
		names = append(names, string(h))
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}

// hostsOf is what hostList was made of.
func hostsOf(list string) (hosts []compute.HostID) {
	for _, h := range strings.Fields(list) {
		hosts = append(hosts, compute.HostID(h))
	}
	return hosts
}

// avoids counts a waiter more, or less, for each host where it is never to be built.
func (l *load) avoids(is need, more int) {
	for _, h := range hostsOf(is.avoid) {
		if l.avoid == nil {
			l.avoid = map[compute.HostID]int{}
		}
		if l.avoid[h] += more; l.avoid[h] == 0 {
			delete(l.avoid, h)
		}
	}
}

// avoided are the hosts on which nothing that waits is ever to be built. What avoids
// nothing is enough for none.
func (v *view) avoided(l *load) (hosts []compute.HostID) {
	first, _ := l.waiting.First()
	for _, h := range hostsOf(v.need[first.key].avoid) {
		if l.avoid[h] == l.waiting.Len() {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

func (v *view) add(key string, is need) (began bool) {
	l := v.keep(is.queue)
	if is.own != "" {
		v.keep(is.own)
	}
	v.need[key] = is
	if is.waiting {
		l.waiting.Add(waiter{is.due, key})
		l.avoids(is, 1)
	}
	return is.waiting && l.waiting.Len() == 1
}

func (v *view) drop(key string, was need) (out queueChange) {
	if was.queue == "" {
		return out
	}
	l := v.loads[was.queue]
	delete(v.need, key)
	if was.waiting {
		l.waiting.Remove(waiter{was.due, key})
		l.avoids(was, -1)
	}
	out.told = was.waiting && l.waiting.Len() == 0
	out.freed = v.letGo(was.queue)
	if was.own != "" {
		out.freed = v.letGo(was.own) || out.freed
	}
	return out
}

// keep counts one more that needs a queue.
func (v *view) keep(q compute.QueueName) *load {
	l := v.loads[q]
	if l == nil {
		l = &load{waiting: sorted.New(firstDue)}
		v.loads[q] = l
	}
	l.work++
	return l
}

// letGo counts one less; it says whether it was the last of a queue that does not stay.
func (v *view) letGo(q compute.QueueName) bool {
	l := v.loads[q]
	if l.work--; l.work > 0 {
		return false
	}
	delete(v.loads, q)
	is, listed := v.listed[q]
	return !listed || is.State == compute.QueueClosed
}

// progress is what agents shall know of a queue's work at a time of the log.
func (v *view) progress(q compute.QueueName, at time.Time) advise.Progress {
	p := advise.Progress{Came: v.came[q], Depth: v.stray[q], Stray: v.stray[q]}
	l := v.loads[q]
	if l == nil {
		return p
	}
	published := l.waiting.Count(func(w waiter) bool { return !w.due.After(at) })
	p.Depth += uint64(published)
	p.Avoided, p.Late = v.avoided(l), v.saver.Late(q)
	if first, ok := l.waiting.First(); ok && published > 0 {
		p.Oldest = first.due
	}
	return p
}

// mostSeen bounds how many members of groups are passed over.
const mostSeen = 64

// oldest is since when the oldest work that lies in a queue at a time of the log waits, as it counts for classes of
// priority; zero: none does. Members of groups count only where nothing else lies: the oldest of them may be one that
// no host may have, for as long as it waits.
func (v *view) oldest(q compute.QueueName, at time.Time) (first time.Time) {
	seen := 0
	if l := v.loads[q]; l != nil {
		for w := range l.waiting.From(nil) {
			if seen++; w.due.After(at) || seen > mostSeen {
				break
			}
			if first.IsZero() {
				first = w.due
			}
			if v.groups.members[w.key] == (groupMember{}) {
				return w.due
			}
		}
	}
	return first
}

// work counts what each queue must still serve. What only a later Berth can read may
// need any of them.
func (v *view) work() map[compute.QueueName]int {
	out := make(map[compute.QueueName]int, len(v.loads))
	for q, l := range v.loads {
		out[q] = l.work
	}
	if len(v.later) > 0 {
		for q := range v.listed {
			out[q] += len(v.later)
		}
	}
	return out
}

// fresh lists the queues that have not been closed for long.
func (v *view) fresh(now time.Time, closeFor time.Duration) (map[compute.QueueName]bool, time.Duration) {
	out, next := map[compute.QueueName]bool{}, time.Duration(0)
	for q, since := range v.closed {
		if left := closeFor - now.Sub(since); left > 0 {
			out[q] = true
			next = sooner(next, left)
		}
	}
	return out, next
}

// sooner is the shorter of two waits, of which 0 is none at all.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
