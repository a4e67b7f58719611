// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// World is where all fake hosts and their machines are.
type World struct {
	store store
	mu    sync.Mutex
	hosts map[compute.HostID]*Host
}

// NewWorld is a world in memory: it lasts as long as the process.
func NewWorld() *World { return newWorld(&memory{}) }

// OpenWorld is a world in a folder: it outlives the process, and several
// processes may share it, each with hosts of its own.
func OpenWorld(dir string) (*World, error) {
	s, err := openFolder(dir)
	if err != nil {
		return nil, err
	}
	return newWorld(s), nil
}

func newWorld(s store) *World {
	return &World{store: s, hosts: map[compute.HostID]*Host{}}
}

// Dir is the world's folder; empty: it is in memory.
func (w *World) Dir() string { return w.store.home() }

// Host finds a host, or makes it with this inventory. A host that exists keeps
// its machines and takes over the inventory.
func (w *World) Host(id compute.HostID, inv compute.Inventory) (*Host, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h, ok := w.hosts[id]; ok {
		h.setInventory(inv)
		return h, nil
	}
	machines, err := w.store.load(id)
	if err != nil {
		return nil, fmt.Errorf("fake host %s: %w", id, err)
	}
	h := &Host{id: id, world: w, inventory: inv, machines: machines, listeners: map[*func(hypervisor.Event)]bool{}}
	w.hosts[id] = h
	return h, nil
}

// EventKind is what happened to a machine.
type EventKind string

// What happens to machines.
const (
	Launched  EventKind = "launched" // begins to run for the first time
	Resumed   EventKind = "resumed"  // runs again after a stop
	Stopped   EventKind = "stopped"
	Paused    EventKind = "paused"  // stands still, and may go on
	WentOn    EventKind = "went-on" // after a pause
	Rebooted  EventKind = "rebooted"
	Destroyed EventKind = "destroyed" // of a machine that was launched
	Undone    EventKind = "undone"    // of one that was only prepared
)

// Event is one thing that happened, as seen from outside.
type Event struct {
	At       time.Time
	Kind     EventKind
	Host     compute.HostID
	Instance compute.InstanceID
	Attempt  compute.Attempt
}

// Events lists what happened, oldest first.
func (w *World) Events() ([]Event, error) { return w.store.events() }

// Count says how often something happened to each instance.
func (w *World) Count(kind EventKind) (map[compute.InstanceID]int, error) {
	events, err := w.Events()
	n := map[compute.InstanceID]int{}
	for _, e := range events {
		if e.Kind == kind {
			n[e.Instance]++
		}
	}
	return n, err
}

// Violations reads the events and says, a line each, where an instance ran on
// two hosts at once (I2) or one attempt was launched twice.
func Violations(events []Event) []string {
	var wrong []string
	running := map[compute.InstanceID]map[compute.HostID]bool{}
	attempts := map[string]bool{}
	for _, e := range events {
		on := running[e.Instance]
		switch e.Kind {
		case Launched, Resumed:
			if on == nil {
				on = map[compute.HostID]bool{}
				running[e.Instance] = on
			}
			on[e.Host] = true
			if len(on) > 1 {
				wrong = append(
					wrong,
					fmt.Sprintf(
						"%s: %s runs on %d hosts at once, last %s",
						e.At.Format(time.RFC3339Nano), e.Instance, len(on), e.Host,
					),
				)
			}
			key := fmt.Sprint(e.Instance, "/", e.Attempt)
			if e.Kind == Launched && attempts[key] {
				wrong = append(
					wrong,
					fmt.Sprintf(
						"%s: attempt %d of %s launched twice, last on %s",
						e.At.Format(time.RFC3339Nano), e.Attempt, e.Instance, e.Host,
					),
				)
			}
			attempts[key] = attempts[key] || e.Kind == Launched
		case Stopped, Destroyed:
			delete(on, e.Host)
		}
	}
	return wrong
}

// record writes an event down; the store orders concurrent ones.
func (w *World) record(e Event) error {
	e.At = time.Now().UTC()
	return w.store.append(e)
}

// Hosts lists the hosts of this process, in alphabetical order.
func (w *World) Hosts() []*Host {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*Host
	for _, h := range w.hosts {
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b *Host) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	return out
}
