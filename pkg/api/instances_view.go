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

// instanceKey names an instance among all projects.
type instanceKey struct {
	project compute.Project
	id      compute.InstanceID
}

// change is a new record of an instance that nobody else uses yet; without one,
// its tombstone.
type change struct {
	key      instanceKey
	instance *compute.Instance
	later    bool // a later Berth wrote it: nobody here knows what it says
}

// entry is what is known of an instance: its record or, before the conductor
// has decided, the request for it. Exactly one is set.
type entry struct {
	instance *compute.Instance
	request  *compute.Request
	listedAt int64 // in lists: when it was first known to be asked for, in nanoseconds since 1970
}

func (k entry) key() instanceKey {
	switch {
	case k.instance != nil:
		return instanceKey{k.instance.Project, k.instance.ID}
	case k.request != nil:
		return instanceKey{k.request.Project, k.request.Instance}
	}
	return instanceKey{}
}

func (k entry) boot() *compute.Boot {
	if k.instance != nil {
		return &k.instance.Boot
	}
	return k.request.Boot
}

// requestedAt is when it was asked for: what lists are ordered by.
func (k entry) requestedAt() time.Time {
	switch {
	case k.instance == nil:
		return k.request.At
	case !k.instance.AcceptedAt.IsZero():
		return k.instance.AcceptedAt
	}
	return k.instance.QueuedAt
}

// queue is where its work waits or waited, or will.
func (k entry) queue() compute.QueueName {
	if k.instance != nil {
		return k.instance.Queue
	}
	return compute.NameQueue(k.request.Boot.Flavor, k.request.Boot.With)
}

// needsQueue says whether its queue is still needed for it.
func (k entry) needsQueue() bool {
	return k.instance == nil || k.instance.State == compute.StateQueued || k.instance.State == compute.StateStarting
}

func (k entry) cursor() cursor { return cursor{k.listedAt, string(k.key().id)} }

func (k entry) compare(other entry) int { return k.cursor().compare(other.cursor()) }

// state is the record's, or StateAccepted before there is one. What is shown may
// be StateUnknown instead.
func (k entry) state() compute.State {
	if k.instance == nil {
		return compute.StateAccepted
	}
	return k.instance.State
}

// host is the host that has or had it, or that pinned work waits for; empty: none.
func (k entry) host() compute.HostID {
	switch {
	case k.instance == nil:
		return ""
	case k.instance.State == compute.StateQueued:
		return k.instance.Boot.Host
	}
	return k.instance.Host
}

// waitsInQueue says whether it waits in its queue's line. Pinned work is in none.
func (k entry) waitsInQueue() bool {
	return k.state() == compute.StateQueued && k.instance.Boot.Host == ""
}

func unixNano(t time.Time) int64 {
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
	byID       map[compute.InstanceID]*entry // of those of one id, the first
	others     map[instanceKey]*entry        // of those of one id, the others
	byProject  map[compute.Project]*projectIndex
	byQueue    map[compute.QueueName]*queueWork
	byHost     map[compute.HostID]map[*entry]bool // by entry.host
	partitions int32                              // of the topics; 0: not known
	shared     compute.Shared
	later      map[instanceKey]bool // those that only a later Berth can read; they are nowhere else
}

// projectIndex is what one project has.
type projectIndex struct {
	byState  [compute.StateAccepted + 1]*sorted.List[*entry] // by state; in the order of lists
	byQueue  map[compute.QueueName]*sorted.List[*entry]      // in the order of lists
	byFlavor map[compute.FlavorName]*sorted.List[*entry]     // in the order of lists
	byName   *sorted.List[*entry]                            // by name; all that the project has
	byID     *sorted.List[*entry]                            // by id; all that the project has
	used     compute.Resources                               // by those that count; no zeros
}

// queueWork is what needs a queue.
type queueWork struct {
	needed  int // accepted, queued or starting
	queued  int // pinned ones too
	waiting *sorted.List[*entry]
}

// listOrder is the order of lists. Like the two below it looks no further than it
// must: each look is at memory that was not near.
func listOrder(a, b *entry) int {
	if c := cmp.Compare(a.listedAt, b.listedAt); c != 0 {
		return c
	}
	return a.compare(*b)
}

func nameOrder(a, b *entry) int {
	if c := strings.Compare(a.boot().Name, b.boot().Name); c != 0 {
		return c
	}
	return listOrder(a, b)
}

