// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/agent"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/service"
)

// local is what runs in this process of a run, and what is counted of it: with
// --apart one of several processes, else all there is.
type local struct {
	product  lab.Product
	site     lab.Site
	world    *fake.World
	hosts    []benchHost
	wires    *counted
	counters *counters
	warned   *tally
	journals atomic.Int64 // changes on disk
	stats    []func() agent.Stats
}

// newLocal is a process of a site, of which Dial, Log and Metrics are still to be
// found.
func newLocal(p lab.Product, s lab.Site, log *zap.Logger) *local {
	l := &local{
		product:  p,
		site:     s,
		world:    fake.NewWorld(),
		wires:    &counted{},
		counters: newCounters(),
		warned:   newTally(),
	}
	l.site.Dial, l.site.Log, l.site.Metrics = l.wires.dial, l.warned.on(log), l.counters.of
	return l
}

// simulation says how the hosts of a run are simulated.
type simulation struct {
	Slots       int           `json:"slots"`
	PrepareTime time.Duration `json:"prepare_time"`
	LaunchTime  time.Duration `json:"launch_time"`
}

// agents joins an agent for each host, each with connections, a journal that
// waits for the disk, and a stream of its own.
func (l *local) agents(hosts []benchHost, s simulation) (service.Part, error) {
	l.hosts = hosts
	driver := fake.Options{PrepareTime: s.PrepareTime, LaunchTime: s.LaunchTime}
	parts := make([]service.Part, 0, len(hosts))
	for _, h := range hosts {
		host, err := l.world.Host(h.ID, h.Inventory)
		if err != nil {
			return nil, err
		}
		part, stats := l.product.Agent(l.site, lab.Host{
			ID: h.ID, State: l.site.Data, Slots: s.Slots, Driver: fake.NewDriver(host, driver),
			Journal: journal.Options{Written: func() { l.journals.Add(1) }},
		})
		parts, l.stats = append(parts, part), append(l.stats, stats)
	}
	return service.Together(parts...), nil
}

// report is what a process has used and done so far.
type report struct {
	CPU         float64              `json:"cpu_s"`
	RSS         int64                `json:"rss"`
	Connections int64                `json:"connections"` // open now
	Journals    int64                `json:"journals"`    // changes on disk
	Offering    int                  `json:"offering"`    // agents that take work now
	Denied      int64                `json:"denied"`
	Released    int64                `json:"released"`
	Taken       int64                `json:"taken"` // processors that machines have now
	Traffic     map[lab.Role]traffic `json:"traffic"`
	Warnings    map[string]int       `json:"warnings"`
	Saving      int                  `json:"saving"`  // hosts that save room for large work now
	Savings     map[string]int64     `json:"savings"` // how many savings ended, by why
}

func (l *local) report() (report, error) {
	all, err := l.counters.read()
	if err != nil {
		return report{}, err
	}
	r := report{
		CPU: ownCPU(), Connections: l.wires.open.Load(), Journals: l.journals.Load(),
		Taken: taken(l.world), Traffic: all.traffic, Warnings: l.warned.counts(),
		Saving: all.saving, Savings: all.ended,
	}
	r.RSS, _ = resident(os.Getpid())
	for _, stats := range l.stats {
		s := stats()
		r.Denied += s.Denied
		r.Released += s.Released
		if s.Offering {
			r.Offering++
		}
	}
	return r, nil
}

// sum adds up what several processes report.
func sum(reports ...report) report {
	all := report{Traffic: map[lab.Role]traffic{}, Warnings: map[string]int{}, Savings: map[string]int64{}}
	for _, r := range reports {
		all.CPU += r.CPU
		all.RSS += r.RSS
		all.Connections += r.Connections
		all.Journals += r.Journals
		all.Offering += r.Offering
		all.Denied += r.Denied
		all.Released += r.Released
		all.Taken += r.Taken
		for role, t := range r.Traffic {
			all.Traffic[role] = all.Traffic[role].and(t)
		}
		for said, n := range r.Warnings {
			all.Warnings[said] += n
		}
		all.Saving += r.Saving
		for why, n := range r.Savings {
			all.Savings[why] += n
		}
	}
	return all
}

// and adds up what two had with the brokers.
func (t traffic) and(u traffic) traffic {
	both := traffic{APIs: maps.Clone(t.APIs), Sent: t.Sent + u.Sent, Received: t.Received + u.Received}
	if both.APIs == nil {
		both.APIs = map[string]answered{}
	}
	for api, a := range u.APIs {
		b := both.APIs[api]
		both.APIs[api] = answered{b.N + a.N, b.Seconds + a.Seconds}
	}
	return both
}

// outcome is what has happened to the hosts of a process.
type outcome struct {
	Events   []fake.Event `json:"events"`   // the oldest first
	Overfull []string     `json:"overfull"` // a line for each host that held more than it has
}

func (l *local) outcome() (outcome, error) {
	events, err := l.world.Events()
	return outcome{events, overfull(l.world, l.hosts)}, err
}

// merge joins what happened on the hosts of several processes. One machine's clock
// orders it.
func merge(all ...outcome) outcome {
	var out outcome
	for _, o := range all {
		out.Events = append(out.Events, o.Events...)
		out.Overfull = append(out.Overfull, o.Overfull...)
	}
	slices.SortStableFunc(out.Events, func(a, b fake.Event) int { return a.At.Compare(b.At) })
	return out
}

// core joins everything of a cell but the agents, each part as place says where.
func core(
	conductors int,
	place func(r lab.Role, name string) (service.Part, func() string),
) (service.Part, func() string) {
	g := service.NewGroup()
	queues, _ := place(lab.RoleQueues, "queues")
	g.Add("queues", queues)
	for i := range conductors {
		name := fmt.Sprintf("conductor-%d", i+1)
		part, _ := place(lab.RoleConductor, name)
		g.Add(name, part)
	}
	api, address := place(lab.RoleAPI, "api")
	g.Add("api", api)
	return g, address
}

// part is one of this product in this process.
func (l *local) part(r lab.Role, name string) (service.Part, func() string) {
	return l.product.Part(l.site, r, name)
}
