// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/explain"
	"github.com/berth-project/berth/pkg/sorted"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// queues is the queue list in the order of its names, all of it and that of each
// flavor. Both are kept by what changes, so a page costs what is on it, however
// many queues there are.
type queues struct {
	mu       sync.RWMutex
	byName   map[compute.QueueName]*compute.Queue
	all      *sorted.List[*compute.Queue]
	byFlavor map[compute.FlavorName]*flavorQueues
}

// flavorQueues is what is listed of one flavor.
type flavorQueues struct {
	list  *sorted.List[*compute.Queue]
	count queueCounts
}

// queueCounts is how many queues are in which state. Each is counted once.
type queueCounts struct {
	open, closed int
	failed       int // have an error
	tiers        int // of other classes than normal; they have no error
}

func newQueues() *queues {
	return &queues{
		byName:   map[compute.QueueName]*compute.Queue{},
		all:      sorted.New(byQueueName),
		byFlavor: map[compute.FlavorName]*flavorQueues{},
	}
}

func byQueueName(a, b *compute.Queue) int { return cmp.Compare(a.Name, b.Name) }

// put takes a queue's record in the place of the one before, which may have been
// of another flavor.
func (v *queues) put(q *compute.Queue) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drop(q.Name)
	v.byName[q.Name] = q
	v.all.Add(q)
	f := v.byFlavor[q.Flavor]
	if f == nil {
		f = &flavorQueues{list: sorted.New(byQueueName)}
		v.byFlavor[q.Flavor] = f
	}
	f.list.Add(q)
	*f.count.counter(q)++
}

func (v *queues) remove(name compute.QueueName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drop(name)
}

// drop forgets a queue, if it is listed.
func (v *queues) drop(name compute.QueueName) {
	q := v.byName[name]
	if q == nil {
		return
	}
	delete(v.byName, name)
	v.all.Remove(q)
	f := v.byFlavor[q.Flavor]
	*f.count.counter(q)--
	if f.list.Remove(q); f.list.Len() == 0 {
		delete(v.byFlavor, q.Flavor)
	}
}

// counter is the number that counts a queue.
func (c *queueCounts) counter(q *compute.Queue) *int {
	switch {
	case q.Error != "":
		return &c.failed
	case q.Priority != compute.PriorityNormal:
		return &c.tiers
	case q.State == compute.QueueOpen:
		return &c.open
	}
	return &c.closed
}

func (v *queues) get(name compute.QueueName) *compute.Queue {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.byName[name]
}

// of is the queue of a boot: the tier of its class, as it is listed or as it will be made of the queue that is; nil:
// that is not listed.
func (v *queues) of(b compute.Boot) *compute.Queue {
	base, p := v.get(b.BaseQueue()), b.Priority()
	if base == nil || base.State != compute.QueueOpen || p == compute.PriorityNormal {
		return base
	}
	if tier := v.get(b.Queue()); tier != nil {
		return tier
	}
	tier := base.Tier(p)
	return &tier
}

// each are all that are listed.
func (v *queues) each() (all []compute.Queue) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, q := range v.byName {
		all = append(all, *q)
	}
	return all
}

// page is a page of all queues, or of a flavor's, by name: of those that are wanted, or of all.
func (v *queues) page(
	f compute.FlavorName, p Paging, wanted func(*compute.Queue) bool,
) (page []*compute.Queue, next string) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	list := v.all
	if f != "" {
		list = nil
		if of := v.byFlavor[f]; of != nil {
			list = of.list
		}
	}
	return pageAfter(p, list, func(q *compute.Queue) compute.QueueName { return q.Name }, wanted)
}

// count is how many queues of a flavor are in which state.
func (v *queues) count(f compute.FlavorName) queueCounts {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if of := v.byFlavor[f]; of != nil {
		return of.count
	}
	return queueCounts{}
}

// lastBeacon is a beacon and when this process heard it, on its monotonic clock.
type lastBeacon struct {
	beacon *compute.Beacon
	at     time.Time
	opaque compute.HostID // what it is called where its name is nobody's business
	signed bool           // it carries a MAC, which nobody here can check
	whole  compute.Resources
	logged time.Time // when it was appended, by the log's time, where it may have been so long before; zero: it was heard
}

// moment is a time by this node's monotonic clock, and by the log.
type moment struct{ here, log time.Time }

// moment is the present one.
func (s *Server) moment() moment {
	return moment{time.Now(), s.clock.At(s.config.Now())}
}

// age is for how long nothing newer is known of the host. What was read when this node began, or had been cut off,
// counts from when it was written: a host that ended days ago was not heard just now.
func (b lastBeacon) age(now moment) time.Duration {
	age := now.here.Sub(b.at)
	if !b.logged.IsZero() {
		age = max(age, now.log.Sub(b.logged))
	}
	return age
}

// view is the host as it is shown now.
func (b lastBeacon) view(now moment) rest.HostView {
	v := rest.FromBeacon(b.beacon, b.age(now))
	v.Signed = b.signed
	return v
}

// hosts is the last beacon of every host.
type hosts struct {
	mu       sync.RWMutex
	byName   map[compute.HostID]lastBeacon
	byOpaque map[compute.HostID]compute.HostID
	names    *sorted.List[compute.HostID]  // of byName
	removed  map[compute.HostID]lastBeacon // when hosts were last heard that are not listed any more; nothing else
	loadedAt time.Time                     // when the topic had been read to its end; zero before
	endAt    time.Time                     // when it last had been
}

