package api

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// key names an instance among all projects.
type key struct {
	project compute.Project
	id      compute.InstanceID
}

// change is a new record of an instance; without one, its tombstone.
type change struct {
	key      key
	instance *compute.Instance
}

// known is what is known of an instance: its record or, before the conductor
// has decided, the request for it. Exactly one is set.
type known struct {
	instance *compute.Instance
	request  *compute.Request
}

func (k known) key() key {
	if k.instance != nil {
		return key{k.instance.Project, k.instance.ID}
	}
	return key{k.request.Project, k.request.Instance}
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

func (k known) compare(other known) int {
	return cmp.Or(k.since().Compare(other.since()), cmp.Compare(k.key().id, other.key().id))
}

// instances is the truth and what may become it, with indexes by project, by
// name and by queue.
type instances struct {
	mu     sync.RWMutex
	tenant map[compute.Project]*tenant
	work   map[compute.QueueName]map[key]known // accepted, queued or starting
}

// tenant is what one project has.
type tenant struct {
	known map[compute.InstanceID]known
	named map[string]map[compute.InstanceID]bool
}

func newInstances() *instances {
	return &instances{
		tenant: map[compute.Project]*tenant{},
		work:   map[compute.QueueName]map[key]known{},
	}
}

// apply takes new records in order.
func (v *instances) apply(changes []change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range changes {
		v.drop(c.key)
		if c.instance != nil {
			v.put(known{instance: c.instance})
		}
	}
}

// accept takes boot requests; those already decided change nothing.
func (v *instances) accept(boots []*compute.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range boots {
		if t := v.tenant[r.Project]; t == nil || t.known[r.Instance] == (known{}) {
			v.put(known{request: r})
		}
	}
}

func (v *instances) put(k known) {
	at := k.key()
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

func (v *instances) drop(at key) {
	t := v.tenant[at.project]
	if t == nil {
		return
	}
	k, ok := t.known[at.id]
	if !ok {
		return
	}
	delete(t.known, at.id)
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
