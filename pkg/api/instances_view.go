// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/sorted"
	"github.com/berth-project/berth/pkg/wire"
)

// key names an instance among all projects.
type key struct {
	project compute.Project
	id      compute.InstanceID
}

// change is a new record of an instance that nobody else uses yet; without one,
// its tombstone.
type change struct {
	key      key
	instance *compute.Instance
	later    bool // a later Berth wrote it: nobody here knows what it says
}

// known is what is known of an instance: its record or, before the conductor
// has decided, the request for it. Exactly one is set.
type known struct {
	instance *compute.Instance
	request  *compute.Request
	place    int64 // in lists: when it was first known to be asked for, in nanoseconds since 1970
}

func (k known) key() key {
	switch {
	case k.instance != nil:
		return key{k.instance.Project, k.instance.ID}
	case k.request != nil:
		return key{k.request.Project, k.request.Instance}
	}
	return key{}
}

func (k known) boot() *compute.Boot {
	if k.instance != nil {
		return &k.instance.Boot
	}
	return k.request.Boot
}

// since is when it was asked for: what lists are ordered by.
func (k known) since() time.Time {
	switch {
	case k.instance == nil:
		return k.request.At
	case !k.instance.AcceptedAt.IsZero():
		return k.instance.AcceptedAt
	}
	return k.instance.QueuedAt
}

// queue is where its work waits or waited, or will.
func (k known) queue() compute.QueueName {
	if k.instance != nil {
		return k.instance.Queue
	}
	return compute.NameQueue(k.request.Boot.Flavor, k.request.Boot.With)
}

// works says whether its queue is still needed for it.
func (k known) works() bool {
	return k.instance == nil || k.instance.State == compute.StateQueued || k.instance.State == compute.StateStarting
}

func (k known) cursor() cursor { return cursor{k.place, string(k.key().id)} }

func (k known) compare(other known) int { return k.cursor().compare(other.cursor()) }

// state is the record's, or StateAccepted before there is one. What is shown may
// be StateUnknown instead.
func (k known) state() compute.State {
	if k.instance == nil {
		return compute.StateAccepted
	}
	return k.instance.State
}

// host is the host that has or had it, or that pinned work waits for; empty: none.
func (k known) host() compute.HostID {
	switch {
	case k.instance == nil:
		return ""
	case k.instance.State == compute.StateQueued:
		return k.instance.Boot.Host
	}
	return k.instance.Host
}

// lines says whether it waits in its queue's line. Pinned work is in none.
func (k known) lines() bool { return k.state() == compute.StateQueued && k.instance.Boot.Host == "" }

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// instances is the truth and what may become it, with an index for each
// question that is asked of it: no answer looks at what it is not about. What is
// known of an instance is replaced, never changed.
type instances struct {
	mu         sync.RWMutex
	byID       map[compute.InstanceID]*known // of those of one id, the first
	others     map[key]*known                // of those of one id, the others
	tenant     map[compute.Project]*tenant
	work       map[compute.QueueName]*work
	host       map[compute.HostID]map[*known]bool // by known.host
	partitions int32                              // of the topics; 0: not known
	shared     compute.Shared
	later      map[key]bool // those that only a later Berth can read; they are nowhere else
}

// tenant is what one project has.
type tenant struct {
	in     [compute.StateAccepted + 1]*sorted.List[*known] // by state; in the order of lists
	queue  map[compute.QueueName]*sorted.List[*known]      // in the order of lists
	flavor map[compute.FlavorName]*sorted.List[*known]     // in the order of lists
	named  *sorted.List[*known]                            // by name; all that the project has
	ids    *sorted.List[*known]                            // by id; all that the project has
	used   compute.Resources                               // by those that count; no zeros
}

// work is what needs a queue.
type work struct {
	all    int // accepted, queued or starting
	queued int // pinned ones too
	line   *sorted.List[*known]
}

// inOrder is the order of lists. Like the two below it looks no further than it
// must: each look is at memory that was not near.
func inOrder(a, b *known) int {
	if c := cmp.Compare(a.place, b.place); c != 0 {
		return c
	}
	return a.compare(*b)
}

func byName(a, b *known) int {
	if c := strings.Compare(a.boot().Name, b.boot().Name); c != 0 {
		return c
	}
	return inOrder(a, b)
}

