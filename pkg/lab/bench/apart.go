// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/lab/bench/child"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/telemetry"
)

// With --apart every part of the centre is a process of its own, and the agents
// are in as many as they need. This process is left with the load.

// order says what a process of a run does.
type order struct {
	Role       lab.Role    `json:"role"`
	Name       string      `json:"name"` // of a part of the centre
	Site       lab.Site    `json:"site"`
	Level      string      `json:"level"` // of its log
	Hosts      []benchHost `json:"hosts"` // of a process of agents
	Simulation simulation  `json:"simulation"`
}

// told is what such a process says when it is ready.
type told struct {
	Address string `json:"address"` // of an API node
}

// remote is a process of a run that this one has started, or will.
type remote struct {
	role lab.Role
	*child.Process
}

// ServePart is the whole life of such a process: what Options.Self runs. It speaks
// with the run over in and out; its log goes to errs.
func ServePart(ctx context.Context, in io.Reader, out, errs io.Writer, p lab.Product) error {
	return child.Serve(ctx, in, out, func(raw json.RawMessage) (child.Work, error) {
		var o order
		if err := json.Unmarshal(raw, &o); err != nil {
			return child.Work{}, err
		}
		log, err := telemetry.NewLogger(errs, o.Level, "console")
		if err != nil {
			return child.Work{}, err
		}
		l := newLocal(p, o.Site, log)
		part, address, err := l.obey(o)
		return child.Work{
			Part:   part,
			Ready:  func() (any, error) { return told{address()}, nil },
			Report: func() (any, error) { return l.report() },
			Last:   func() (any, error) { return l.outcome() },
		}, err
	})
}

func (l *local) obey(o order) (service.Part, func() string, error) {
	if o.Role == lab.RoleAgent {
		part, err := l.agents(o.Hosts, o.Simulation)
		return part, func() string { return "" }, err
	}
	part, address := l.part(o.Role, o.Name)
	return part, address, nil
}

// place puts a part of the centre where it belongs.
func (r *run) place(role lab.Role, name string) (service.Part, func() string) {
	if !r.o.Apart {
		return r.own.part(role, name)
	}
	p := r.remote(order{Role: role, Name: name})
	return p, func() string {
		var t told
		_ = p.Told(&t) // one that failed has ended the run
		return t.Address
	}
}

// agents joins all agents.
func (r *run) agents() (service.Part, error) {
	s := simulation{Slots: r.o.Slots, PrepareTime: r.o.PrepareTime, LaunchTime: r.o.LaunchTime}
	if !r.o.Apart {
		return r.own.agents(r.cloud.hosts, s)
	}
	var parts []service.Part
	for hosts := range slices.Chunk(r.cloud.hosts, r.o.HostsEach) {
		parts = append(parts, r.remote(order{Role: lab.RoleAgent, Hosts: hosts, Simulation: s}))
	}
	return service.Together(parts...), nil
}

// remote adds a process.
func (r *run) remote(o order) *child.Process {
	o.Site, o.Level = r.own.site, r.o.Level
	p := child.New(child.Options{Command: r.o.Self, Order: o, Stderr: r.o.Say})
	r.remotes = append(r.remotes, remote{o.Role, p})
	return p
}

// reports asks all processes what they have used and done so far, by role. Without
// Apart this process counts as the load, whatever it does.
func (r *run) reports(ctx context.Context) (map[lab.Role][]report, error) {
	reports := make([]report, len(r.remotes))
	all, asking := errgroup.WithContext(ctx)
	for i, p := range r.remotes {
		all.Go(func() error {
			if err := p.Ask(asking, &reports[i]); err != nil {
				return fmt.Errorf("ask a process of the role %s: %w", p.role, err)
			}
			return nil
		})
	}
	err := all.Wait()
	if off := ctx.Err(); off != nil {
		err = off // processes end with the run, and one that has ended is no fault then
	}
	own, ownErr := r.own.report()
	if err == nil {
		err = ownErr
	}
	out := map[lab.Role][]report{lab.RoleLoad: {own}}
	for i, p := range r.remotes {
		out[p.role] = append(out[p.role], reports[i])
	}
	return out, err
}

// outcome is what has happened to all hosts. The processes have ended; nobody asks
// them any more.
func (r *run) outcome() (outcome, error) {
	own, err := r.own.outcome()
	if err != nil {
		return outcome{}, err
	}
	all := []outcome{own}
	for _, p := range r.remotes {
		var o outcome
		if err := p.Last(&o); err != nil {
			return outcome{}, fmt.Errorf("the outcome of a process of the role %s: %w", p.role, err)
		}
		all = append(all, o)
	}
	r.remotes = nil
	return merge(all...), nil
}

// centre is the roles whose work all hosts share.
func centre() []lab.Role {
	return []lab.Role{lab.RoleBroker, lab.RoleAPI, lab.RoleConductor, lab.RoleQueues}
}
