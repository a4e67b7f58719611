// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/events"
	"github.com/berth-project/berth/pkg/sorted"
	"github.com/berth-project/berth/pkg/wire"
)

// instances is the view of instances: all that this node knows of them, in memory, so that no
// answer waits for Kafka. Two topics feed it, and for each instance it holds one entry:
//
//	requests   ──accept──▶ entry with a request   state accepted: nothing is decided yet
//	           ──dropRefused──▶ no entry          decided, and no instance: a conductor refused it
//	instances  ──apply───▶ entry with a record    replaces the request, and older records
//	           ──apply───▶ no entry               a tombstone
//
// An entry is replaced as a whole and never changed. So a caller may go on reading what it
// was handed after the lock is gone, and a change is remove and add of one entry: remove
// finds it in every index by what it was, add files the new one by what it is.
//
// # Indexes
//
// A project may have a million instances, and a list shows a page of them. Therefore each
// question has an index that holds what it asks for and little else (query.go chooses
// among them), and no answer walks over entries that it is not about:
//
//	one instance                       byID, others
//	a project's, of some states        byProject[p].byState
//	a project's, by queue or flavor    byProject[p].byQueue, byFlavor
//	a project's, by name, or a part    byProject[p].byName, byID
//	the members of a group             byProject[p].byGroup
//	the instances of a set             byProject[p].bySet
//	the placeholders of a reservation  byProject[p].byReservation
//	a project's usage                  byProject[p].used
//	how many need or wait in a queue   byQueue[q].needed, queued
//	its position in the queue          byQueue[q].waiting
//	what a host has                    byHost[h]
//
// A change costs O(log n) for each sorted list that the entry is in; a page of a list costs
// what is on it. TestViewsMatchADumbOne compares the answers with those of a walk over all.
//
// # What is easy to get wrong
//
//   - The order of lists must not change while a caller walks through them with a marker.
//     It goes by listedAt, which an entry takes over from the one before it: the record has
//     the time of the node that accepted the boot, which may differ from what was seen first.
//   - An id belongs to one instance, but two projects may ask for the same one. If one
//     conductor decides for both, it refuses the second request, and the view drops it
//     (sameConductor); otherwise both are instances, the first in byID, the second in others.
//   - A record of a later schema is in no index (later): what was known before it is not
//     true any more, and a caller that asks by id is told to ask a newer node.
//   - The state of a record is not the state that is shown: an instance on a silent host
//     shows unknown. That depends on the time, so it is decided by presenter, and an index
//     by state must also be searched for what shows unknown (withStates).
type instances struct {
	telling    sync.Mutex // held from a change until listeners can hear it; taken before mu
	mu         sync.RWMutex
	byID       map[compute.InstanceID]*entry      // of those of one id, the first
	others     map[instanceKey]*entry             // of those of one id, the others
	byProject  map[compute.Project]*projectIndex  // those that have an instance
	byQueue    map[compute.QueueName]*queueWork   // those that an instance needs
	byHost     map[compute.HostID]map[*entry]bool // by entry.host
	partitions int32                              // of the topics; 0: not known
	shared     compute.Shared                     // what records have in common, kept once
	later      map[instanceKey]bool               // those that only a later Berth can read
	undecided  map[*entry]origin                  // the requests, with where the last for each instance is
	refused    map[instanceKey]origin             // requests that were dropped, at most maxRefused
	read       map[int32]int64                    // up to where requests were read, by partition; none: nothing was
	told       *events.Log                        // hears of every change; nil: nobody does
	tellFrom   func() time.Time                   // but of those that were written before
}

// projectIndex is what one project has, in every order in which it is listed.
type projectIndex struct {
	byState       [compute.StateAccepted + 1]*sorted.List[*entry] // by state; in the order of lists
	byQueue       map[compute.QueueName]*sorted.List[*entry]      // in the order of lists
	byFlavor      map[compute.FlavorName]*sorted.List[*entry]     // in the order of lists
	byName        *sorted.List[*entry]                            // by name; all that the project has
	byID          *sorted.List[*entry]                            // by id; all that the project has
	byGroup       map[compute.GroupName]map[*entry]bool           // those that have not ended; nil: none is in a group
	bySet         map[compute.InstanceID]map[*entry]bool          // those that have not ended; nil: none is in a set
	byReservation map[compute.ReservationName]map[*entry]bool     // placeholders, ended ones too; nil: none
	used          compute.PartAmounts                             // by those that count; no zeros
}

