package api

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// queues is the queue list, with an index by flavor.
type queues struct {
	mu     sync.RWMutex
	byName map[compute.QueueName]*compute.Queue
	of     map[compute.FlavorName]map[compute.QueueName]*compute.Queue
}

func newQueues() *queues {
	return &queues{
		byName: map[compute.QueueName]*compute.Queue{},
		of:     map[compute.FlavorName]map[compute.QueueName]*compute.Queue{},
	}
}

func (v *queues) put(q *compute.Queue) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.byName[q.Name] = q
	if v.of[q.Flavor] == nil {
		v.of[q.Flavor] = map[compute.QueueName]*compute.Queue{}
	}
	v.of[q.Flavor][q.Name] = q
}

func (v *queues) remove(name compute.QueueName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	q := v.byName[name]
	if q == nil {
		return
	}
	delete(v.byName, name)
	if delete(v.of[q.Flavor], name); len(v.of[q.Flavor]) == 0 {
		delete(v.of, q.Flavor)
	}
}

func (v *queues) get(name compute.QueueName) *compute.Queue {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.byName[name]
}

// list is all queues, or a flavor's, by name.
func (v *queues) list(f compute.FlavorName) []*compute.Queue {
	v.mu.RLock()
	from := v.byName
	if f != "" {
		from = v.of[f]
	}
	out := make([]*compute.Queue, 0, len(from))
	for _, q := range from {
		out = append(out, q)
	}
	v.mu.RUnlock()
	slices.SortFunc(out, func(a, b *compute.Queue) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// heard is a beacon and when this process heard it, on its monotonic clock.
type heard struct {
	beacon *compute.Beacon
	at     time.Time
}

// hosts is the last beacon of every host.
type hosts struct {
	mu     sync.RWMutex
	byName map[compute.HostID]heard
	since  time.Time // when the topic had been read to its end; zero before
}

func newHosts() *hosts { return &hosts{byName: map[compute.HostID]heard{}} }

func (v *hosts) put(b *compute.Beacon, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.byName[b.Host] = heard{b, now}
}

func (v *hosts) remove(h compute.HostID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.byName, h)
}

func (v *hosts) loaded(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.since = now
}

func (v *hosts) get(h compute.HostID) (heard, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	found, ok := v.byName[h]
	return found, ok
}

// silent says whether a host has said nothing for so long that nobody knows
// what it does. One never heard of counts from when the topic was read.
func (v *hosts) silent(h compute.HostID, now time.Time) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	last, ok := v.byName[h]
	if !ok {
		return !v.since.IsZero() && now.Sub(v.since) > compute.SilentAfter
	}
	return now.Sub(last.at) > compute.SilentAfter
}

// list is all hosts by name.
func (v *hosts) list() []heard {
	v.mu.RLock()
	out := make([]heard, 0, len(v.byName))
	for _, h := range v.byName {
		out = append(out, h)
	}
	v.mu.RUnlock()
	slices.SortFunc(out, func(a, b heard) int { return cmp.Compare(a.beacon.Host, b.beacon.Host) })
	return out
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

// take replaces what was said before, about all queues if it names all.
func (v *advice) take(a compute.Advice) {
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