func byID(a, b *known) int { return cmp.Compare(a.key().id, b.key().id) }

// firstCome is the order of lines.
func firstCome(a, b *known) int {
	x, y := a.instance, b.instance
	if c := x.QueuedAt.Compare(y.QueuedAt); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(x.ID, y.ID), cmp.Compare(x.Project, y.Project))
}

func newInstances(partitions int32) *instances {
	return &instances{
		byID: map[compute.InstanceID]*known{}, others: map[key]*known{}, tenant: map[compute.Project]*tenant{},
		work: map[compute.QueueName]*work{}, host: map[compute.HostID]map[*known]bool{}, partitions: partitions,
		later: map[key]bool{},
	}
}

func newTenant() *tenant {
	t := &tenant{
		queue: map[compute.QueueName]*sorted.List[*known]{}, flavor: map[compute.FlavorName]*sorted.List[*known]{},
		named: sorted.New(byName), ids: sorted.New(byID), used: compute.Resources{},
	}
	for s := range t.in {
		t.in[s] = sorted.New(inOrder)
	}
	return t
}

// apply takes new records in order.
func (v *instances) apply(changes []change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range changes {
		before, known := v.drop(c.key), known{instance: c.instance}
		if delete(v.later, c.key); c.later {
			v.later[c.key] = true
		}
		if c.instance == nil {
			continue
		}
		if c.instance.State.Ended() {
			c.instance.Boot.UserData = nil // in records of before
		}
		v.shared.Instance(c.instance)
		v.yield(c.key)
		if known.place = nanos(known.since()); before.key() != (key{}) {
			known.place = before.place // two nodes may have accepted it at different times: it stays where it was seen
		}
		v.put(known)
	}
}

// accept takes boot requests; those already decided change nothing.
func (v *instances) accept(boots []*compute.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range boots {
		at := key{r.Project, r.Instance}
		if p, others := v.ownedByOther(at); others && v.together(p, r.Project) {
			continue // the conductor will not have it
		}
		if v.at(at) == nil && !v.later[at] {
			v.put(known{request: r, place: nanos(r.At)})
		}
	}
}

// yield drops the request of another project for an id that, as the conductor
// of both has decided, is at's.
func (v *instances) yield(at key) {
	if p, others := v.ownedByOther(at); others && v.together(p, at.project) && v.byID[at.id].request != nil {
		v.drop(key{p, at.id})
	}
}

// together says whether one conductor decides for both: then an id is one's.
func (v *instances) together(a, b compute.Project) bool {
	return v.partitions > 0 && wire.Partition(a, v.partitions) == wire.Partition(b, v.partitions)
}

// owned is the other project that has an instance of this id, if one does.
func (v *instances) owned(at key) (compute.Project, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.ownedByOther(at)
}

func (v *instances) ownedByOther(at key) (compute.Project, bool) {
	first := v.byID[at.id]
	if first == nil || first.key() == at {
		return "", false
	}
	return first.key().project, true
}

// at is what is known of an instance; nil if nothing is.
func (v *instances) at(at key) *known {
	if first := v.byID[at.id]; first != nil && first.key() == at {
		return first
	}
	return v.others[at]
}

func (v *instances) put(now known) {
	k, at := &now, now.key()
	if _, taken := v.ownedByOther(at); taken {
		v.others[at] = k
	} else {
		v.byID[at.id] = k
	}
	t := v.tenant[at.project]
	if t == nil {
		t = newTenant()
		v.tenant[at.project] = t
	}
	t.put(k)
	if h := k.host(); h != "" {
		if v.host[h] == nil {
			v.host[h] = map[*known]bool{}
		}
		v.host[h][k] = true
	}
	if k.works() {
		w := v.work[k.queue()]
		if w == nil {
			w = &work{line: sorted.New(firstCome)}
			v.work[k.queue()] = w
		}
		w.put(k)
	}
}

func (t *tenant) put(k *known) {
	t.in[k.state()].Add(k)
	t.named.Add(k)
	t.ids.Add(k)
	enlist(t.queue, k.queue(), k)
	enlist(t.flavor, k.boot().Flavor, k)
	t.uses(k, 1)
}

// enlist adds to the list of one name, which is made with its first.
func enlist[N comparable](lists map[N]*sorted.List[*known], name N, k *known) {
	if lists[name] == nil {
		lists[name] = sorted.New(inOrder)
	}
	lists[name].Add(k)
}