func idOrder(a, b *entry) int { return cmp.Compare(a.key().id, b.key().id) }

// queueOrder is the order of lines.
func queueOrder(a, b *entry) int {
	x, y := a.instance, b.instance
	if c := x.QueuedAt.Compare(y.QueuedAt); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(x.ID, y.ID), cmp.Compare(x.Project, y.Project))
}

func newInstances(partitions int32) *instances {
	return &instances{
		byID: map[compute.InstanceID]*entry{}, others: map[instanceKey]*entry{},
		byProject: map[compute.Project]*projectIndex{},
		byQueue:   map[compute.QueueName]*queueWork{}, byHost: map[compute.HostID]map[*entry]bool{},
		partitions: partitions,
		later:      map[instanceKey]bool{},
	}
}

func newProjectIndex() *projectIndex {
	t := &projectIndex{
		byQueue: map[compute.QueueName]*sorted.List[*entry]{}, byFlavor: map[compute.FlavorName]*sorted.List[*entry]{},
		byName: sorted.New(nameOrder), byID: sorted.New(idOrder), used: compute.Resources{},
	}
	for s := range t.byState {
		t.byState[s] = sorted.New(listOrder)
	}
	return t
}

// apply takes new records in order.
func (v *instances) apply(changes []change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range changes {
		before, known := v.remove(c.key), entry{instance: c.instance}
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
		v.dropRefusedRequest(c.key)
		if known.listedAt = unixNano(known.requestedAt()); before.key() != (instanceKey{}) {
			// Two nodes may have accepted it at different times: it stays where it was seen.
			known.listedAt = before.listedAt
		}
		v.add(known)
	}
}

// accept takes boot requests; those already decided change nothing.
func (v *instances) accept(boots []*compute.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range boots {
		at := instanceKey{r.Project, r.Instance}
		if p, others := v.otherOwnerLocked(at); others && v.sameConductor(p, r.Project) {
			continue // the conductor will not have it
		}
		if v.lookup(at) == nil && !v.later[at] {
			v.add(entry{request: r, listedAt: unixNano(r.At)})
		}
	}
}

// dropRefusedRequest drops the request of another project for an id that, as the conductor
// of both has decided, is at's.
func (v *instances) dropRefusedRequest(at instanceKey) {
	if p, others := v.otherOwnerLocked(at); others && v.sameConductor(p, at.project) && v.byID[at.id].request != nil {
		v.remove(instanceKey{p, at.id})
	}
}

// sameConductor says whether one conductor decides for both: then an id is one's.
func (v *instances) sameConductor(a, b compute.Project) bool {
	return v.partitions > 0 && wire.Partition(a, v.partitions) == wire.Partition(b, v.partitions)
}

// otherOwner is the other project that has an instance of this id, if one does.
func (v *instances) otherOwner(at instanceKey) (compute.Project, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.otherOwnerLocked(at)
}

func (v *instances) otherOwnerLocked(at instanceKey) (compute.Project, bool) {
	first := v.byID[at.id]
	if first == nil || first.key() == at {
		return "", false
	}
	return first.key().project, true
}

// lookup is what is known of an instance; nil if nothing is.
func (v *instances) lookup(at instanceKey) *entry {
	if first := v.byID[at.id]; first != nil && first.key() == at {
		return first
	}
	return v.others[at]
}

func (v *instances) add(now entry) {
	k, at := &now, now.key()
	if _, taken := v.otherOwnerLocked(at); taken {
		v.others[at] = k
	} else {
		v.byID[at.id] = k
	}
	t := v.byProject[at.project]
	if t == nil {
		t = newProjectIndex()
		v.byProject[at.project] = t
	}
	t.add(k)
	if h := k.host(); h != "" {
		if v.byHost[h] == nil {
			v.byHost[h] = map[*entry]bool{}
		}
		v.byHost[h][k] = true
	}
	if k.needsQueue() {
		w := v.byQueue[k.queue()]
		if w == nil {
			w = &queueWork{waiting: sorted.New(queueOrder)}
			v.byQueue[k.queue()] = w
		}
		w.add(k)
	}
}

func (t *projectIndex) add(k *entry) {
	t.byState[k.state()].Add(k)
	t.byName.Add(k)
	t.byID.Add(k)
	addTo(t.byQueue, k.queue(), k)
	addTo(t.byFlavor, k.boot().Flavor, k)
	t.addUsage(k, 1)
}

