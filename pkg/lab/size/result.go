// SPDX-License-Identifier: Apache-2.0

package size

import (
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Result is what a run says. Keys are promised to scripts.
type Result struct {
	Hosts    int     `json:"hosts"`
	Requests int     `json:"requests"`
	Queues   int     `json:"queues"`
	Rate     float64 `json:"rate"` // offered; 0: all at once
	Granted  int     `json:"granted"`
	Left     int     `json:"left"` // what had no room when nothing had moved for long
	Doubled  int     `json:"doubled"`

	Seconds    float64   `json:"seconds"` // until the last was granted
	BootsPerS  float64   `json:"boots_per_s"`
	GrantedMS  Quantiles `json:"accepted_granted_ms"`
	CPUPerBoot float64   `json:"cpu_ms_a_boot"` // of what was simulated: brokers, conductors; clients only if shared

	Used  float64 `json:"used"`        // share of the hosts' processors that machines have in the end
	Empty int     `json:"empty_hosts"` // that have no machine then
	Room  []Room  `json:"room"`        // what still fits, for each size of machine
	// with a life of machines only: from three lives after the first request to the last
	Fill   float64  `json:"fill,omitempty"`   // share of the hosts' processors that machines have, in the mean
	Saving float64  `json:"saving,omitempty"` // hosts that save room for large work, in the mean
	Waits  []SizeMS `json:"waits,omitempty"`  // accepted to granted, for each size of machine

	Busiest    string             `json:"busiest"`
	Brokers    []Broker           `json:"brokers"`
	Conductors []Conductor        `json:"conductors"`
	PerBoot    map[string]float64 `json:"requests_a_boot"` // to brokers, by what for
	AllPerBoot float64            `json:"all_requests_a_boot"`
	Idle       map[string]float64 `json:"idle_requests_a_second"` // before the first request
}

// Quantiles are exact, in milliseconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// SizeMS is how long machines of one size waited. One that still waits counts with what it has waited.
type SizeMS struct {
	Size  int       `json:"size"` // processors
	Boots int       `json:"boots"`
	Left  int       `json:"left"` // that still wait in the end
	MS    Quantiles `json:"accepted_granted_ms"`
}

// Room is how many more machines of one size fit in the end. Where it is less than all
// free processors are enough for, they lie on too many hosts: they are fragmented.
type Room struct {
	Size   int `json:"size"`   // processors
	Fits   int `json:"fits"`   // machines
	Enough int `json:"enough"` // machines, if all that is free were on one host
}

// Broker is what one is asked for.
type Broker struct {
	// share of its processors while requests came; all at once: until the last was granted
	Busy        float64 `json:"busy"`
	Idle        float64 `json:"idle"` // the same, before the first request
	Connections int     `json:"connections"`
	Partitions  int     `json:"partitions"` // replicas
	Handles     int     `json:"handles"`    // to allow
}

// Conductor is how busy one is.
type Conductor struct {
	Busy  float64 `json:"busy"`  // of one processor
	Turns float64 `json:"turns"` // share of the time within a turn
}

func (w *world) result() Result {
	o := w.o
	r := Result{
		Hosts:    o.Hosts,
		Requests: o.Requests,
		Queues:   o.Queues,
		Rate:     o.Rate,
		Granted:  w.granted,
		Left:     o.Requests - w.granted,
		Doubled:  w.doubled,
	}
	span := max(1, float64(w.last-w.began))
	r.Seconds, r.BootsPerS = span/float64(time.Second), float64(w.granted)/span*float64(time.Second)
	r.GrantedMS = w.waited()
	if w.work == nil {
		w.measure()
	}
	end, cpu := max(1, float64(w.now-w.began)), 0.0
	for b := range w.brokers {
		s, use := &w.brokers[b], o.uses(b)
		use.Busy, use.Idle = w.work[b], w.idle[b]
		cpu += s.busy
		r.Brokers = append(r.Brokers, use)
	}
	for c := range w.conductors {
		cpu += w.machines[c].busy
		r.Conductors = append(r.Conductors, Conductor{w.work[o.Brokers+c], float64(w.conductors[c].spent) / end})
	}
	boots := float64(max(1, w.granted))
	r.CPUPerBoot = cpu / boots / float64(time.Millisecond)
	r.PerBoot, r.Idle = map[string]float64{}, map[string]float64{}
	for k := range whats {
		if w.count[k] > 0 {
			r.PerBoot[k.String()] = float64(w.count[k]) / boots
		}
		if w.quiet[k] > 0 {
			r.Idle[k.String()] = float64(w.quiet[k]) / warm.Seconds()
		}
		r.AllPerBoot += float64(w.count[k]) / boots
	}
	w.room(&r)
	w.lived(&r)
	r.Busiest = r.busiest(o.Limits)
	return r
}

// room says what hosts have and have left.
func (w *world) room(r *Result) {
	sizes := slices.Compact(slices.Sorted(slices.Values(w.o.Sizes)))
	fits, free := make([]int, len(sizes)), 0
	for h := range w.hosts {
		left := int(w.hosts[h].room.Free()[compute.VCPU])
		if free += left; left == w.o.size() {
			r.Empty++
		}
		for i, s := range sizes {
			fits[i] += left / s
		}
	}
	r.Used = 1 - float64(free)/float64(w.o.size()*len(w.hosts))
	for i, s := range sizes {
		r.Room = append(r.Room, Room{s, fits[i], free / s})
	}
}

// waited is how long accepted requests waited to be granted.
func (w *world) waited() Quantiles {
	all := make([]int64, 0, w.granted)
	for _, i := range w.instances {
		if i.host >= 0 {
			all = append(all, i.granted-i.accepted)
		}
	}
	return quantiles(all)
}

func quantiles(all []int64) Quantiles {
	if len(all) == 0 {
		return Quantiles{}
	}
	slices.Sort(all)
	at := func(share float64) float64 {
		return float64(all[min(len(all)-1, int(share*float64(len(all))))]) / float64(time.Millisecond)
	}
	return Quantiles{at(0.5), at(0.9), at(0.99), at(1)}
}

// busiest is what comes closest to its limit, or is furthest beyond.
func (r Result) busiest(l Limits) string {
	name, most := "", 0.0
	look := func(what string, share float64) {
		if share > most {
			name, most = what, share
		}
	}
	for i, b := range r.Brokers {
		which := ""
		if i == 0 {
			which = " that leads advice and hosts"
		}
		look("processors of a broker"+which, b.Busy/l.Busy)
		look("handles of a broker"+which, float64(b.Handles)/float64(l.Handles))
		look("partitions of a broker", float64(b.Partitions)/float64(l.Partitions))
	}
	for _, c := range r.Conductors {
		look("a conductor", c.Busy/l.Busy)
	}
	return name
}

// uses is what hosts and topics ask of a broker, whatever the load. An agent writes to
// every broker and may wait at every one, each on a connection of its own, and reads
// where advice and its stream are.
func (o Options) uses(b int) Broker {
	share := func(n int) int { return (n + o.Brokers - 1 - b) / o.Brokers }
	u := Broker{Connections: 2*o.Hosts + share(o.Hosts)}
	if b == 0 {
		u.Connections = 3 * o.Hosts
	}
	u.Partitions = (o.Hosts + o.Queues + 3*o.Partitions + 6) * o.Replication / o.Brokers
	u.Handles = u.Connections + 2*u.Partitions + otherHandles
	return u
}

// otherHandles is what OPERATIONS.md has brokers keep for everything else.
const otherHandles = 10_000