// delist takes from the list of one name, which goes with its last.
func delist[N comparable](lists map[N]*sorted.List[*known], name N, k *known) {
	if lists[name].Remove(k); lists[name].Len() == 0 {
		delete(lists, name)
	}
}

func (w *work) put(k *known) {
	w.all++
	if k.state() == compute.StateQueued {
		w.queued++
	}
	if k.lines() {
		w.line.Add(k)
	}
}

// uses adds times what an instance uses of the quota.
func (t *tenant) uses(k *known, times int64) {
	if k.instance == nil || !k.instance.State.Counts() {
		return
	}
	add := func(c compute.ResourceClass, n int64) {
		if t.used[c] += times * n; t.used[c] == 0 {
			delete(t.used, c)
		}
	}
	add(compute.Instances, 1)
	for c, n := range k.instance.Resources {
		add(c, n)
	}
}

// drop forgets an instance and answers what was known of it.
func (v *instances) drop(at key) known {
	k := v.at(at)
	if k == nil {
		return known{}
	}
	if delete(v.others, at); v.byID[at.id] == k {
		delete(v.byID, at.id)
	}
	if t := v.tenant[at.project]; t.drop(k) == 0 {
		delete(v.tenant, at.project)
	}
	h := k.host()
	if delete(v.host[h], k); len(v.host[h]) == 0 {
		delete(v.host, h)
	}
	if k.works() {
		if w := v.work[k.queue()]; w.drop(k) == 0 {
			delete(v.work, k.queue())
		}
	}
	return *k
}

// drop answers how many the project has left.
func (t *tenant) drop(k *known) int {
	t.in[k.state()].Remove(k)
	t.named.Remove(k)
	t.ids.Remove(k)
	delist(t.queue, k.queue(), k)
	delist(t.flavor, k.boot().Flavor, k)
	t.uses(k, -1)
	return t.named.Len()
}

// drop answers how many are left that need the queue.
func (w *work) drop(k *known) int {
	w.all--
	if k.state() == compute.StateQueued {
		w.queued--
	}
	if k.lines() {
		w.line.Remove(k)
	}
	return w.all
}

// get finds one instance.
func (v *instances) get(at key) (known, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if k := v.at(at); k != nil {
		return *k, true
	}
	return known{}, false
}

// used is what a project's instances use of its quota.
func (v *instances) used(p compute.Project) compute.Resources {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if t := v.tenant[p]; t != nil {
		return t.used.Clone()
	}
	return compute.Resources{}
}

// projects lists the projects that have an instance.
func (v *instances) projects() []compute.Project {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.Collect(maps.Keys(v.tenant))
}

// working is how many still need a queue: accepted, queued or starting.
func (v *instances) working(q compute.QueueName) int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if w := v.work[q]; w != nil {
		return w.all
	}
	return 0
}

// waiting is how many wait in a queue.
func (v *instances) waiting(q compute.QueueName) int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if w := v.work[q]; w != nil {
		return w.queued
	}
	return 0
}

// place is where an instance stands in its queue's line, first come first: how
// many are before it, how many wait, and since when the first does.
func (v *instances) place(i *compute.Instance) (before, depth uint64, oldest time.Time) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	w := v.work[i.Queue]
	if w == nil {
		return 0, 0, time.Time{}
	}
	for k := range w.line.From(nil) {
		oldest = k.instance.QueuedAt
		break
	}
	at := &known{instance: i}
	before = uint64(w.line.Count(func(k *known) bool { return firstCome(k, at) < 0 }))
	return before, uint64(w.line.Len()), oldest
}

// count is how many of those at a host are meant, by state.
func (v *instances) count(h compute.HostID, meant func(*compute.Instance) bool) map[string]int {
	n := map[string]int{}
	for _, k := range v.on(h) {
		if meant(k.instance) {
			n[k.instance.State.String()]++
		}
	}
	return n
}

// hosts lists the hosts that have or had an instance.
func (v *instances) hosts() []compute.HostID {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.Collect(maps.Keys(v.host))
}

// on lists what a host has, and what waits for it alone, in no order. Each has a
// record.
func (v *instances) on(h compute.HostID) []known {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []known
	for k := range v.host[h] {
		if !k.instance.State.Ended() {
			out = append(out, *k)
		}
	}
	return out
}