func newHosts() *hosts {
	return &hosts{
		byName: map[compute.HostID]lastBeacon{}, byOpaque: map[compute.HostID]compute.HostID{},
		names: sorted.New(cmp.Compare[compute.HostID]), removed: map[compute.HostID]lastBeacon{},
	}
}

func (v *hosts) put(b *compute.Beacon, signed bool, now, logged time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	last, known := v.byName[b.Host]
	if !known {
		v.names.Add(b.Host)
	}
	if opaque := last.opaque; !known || last.beacon.Journal != b.Journal {
		delete(v.byOpaque, opaque)
		last.opaque = opaqueHost(b)
		v.byOpaque[last.opaque] = b.Host
	}
	v.byName[b.Host] = lastBeacon{b, now, last.opaque, signed, explain.Whole(b), logged}
	delete(v.removed, b.Host)
}

func (v *hosts) remove(h compute.HostID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	last, known := v.byName[h]
	if known {
		v.removed[h] = lastBeacon{at: last.at, logged: last.logged}
	}
	delete(v.byOpaque, last.opaque)
	delete(v.byName, h)
	v.names.Remove(h)
}

// named finds a host by its opaque id.
func (v *hosts) named(opaque compute.HostID) (compute.HostID, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	h, ok := v.byOpaque[opaque]
	return h, ok
}

// atEnd notes that all was read that there was in the topic.
func (v *hosts) atEnd(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.loadedAt.IsZero() {
		v.loadedAt = now
	}
	v.endAt = now
}

// late says whether a beacon that is read now may be older than hosts may be silent: what comes was written since all
// was read, which is seconds ago at a node that is not cut off, while any host lives. There the time of the log counts
// for nothing: of brokers whose clocks differ the fastest makes it, and by a slower one no host would be heard again.
func (v *hosts) late(now time.Time) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return now.Sub(v.endAt) > compute.SilentAfter
}

func (v *hosts) get(h compute.HostID) (lastBeacon, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	found, ok := v.byName[h]
	return found, ok
}

// heard is when a host was last heard, also one that is not listed any more: anybody can take it off the list, and nobody
// has to vouch for that, so it is no reason to take a host for dead.
func (v *hosts) heard(h compute.HostID) (last lastBeacon, listed bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if last, listed = v.byName[h]; !listed {
		last = v.removed[h]
	}
	return last, listed
}

// unheard is for how long at least nothing was heard of a host that is not listed. One never heard of counts from when
// the topic was read.
func (v *hosts) unheard(h compute.HostID, now moment) time.Duration {
	v.mu.RLock()
	defer v.mu.RUnlock()
	last, ok := v.removed[h]
	if !ok {
		last.at = v.loadedAt
	}
	return last.age(now)
}

// len is how many hosts there are.
func (v *hosts) len() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.names.Len()
}

// silent says whether a host has said nothing for so long that nobody knows
// what it does. One never heard of counts from when the topic was read.
func (v *hosts) silent(h compute.HostID, now moment) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	last, ok := v.byName[h]
	if !ok {
		return !v.loadedAt.IsZero() && now.here.Sub(v.loadedAt) > compute.SilentAfter
	}
	return last.age(now) > compute.SilentAfter
}

// explained is the host as package explain takes it.
func (b lastBeacon) explained(now moment) explain.Host {
	return explain.Host{Beacon: b.beacon, Silent: b.age(now) > compute.SilentAfter, Whole: b.whole}
}

// capacity is how many machines of one kind hosts could have.
func (v *hosts) capacity(w explain.Wanted, now moment) (out explain.Capacity) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, last := range v.byName {
		out.Add(w, last.explained(now))
	}
	return out
}

// known are all hosts, and how old the oldest word is of one that is not silent.
func (v *hosts) known(now moment) (all []explain.Host, oldest time.Duration) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	all = make([]explain.Host, 0, len(v.byName))
	for _, last := range v.byName {
		h := last.explained(now)
		if !h.Silent {
			oldest = max(oldest, last.age(now))
		}
		all = append(all, h)
	}
	return all, oldest
}

// thatDoNotRead are the hosts whose agents do not read a schema, by name; silent ones too.
func (v *hosts) thatDoNotRead(s compute.Schema) (out []compute.HostID) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for h, last := range v.byName {
		if last.beacon.Reads.OrFirst() < s {
			out = append(out, h)
		}
	}
	slices.Sort(out)
	return out
}

// page is a page of the hosts with such labels, by name.
func (v *hosts) page(p Paging, s compute.Selector) (page []lastBeacon, next string) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	names, next := pageAfter(
		p,
		v.names,
		func(h compute.HostID) compute.HostID { return h },
		func(h compute.HostID) bool {
			return s.Empty() || s.Selects(v.byName[h].beacon.Labels)
		},
	)
	for _, h := range names {
		page = append(page, v.byName[h])
	}
	return page, next
}

// advised is what was last said of a queue.
type advised struct {
	at time.Time
	compute.QueueAdvice
}

// advice is what the queue manager last said of each queue.
type advice struct {
	mu    sync.RWMutex
	about map[compute.QueueName]advised
}

func newAdvice() *advice { return &advice{about: map[compute.QueueName]advised{}} }

// apply replaces what was said before, about all queues if it names all.
func (v *advice) apply(a compute.Advice) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if a.Full {
		clear(v.about)
	}
	for _, q := range a.About {
		v.about[q.Queue] = advised{a.At, q}
	}
}

func (v *advice) get(q compute.QueueName) (advised, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	a, ok := v.about[q]
	return a, ok
}
