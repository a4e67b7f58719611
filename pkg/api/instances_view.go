package api

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
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

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// instances is the truth and what may become it, with indexes by project, by
// name and by queue.
type instances struct {
	mu         sync.RWMutex
	tenant     map[compute.Project]*tenant
	work       map[compute.QueueName]map[key]known    // accepted, queued or starting
	owner      map[compute.InstanceID]compute.Project // who had the id first
	partitions int32                                  // of the topics; 0: not known
	shared     compute.Shared
}

// tenant is what one project has.
type tenant struct {
	known map[compute.InstanceID]known
	named map[string]map[compute.InstanceID]bool
}

func newInstances(partitions int32) *instances {
	return &instances{
		owner:      map[compute.InstanceID]compute.Project{},
		partitions: partitions,
		tenant:     map[compute.Project]*tenant{},
		work:       map[compute.QueueName]map[key]known{},
	}
}

// apply takes new records in order.
func (v *instances) apply(changes []change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range changes {
		before, known := v.drop(c.key), known{instance: c.instance}
		if c.instance == nil {
			continue
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
		if p, taken := v.owner[r.Instance]; taken && p != r.Project && v.together(p, r.Project) {
			continue // the conductor will not have it
		}
		if t := v.tenant[r.Project]; t == nil || t.known[r.Instance] == (known{}) {
			v.put(known{request: r, place: nanos(r.At)})
		}
	}
}

// yield drops the request of another project for an id that, as the conductor
// of both has decided, is at's.
func (v *instances) yield(at key) {
	p, taken := v.owner[at.id]
	if !taken || p == at.project || !v.together(p, at.project) {
		return
	}
	if v.tenant[p].known[at.id].request != nil {
		v.drop(key{p, at.id})
	}
}

// together says whether one conductor decides for both: then an id is one's.
func (v *instances) together(a, b compute.Project) bool {
	return v.partitions > 0 && wire.Partition(a, v.partitions) == wire.Partition(b, v.partitions)
}

// owned says whose instance the id is, if it is another project's.
func (v *instances) owned(at key) (compute.Project, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	p, taken := v.owner[at.id]
	return p, taken && p != at.project
}

func (v *instances) put(k known) {
	at := k.key()
	if _, taken := v.owner[at.id]; !taken {
		v.owner[at.id] = at.project
	}
	t := v.tenant[at.project]
	if t == nil {
		t = &tenant{known: map[compute.InstanceID]known{}, named: map[string]map[compute.InstanceID]bool{}}
		v.tenant[at.project] = t
	}
	t.known[at.id] = k
	name := k.boot().Name
	if t.named[name] == nil {
		t.named[name] = map[compute.InstanceID]bool{}
	}
	t.named[name][at.id] = true
	if k.works() {
		queue := k.queue()
		if v.work[queue] == nil {
			v.work[queue] = map[key]known{}
		}
		v.work[queue][at] = k
	}
}

// drop forgets an instance and answers what was known of it.
func (v *instances) drop(at key) known {
	t := v.tenant[at.project]
	if t == nil {
		return known{}
	}
	k, ok := t.known[at.id]
	if !ok {
		return known{}
	}
	delete(t.known, at.id)
	if v.owner[at.id] == at.project {
		delete(v.owner, at.id)
	}
	name := k.boot().Name
	if delete(t.named[name], at.id); len(t.named[name]) == 0 {
		delete(t.named, name)
	}
	queue := k.queue()
	if delete(v.work[queue], at); len(v.work[queue]) == 0 {
		delete(v.work, queue)
	}
	if len(t.known) == 0 {
		delete(v.tenant, at.project)
	}
	return k
}

// get finds one instance.
func (v *instances) get(at key) (known, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	t := v.tenant[at.project]
	if t == nil {
		return known{}, false
	}
	k, ok := t.known[at.id]
	return k, ok
}

// of lists what a project has, in no order; named picks those of that name.
func (v *instances) of(p compute.Project, named string) []known {
	v.mu.RLock()
	defer v.mu.RUnlock()
	t := v.tenant[p]
	if t == nil {
		return nil
	}
	var out []known
	if named != "" {
		for id := range t.named[named] {
			out = append(out, t.known[id])
		}
		return out
	}
	out = make([]known, 0, len(t.known))
	for _, k := range t.known {
		out = append(out, k)
	}
	return out
}

// projects lists who has anything.
func (v *instances) projects() []compute.Project {
	v.mu.RLock()
	defer v.mu.RUnlock()
	out := make([]compute.Project, 0, len(v.tenant))
	for p := range v.tenant {
		out = append(out, p)
	}
	return out
}

// working is how many still need a queue: accepted, queued or starting.
func (v *instances) working(q compute.QueueName) int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.work[q])
}

// waiting is how many wait in a queue.
func (v *instances) waiting(q compute.QueueName) int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	n := 0
	for _, k := range v.work[q] {
		if k.instance != nil && k.instance.State == compute.StateQueued {
			n++
		}
	}
	return n
}

// line is who waits in a queue, first come first. Pinned work is in no line.
func (v *instances) line(q compute.QueueName) []*compute.Instance {
	v.mu.RLock()
	var out []*compute.Instance
	for _, k := range v.work[q] {
		if i := k.instance; i != nil && i.State == compute.StateQueued && i.Boot.Host == "" {
			out = append(out, i)
		}
	}
	v.mu.RUnlock()
	slices.SortFunc(out, func(a, b *compute.Instance) int {
		return cmp.Or(a.QueuedAt.Compare(b.QueuedAt), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Project, b.Project))
	})
	return out
}

// count is how many of those at a host are meant, by state.
func (v *instances) count(h compute.HostID, meant func(*compute.Instance) bool) map[string]int {
	n := map[string]int{}
	for _, k := range v.at(h) {
		if meant(k.instance) {
			n[k.instance.State.String()]++
		}
	}
	return n
}

// at lists what a host has, and what waits for it alone, in no order. Each has a
// record.
func (v *instances) at(h compute.HostID) []known {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []known
	for _, t := range v.tenant {
		for _, k := range t.known {
			if i := k.instance; i != nil && (i.State.OnHost() && i.Host == h || i.State == compute.StateQueued && i.Boot.Host == h) {
				out = append(out, k)
			}
		}
	}
	return out
}