// queueWork is what needs a queue.
type queueWork struct {
	needed  int                  // instances that are accepted, queued or starting
	queued  int                  // of them: queued, those that are pinned to a host too
	waiting *sorted.List[*entry] // with work in the queue, the first to be served first
}

// listOrder is the order of lists: the oldest first. Like the two below it compares no
// more than it must, since each entry that it reads is likely a cache miss.
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

// queueOrder is the order in which a queue is served, as far as it has one: the first
// queued first.
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
		undecided:  map[*entry]origin{}, refused: map[instanceKey]origin{}, read: map[int32]int64{},
	}
}

func newProjectIndex() *projectIndex {
	t := &projectIndex{
		byQueue: map[compute.QueueName]*sorted.List[*entry]{}, byFlavor: map[compute.FlavorName]*sorted.List[*entry]{},
		byName: sorted.New(nameOrder), byID: sorted.New(idOrder), used: compute.PartAmounts{},
	}
	for s := range t.byState {
		t.byState[s] = sorted.New(listOrder)
	}
	return t
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// apply takes new records in order.
func (v *instances) apply(changes []change) {
	v.telling.Lock()
	defer v.telling.Unlock()
	entries := v.applied(changes)
	if v.told != nil {
		v.told.Take(entries)
	}
}

// applied takes new records in order, and answers what listeners hear of them.
func (v *instances) applied(changes []change) []events.Entry {
	from := time.Time{}
	if v.told != nil {
		from = v.tellFrom()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	entries := make([]events.Entry, 0, len(changes))
	for _, c := range changes {
		if c.unread {
			entries = append(entries, events.Entry{Place: c.at})
			continue
		}
		before, known := v.remove(c.key), entry{instance: c.instance}
		shareLabels(before.instance, c.instance)
		entries = append(entries, entryOf(before.instance, c, from))
		if delete(v.later, c.key); c.later {
			v.later[c.key] = true
		}
		if c.instance == nil {
			continue
		}
		if c.instance.State.Ended() {
			c.instance.Boot.DropUserData() // older versions kept it in the record
		}
		v.shared.Instance(c.instance)
		v.dropRefusedRequest(c.key)
		if known.listedAt = unixNano(known.requestedAt()); before.key() != (instanceKey{}) {
			// Two nodes may have accepted it at different times: it stays where it was seen.
			known.listedAt = before.listedAt
		}
		v.add(known)
	}
	return entries
}

// shareLabels lets a record have the labels of the one before, where they are the same: listeners are told many records
// of an instance, and each would have a copy.
func shareLabels(before, after *compute.Instance) {
	if before != nil && after != nil && maps.Equal(before.Boot.Metadata, after.Boot.Metadata) {
		after.Boot.Metadata = before.Boot.Metadata
	}
}

// entryOf is what listeners hear of a change. Where compaction has removed all records of an instance nothing tells
// that it was there. That takes a day at least (delete.retention.ms), so nothing is told of what is half as old.
func entryOf(before *compute.Instance, c change, from time.Time) events.Entry {
	if c.later || c.at.Time.Before(from) {
		return events.Entry{Place: c.at}
	}
	return events.Between(c.key.project, c.key.id, before, c.instance, c.at)
}

// accept takes boot requests; those already decided change nothing. read is up to where requests were read; nil: these
// were written, and not read yet.
func (v *instances) accept(boots []asked, read map[int32]int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.Copy(v.read, read)
	for _, r := range boots {
		at := instanceKey{r.Project, r.Instance}
		if p, others := v.otherOwnerLocked(at); others && v.sameConductor(p, r.Project) {
			continue // the conductor refuses it
		}
		k := v.lookup(at)
		if k == nil && !v.later[at] {
			k = v.add(entry{request: r.Request, listedAt: unixNano(r.At)})
			v.undecided[k] = r.origin
		} else if was, ok := v.undecided[k]; ok && (was.offset < r.offset || read != nil) {
			v.undecided[k] = r.origin
		}
	}
}

// decidedAll says that no request waits for its instance.
func (v *instances) decidedAll() bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.undecided) == 0
}

// maxRefused bounds what is remembered of refused requests: then all are forgotten.
const maxRefused = 10_000