// addTo adds to the list of one name, which is made with its first.
func addTo[N comparable](lists map[N]*sorted.List[*entry], name N, k *entry) {
	if lists[name] == nil {
		lists[name] = sorted.New(listOrder)
	}
	lists[name].Add(k)
}

// removeFrom takes from the list of one name, which goes with its last.
func removeFrom[N comparable](lists map[N]*sorted.List[*entry], name N, k *entry) {
	if lists[name].Remove(k); lists[name].Len() == 0 {
		delete(lists, name)
	}
}

func (w *queueWork) add(k *entry) {
	w.needed++
	if k.state() == compute.StateQueued {
		w.queued++
	}
	if k.waitsInQueue() {
		w.waiting.Add(k)
	}
}

// addUsage adds times what an instance uses of the quota.
func (t *projectIndex) addUsage(k *entry, times int64) {
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

// remove forgets an instance and answers what was known of it.
func (v *instances) remove(at instanceKey) entry {
	k := v.lookup(at)
	if k == nil {
		return entry{}
	}
	if delete(v.others, at); v.byID[at.id] == k {
		delete(v.byID, at.id)
	}
	if t := v.byProject[at.project]; t.remove(k) == 0 {
		delete(v.byProject, at.project)
	}
	h := k.host()
	if delete(v.byHost[h], k); len(v.byHost[h]) == 0 {
		delete(v.byHost, h)
	}
	if k.needsQueue() {
		if w := v.byQueue[k.queue()]; w.remove(k) == 0 {
			delete(v.byQueue, k.queue())
		}
	}
	return *k
}

// remove answers how many the project has left.
func (t *projectIndex) remove(k *entry) int {
	t.byState[k.state()].Remove(k)
	t.byName.Remove(k)
	t.byID.Remove(k)
	removeFrom(t.byQueue, k.queue(), k)
	removeFrom(t.byFlavor, k.boot().Flavor, k)
	t.addUsage(k, -1)
	return t.byName.Len()
}

// remove answers how many are left that need the queue.
func (w *queueWork) remove(k *entry) int {
	w.needed--
	if k.state() == compute.StateQueued {
		w.queued--
	}
	if k.waitsInQueue() {
		w.waiting.Remove(k)
	}
	return w.needed
}

// get finds one instance.
func (v *instances) get(at instanceKey) (entry, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if k := v.lookup(at); k != nil {
		return *k, true
	}
	return entry{}, false
}

// used is what a project's instances use of its quota.
func (v *instances) used(p compute.Project) compute.Resources {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if t := v.byProject[p]; t != nil {
		return t.used.Clone()
	}
	return compute.Resources{}
}

// projects lists the projects that have an instance.
func (v *instances) projects() []compute.Project {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.Collect(maps.Keys(v.byProject))
}

// needing is how many still need a queue: accepted, queued or starting.
func (v *instances) needing(q compute.QueueName) int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if w := v.byQueue[q]; w != nil {
		return w.needed
	}
	return 0
}

// waiting is how many wait in a queue.
func (v *instances) waiting(q compute.QueueName) int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if w := v.byQueue[q]; w != nil {
		return w.queued
	}
	return 0
}

// position is where an instance stands in its queue's line, first come first: how
// many are before it, how many wait, and since when the first does.
func (v *instances) position(i *compute.Instance) (before, depth uint64, oldest time.Time) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	w := v.byQueue[i.Queue]
	if w == nil {
		return 0, 0, time.Time{}
	}
	for k := range w.waiting.From(nil) {
		oldest = k.instance.QueuedAt
		break
	}
	at := &entry{instance: i}
	before = uint64(w.waiting.Count(func(k *entry) bool { return queueOrder(k, at) < 0 }))
	return before, uint64(w.waiting.Len()), oldest
}

// count is how many of those at a host are meant, by state.
func (v *instances) count(h compute.HostID, match func(*compute.Instance) bool) map[string]int {
	n := map[string]int{}
	for _, k := range v.onHost(h) {
		if match(k.instance) {
			n[k.instance.State.String()]++
		}
	}
	return n
}

// hosts lists the hosts that have or had an instance.
func (v *instances) hosts() []compute.HostID {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.Collect(maps.Keys(v.byHost))
}

// onHost lists what a host has, and what waits for it alone, in no order. Each has a
// record.
func (v *instances) onHost(h compute.HostID) []entry {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []entry
	for k := range v.byHost[h] {
		if !k.instance.State.Ended() {
			out = append(out, *k)
		}
	}
	return out
}
