// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/size"
)

// NewSim holds the simulators that need nothing but this process.
func NewSim() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Simulate: what a cloud of some size would need",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSimSize())
	return cmd
}

// sized is what `berth sim size` says.
type sized struct {
	Options simOptions  `json:"options"`
	One     size.Result `json:"one_cell"`
	Cells   *size.Cells `json:"cells"` // null with --cells=false
}

// simOptions are the settings that a run is known by.
type simOptions struct {
	Brokers     int     `json:"brokers"`
	Processors  float64 `json:"processors"`
	Replication int     `json:"replication"`
	Conductors  int     `json:"conductors"`
	Partitions  int     `json:"partitions"`
	Weigher     string  `json:"weigher"`
	// the time in which all cells together are to be done; empty: at the rate
	Within  string             `json:"within"`
	Limits  size.Limits        `json:"limits"`
	CostsMS map[string]float64 `json:"costs_ms"`
	Seed    uint64             `json:"seed"`
}

// sizing is what the flags of `berth sim size` say.
type sizing struct {
	o       size.Options
	costs   []string
	weigher string
	within  time.Duration
	cells   bool
}

func newSimSize() *cobra.Command {
	s := sizing{o: size.DefaultOptions()}
	s.o.Hosts, s.o.Requests = 100_000, 1_000_000
	cmd := &cobra.Command{
		Use:   "size",
		Short: "Simulate a cloud of some size: how long, what is busiest, how many cells",
		Long: `size simulates hosts and queued requests in discrete time, in this process and without
Kafka. What decides is what decides in Berth: what fits, lots, weigher, advice. What brokers
and conductors cost is a model: a constant for each kind of request, fitted to what was
measured. docs/SIZE.md has the model, the constants, and how far it is off.

First one cell does it all, then it is divided until no broker and no conductor is busier
than --busy, and no broker has more handles or partitions than it may. Each cell is its own
cluster: --brokers brokers and --conductors conductors. Hosts and requests are divided,
queues are not: each cell has all of them.

The same flags give the same numbers, on any machine.`,
		Example: `  berth sim size --hosts 100000 --requests 1000000
  berth sim size --hosts 20000 --rate 500 --requests 100000 --brokers 5 --processors 16
  berth sim size --hosts 3000 --requests 10000 --rate 200 --cells=false --cost wake=0.2ms -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd) },
	}
	s.flags(cmd)
	return cmd
}

func (s *sizing) flags(cmd *cobra.Command) {
	f, o := cmd.Flags(), &s.o
	f.IntVar(&o.Hosts, "hosts", o.Hosts, "hosts")
	f.IntVar(&o.Requests, "requests", o.Requests, "boots")
	f.Float64Var(&o.Rate, "rate", 0, "boots a second; 0: all are in the log at the beginning")
	f.IntVar(&o.Burst, "burst", o.Burst, "boots that are due at once, at the same mean rate")
	f.IntVar(&o.Queues, "queues", o.Queues, "queues, chosen by lot")
	f.IntVar(&o.Partitions, "partitions", o.Partitions, "of requests, reports and instances")
	f.IntVar(&o.Projects, "projects", o.Projects, "projects, chosen by lot")
	f.IntVar(&o.Brokers, "brokers", o.Brokers, "brokers of a cell")
	f.Float64Var(&o.Processors, "processors", o.Processors, "of each broker")
	f.IntVar(&o.Replication, "replication", o.Replication, "replicas of each partition")
	f.IntVar(&o.Conductors, "conductors", o.Conductors, "conductors of a cell, each on a processor of its own")
	f.IntVar(&o.HostSize, "host-size", 0, "processors a host has for machines; 0: what all need and a quarter more")
	f.IntSliceVar(&o.Sizes, "sizes", o.Sizes, "processors of machines; the queues take turns")
	f.IntVar(&o.Slots, "slots", o.Slots, "builds a host has under way")
	f.StringVar(&s.weigher, "weigher", "spread", "which hosts wait more often: spread (empty ones) or pack (full ones)")
	f.DurationVar(&o.Prepare, "prepare-time", o.Prepare, "what a host takes to prepare a machine")
	f.DurationVar(&o.Launch, "launch-time", o.Launch, "what a host takes to launch one")
	f.DurationVar(&o.Life, "life", o.Life, "how long machines run, in the mean; 0: for ever")
	f.DurationVar(&o.Savings.After, "save-after", 0,
		"a host saves room for what has waited so long and fits none; 0: none does")
	f.DurationVar(&o.Savings.For, "save-for", o.Savings.For, "how long it saves at most")
	f.IntVar(&o.Savings.Share, "save-share", o.Savings.Share, "one host in so many saves at most")
	f.DurationVar(&o.Wait, "fetch-wait", o.Wait, "how long an open fetch is held")
	f.DurationVar(&o.Pace, "advice-pace", o.Pace, "how often a host looks at advice")
	f.DurationVar(&o.Beacon, "beacon", o.Beacon, "how often a host says that it lives")
	f.DurationVar(&o.Hop, "hop", o.Hop, "a message's way through the network")
	f.Float64Var(&o.Limits.Busy, "busy", o.Limits.Busy, "share of its processors that a broker or conductor may use")
	f.IntVar(
		&o.Limits.Handles,
		"handles",
		o.Limits.Handles,
		"files and connections that a broker may have open (LimitNOFILE)",
	)
	f.IntVar(&o.Limits.Partitions, "partitions-limit", o.Limits.Partitions, "replicas that a broker may have")
	f.DurationVar(
		&s.within,
		"within",
		10*time.Minute,
		"without --rate: cells are divided so that all is done in this time",
	)
	f.BoolVar(&s.cells, "cells", true, "find how many cells are needed")
	f.StringArrayVar(&s.costs, "cost", nil, "another cost, as NAME=TIME; "+costDefaults(o.Costs))
	f.Uint64Var(&o.Seed, "seed", o.Seed, "of all that is left to chance")
}

func costDefaults(c size.Costs) string {
	var parts []string
	for _, x := range c.Each() {
		parts = append(parts, x.Name+"="+x.At.String())
	}
	return strings.Join(parts, " ")
}

// complete reads the flags that are no plain numbers.
func (s *sizing) complete() error {
	weigher, err := compute.ParseWeigher(s.weigher)
	if err != nil {
		return err
	}
	s.o.Weigher = weigher
	pairs, err := cli.ParsePairs[string, string]("cost", s.costs)
	if err != nil {
		return err
	}
	for _, c := range s.o.Costs.Each() {
		text, given := pairs[c.Name]
		if delete(pairs, c.Name); !given {
			continue
		}
		if *c.At, err = time.ParseDuration(text); err != nil {
			return compute.Invalid("cost", c.Name+"="+text, "give a time, as in 80µs")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		return compute.Invalid("cost", name, "there are "+costDefaults(s.o.Costs))
	}
	if s.within <= 0 {
		return compute.Invalid("within", s.within.String(), "give a time above 0")
	}
	return s.o.Check()
}

func (s *sizing) run(cmd *cobra.Command) error {
	f, err := cli.ParseFormat(cmd.Flag("output").Value.String())
	if err != nil {
		return err
	}
	if err := s.complete(); err != nil {
		return err
	}
	out := sized{Options: s.settings()}
	say := telling(cmd.Context(), cmd.ErrOrStderr())
	if out.One, err = size.Run(s.o, say("one cell")); err == nil && s.cells {
		rate := s.o.Rate
		if rate == 0 {
			rate = float64(s.o.Requests) / s.within.Seconds()
		}
		var cells size.Cells
		cells, err = size.Divide(s.o, rate, say("dividing"))
		out.Cells = &cells
	}
	if ctx := cmd.Context(); err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return &compute.Error{Op: "sim size", Message: "was interrupted"}
	}
	if err != nil {
		return err
	}
	if f == cli.FormatJSON || f == cli.FormatYAML {
		return cli.PrintData(cmd.OutOrStdout(), f, out)
	}
	return printSized(cmd.OutOrStdout(), out)
}

func (s *sizing) settings() simOptions {
	o := s.o
	out := simOptions{
		Brokers: o.Brokers, Processors: o.Processors, Replication: o.Replication, Conductors: o.Conductors,
		Partitions: o.Partitions,
		Weigher:    s.weigher, Limits: o.Limits, Seed: o.Seed, CostsMS: map[string]float64{},
	}
	if o.Rate == 0 {
		out.Within = s.within.String()
	}
	for _, c := range o.Costs.Each() {
		out.CostsMS[c.Name] = float64(*c.At) / float64(time.Millisecond)
	}
	return out
}

// telling says how far a run is, a line each two seconds at most.
func telling(ctx context.Context, w io.Writer) func(string) func(size.Progress) error {
	var last time.Time
	return func(what string) func(size.Progress) error {
		return func(p size.Progress) error {
			if now := time.Now(); now.Sub(last) >= 2*time.Second {
				last = now
				fmt.Fprintf(
					w,
					"%s, %d hosts: %v simulated, %d of %d granted\n",
					what,
					p.Hosts,
					p.At.Round(100*time.Millisecond),
					p.Granted,
					p.Of,
				)
			}
			return ctx.Err()
		}
	}
}