// dropRefused drops the requests that conductors have dealt with, up to decided in each partition, and that are no
// instances. What is written up to there has to be applied.
func (v *instances) dropRefused(decided map[int32]int64) (dropped []asked) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for k, from := range v.undecided {
		p := wire.Partition(k.request.Project, max(v.partitions, 1))
		if to := decided[p]; from.offset < to && to <= v.read[p] {
			dropped = append(dropped, asked{k.request, from})
		}
	}
	for _, r := range dropped {
		at := instanceKey{r.Project, r.Instance}
		v.remove(at)
		if len(v.refused) >= maxRefused {
			clear(v.refused)
		}
		v.refused[at] = r.origin
	}
	return dropped
}

// checkRefused tells of a request that was refused, as long as that is remembered.
func (v *instances) checkRefused(at instanceKey) error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	r, ok := v.refused[at]
	if !ok {
		return nil
	}
	why := "does not exist: a conductor refused the request for it"
	if r.unsigned {
		why += ", which was not signed, as conductors may demand it (publish.trust)"
	}
	return &compute.Error{
		Kind: compute.KindNotFound, Field: "instance", Value: string(at.id), Message: why,
		Remedy: fmt.Sprintf("the topic rejected says why, for offset %d in partition %d of requests: tell the operator",
			r.offset, wire.Partition(at.project, max(v.partitions, 1))),
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

func (v *instances) add(now entry) *entry {
	k, at := &now, now.key()
	delete(v.refused, at)
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
		addIn(&v.byHost, h, k)
	}
	if k.needsQueue() {
		v.work(k.queue()).count(k, 1)
	}
	if k.waitsInQueue() {
		v.work(k.line()).waiting.Add(k)
	}
	return k
}

// work is what needs a queue.
func (v *instances) work(q compute.QueueName) *queueWork {
	w := v.byQueue[q]
	if w == nil {
		w = &queueWork{waiting: sorted.New(queueOrder)}
		v.byQueue[q] = w
	}
	return w
}

// dropIdle forgets a queue that nothing needs.
func (v *instances) dropIdle(q compute.QueueName) {
	if w := v.byQueue[q]; w.needed+w.waiting.Len() == 0 {
		delete(v.byQueue, q)
	}
}

func (t *projectIndex) add(k *entry) {
	t.byState[k.state()].Add(k)
	t.byName.Add(k)
	t.byID.Add(k)
	addTo(t.byQueue, k.queue(), k)
	addTo(t.byFlavor, k.boot().Flavor, k)
	t.addMember(k)
	if k.inSet() {
		addIn(&t.bySet, k.boot().Set().ID, k)
	}
	t.addPlaceholder(k)
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

// addIn adds to what is of one name, which is made with its first.
func addIn[N comparable](sets *map[N]map[*entry]bool, name N, k *entry) {
	if *sets == nil {
		*sets = map[N]map[*entry]bool{}
	}
	if (*sets)[name] == nil {
		(*sets)[name] = map[*entry]bool{}
	}
	(*sets)[name][k] = true
}

// removeIn takes from what is of one name, which goes with its last.
func removeIn[N comparable](sets map[N]map[*entry]bool, name N, k *entry) {
	if delete(sets[name], k); len(sets[name]) == 0 {
		delete(sets, name)
	}
}

// inSet says whether an entry is of a set, and has not ended.
func (k entry) inSet() bool { return k.boot().Set().ID != "" && !k.state().Ended() }

// count counts an instance n times more.
func (w *queueWork) count(k *entry, n int) {
	w.needed += n
	if k.state() == compute.StateQueued {
		w.queued += n
	}
}

// addUsage adds times what an instance uses of the quota.
func (t *projectIndex) addUsage(k *entry, times int64) {
	if k.instance == nil || !k.instance.Counts() {
		return
	}
	for _, part := range compute.QuotaParts(k.boot().Priority()) {
		t.used.Add(part, compute.Resources{compute.Instances: 1}, times)
		t.used.Add(part, k.instance.Resources, times)
		maps.DeleteFunc(t.used[part], func(_ compute.ResourceClass, n int64) bool { return n == 0 })
		if len(t.used[part]) == 0 {
			delete(t.used, part)
		}
	}
}

// remove forgets an instance and answers what was known of it.
func (v *instances) remove(at instanceKey) entry {
	k := v.lookup(at)
	if k == nil {
		return entry{}
	}
	delete(v.undecided, k)
	if delete(v.others, at); v.byID[at.id] == k {
		delete(v.byID, at.id)
	}
	if t := v.byProject[at.project]; t.remove(k) == 0 {
		delete(v.byProject, at.project)
	}
	removeIn(v.byHost, k.host(), k)
	if k.waitsInQueue() {
		v.work(k.line()).waiting.Remove(k)
	}
	if k.needsQueue() {
		v.work(k.queue()).count(k, -1)
		v.dropIdle(k.queue())
	}
	if line := k.line(); v.byQueue[line] != nil {
		v.dropIdle(line)
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
	t.removeMember(k)
	if k.inSet() {
		removeIn(t.bySet, k.boot().Set().ID, k)
	}
	t.removePlaceholder(k)
	t.addUsage(k, -1)
	return t.byName.Len()
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
func (v *instances) used(p compute.Project) compute.PartAmounts {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if t := v.byProject[p]; t != nil {
		return t.used.Clone()
	}
	return compute.PartAmounts{}
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

// busyQueues are those in which something waits.
func (v *instances) busyQueues() map[compute.QueueName]bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	out := map[compute.QueueName]bool{}
	for q, w := range v.byQueue {
		if w.queued+w.waiting.Len() > 0 {
			out[q] = true
		}
	}
	return out
}

// inLine is how many wait in a queue for any host: those that are pinned to one are in nobody's way elsewhere.
func (v *instances) inLine(q compute.QueueName) int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if w := v.byQueue[q]; w != nil {
		return w.waiting.Len()
	}
	return 0
}

// inQueue is the entry by which an instance stands in the line of a queue: of a set that is offered whole, that of the
// part that leads; nil: it stands in none.
func (v *instances) inQueue(i *compute.Instance) *entry {
	own := &entry{instance: i}
	at := own
	if i.Whole() != "" && !i.Leads() {
		at = v.lookup(instanceKey{i.Project, i.Boot.Set().ID})
	}
	if at == nil || !at.waitsInQueue() || at.line() != own.line() {
		return nil
	}
	return at
}

// position is where an instance stands in its queue's line, first come first: how
// many are before it, how many wait, and since when the first does. All are zero for one that is in no line.
func (v *instances) position(i *compute.Instance) (before, depth uint64, oldest time.Time) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	at := v.inQueue(i)
	if at == nil {
		return 0, 0, time.Time{}
	}
	w := v.byQueue[at.line()]
	if w == nil {
		return 0, 0, time.Time{}
	}
	if first, ok := w.waiting.First(); ok {
		oldest = first.instance.QueuedAt
	}
	before = uint64(w.waiting.Count(func(k *entry) bool { return queueOrder(k, at) < 0 }))
	return before, uint64(w.waiting.Len()), oldest
}

// ownBefore is how many of its project's wait before an instance in its queue.
func (v *instances) ownBefore(i *compute.Instance) (n uint64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	at := v.inQueue(i)
	if at == nil {
		return 0
	}
	w := v.byQueue[at.line()]
	if w == nil {
		return 0
	}
	for k := range w.waiting.From(nil) {
		if queueOrder(k, at) >= 0 {
			break
		}
		if k.instance.Project == i.Project {
			n++
		}
	}
	return n
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

// mates lists all of an instance's set that have not ended, itself among them, in no order. Each has a record.
func (v *instances) mates(i *compute.Instance) (out []*compute.Instance) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	t := v.byProject[i.Project]
	if t == nil {
		return nil
	}
	for k := range t.bySet[i.Boot.Set().ID] {
		if k.instance != nil {
			out = append(out, k.instance)
		}
	}
	return out
}

// An instance whose record a later Berth wrote is in no list and in no count of this
// node, for what is known of it from before is not true any more. A request for it
// by its id is refused, and /readyz and a metric say that there are any.

var errLaterSchema = errors.New("a later version of Berth wrote it: upgrade this node")

// checkReadable refuses to say anything of an instance that only a later Berth can read.
func (v *instances) checkReadable(at instanceKey) error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if !v.later[at] {
		return nil
	}
	return &compute.Error{
		Kind: compute.KindUnavailable, Field: "id", Value: string(at.id),
		Message: fmt.Sprintf("its record is of a later schema than %d, the newest that this node reads", wire.Schema),
		Remedy:  "ask a node of the later version, or upgrade this one",
	}
}

// unreadable is how many there are.
func (v *instances) unreadable() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.later)
}
