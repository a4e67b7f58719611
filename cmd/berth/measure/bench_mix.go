// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/lab/bench"
	"github.com/berth-project/berth/pkg/lab/bench/mixed"
	"github.com/berth-project/berth/queues/save"
)

// mixing is what the flags of `berth bench mix` say.
type mixing struct {
	o          bench.Options
	set        []string
	level      string
	load       mixed.Load
	savings    save.Rules
	after      []time.Duration // several play the same load in turn
	priorities []string
}

// benchMix measures a mixed load.
func benchMix(product lab.Product) *cobra.Command {
	m := mixing{o: bench.Options{}.WithDefaults(), load: mixed.DefaultLoad(), savings: save.DefaultRules()}
	cmd := &cobra.Command{
		Use:   "mix",
		Short: "Measure a mixed load on full hosts: how long machines of each size and class wait, and how full hosts are",
		Long: `mix fills --hosts hosts of --host-size processors with machines of --sizes processors,
as many of each size in the mean. Each lives for --life in the mean, from its start on,
and is then deleted. Boots come by chance, as a Poisson process, so many that they would
fill the hosts to --fill if none had to wait. Some have another class of priority, and some
are members of anti-affinity groups, which come at once and need a host each.

What came in --for is measured, after --warmup-lives lives that fill the hosts. Then all
machines are deleted, so that what still waits has its turn. Several --save-after, as in
0s,30s, play the same load in turn, each on a cell of its own.

It exits 1 if anything was lost or doubled. docs/BENCH.md says what each
number means.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return m.run(cmd, product) },
	}
	m.flags(cmd)
	return cmd
}

func (m *mixing) flags(cmd *cobra.Command) {
	brokerFlags(cmd, &m.o, &m.set, &m.level)
	f, l := cmd.Flags(), &m.load
	f.IntVar(&l.Hosts, "hosts", l.Hosts, "simulated hosts, all alike and without GPUs")
	f.IntVar(&l.HostSize, "host-size", l.HostSize, "processors of each host")
	f.IntSliceVar(&l.Sizes, "sizes", l.Sizes, "processors of machines; as many boots of each in the mean")
	f.DurationVar(&l.Life, "life", l.Life, "how long machines run, in the mean of an exponential distribution")
	f.Float64Var(&l.Fill, "fill", l.Fill, "how full hosts would be in the mean if nothing had to wait: gives the rate")
	f.StringSliceVar(&m.priorities, "priorities", []string{"high=0.1", "low=0.1"},
		"shares of the boots that have another class than normal, as CLASS=SHARE; high=0: none")
	f.Float64Var(&l.Grouped, "grouped", l.Grouped, "share of the boots that are members of anti-affinity groups")
	f.IntVar(&l.GroupOf, "group-of", l.GroupOf, "members of a group")
	f.IntVar(&l.Projects, "projects", l.Projects, "projects that boots are spread over by lot")
	f.Float64Var(&l.Warmup, "warmup-lives", l.Warmup, "lives until what is measured begins")
	f.DurationVar(&l.For, "for", l.For, "how long is measured")
	f.Uint64Var(&l.Seed, "seed", l.Seed, "of when which boots come and how long their machines live")
	f.DurationSliceVar(&m.after, "save-after", []time.Duration{m.savings.After},
		"hosts save room for what has waited so long and fits none (save.after); 0s: none does; several play in turn")
	f.DurationVar(&m.savings.For, "save-for", m.savings.For, "how long a host saves at most (save.for)")
	f.IntVar(&m.savings.Share, "save-share", m.savings.Share, "one host in so many saves at most (save.share)")
	f.IntVar(&m.o.Slots, "slots", m.o.Slots, "builds that a host prepares at once")
	f.IntVar(&m.o.Conductors, "conductors", m.o.Conductors, "conductors that share the partitions")
	f.Int32Var(&m.o.Partitions, "partitions", m.o.Partitions, "of requests, reports and instances")
	f.DurationVar(&m.o.PrepareTime, "prepare-time", 0, "what a simulated host takes to prepare a machine")
	f.DurationVar(&m.o.LaunchTime, "launch-time", 0, "what a simulated host takes to launch a machine")
}

// mixes is what the runs found.
type mixes struct {
	Runs []bench.MixResult `json:"runs"`
}

func (m *mixing) run(cmd *cobra.Command, product lab.Product) error {
	f, err := cli.ParseFormat(cmd.Flag("output").Value.String())
	if err != nil {
		return err
	}
	runs, err := m.complete(cmd)
	if err != nil {
		return err
	}
	found, err := m.play(cmd.Context(), runs, product)
	if len(found.Runs) == 0 {
		return err
	}
	errs := []error{err}
	for _, r := range found.Runs {
		errs = append(errs, wrongIn(r.Lost, r.Doubled, r.Wrong))
	}
	if f == cli.FormatJSON || f == cli.FormatYAML {
		errs = append(errs, cli.PrintData(cmd.OutOrStdout(), f, found))
	} else {
		errs = append(errs, printMixes(cmd.OutOrStdout(), found))
	}
	return errors.Join(errs...)
}

// complete reads the flags that are no plain numbers, and checks all runs before the first begins.
func (m *mixing) complete(cmd *cobra.Command) ([]bench.Mix, error) {
	if err := prepareBench(cmd, &m.o, m.set, m.level); err != nil {
		return nil, err
	}
	var err error
	if m.load.High, m.load.Low, err = shares(m.priorities); err != nil {
		return nil, err
	}
	var runs []bench.Mix
	for _, after := range m.after {
		s := m.savings
		s.After = after
		run := bench.Mix{Load: m.load, Savings: s}
		if err := run.Check(); err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// shares reads what of the boots is of high and low priority.
func shares(priorities []string) (high, low float64, err error) {
	pairs, err := cli.ParsePairs[string, string]("priorities", priorities)
	if err != nil {
		return 0, 0, err
	}
	for _, class := range slices.Sorted(maps.Keys(pairs)) {
		share, err := strconv.ParseFloat(pairs[class], 64)
		switch {
		case err != nil:
			return 0, 0, compute.Invalid("priorities", class+"="+pairs[class], "give a share, as in high=0.1")
		case class == compute.PriorityHigh.String():
			high = share
		case class == compute.PriorityLow.String():
			low = share
		default:
			return 0, 0, compute.Invalid("priorities", class, "give high and low; the others are normal")
		}
	}
	return high, low, nil
}

// play measures one after the other, and answers those that came to their end.
func (m *mixing) play(ctx context.Context, runs []bench.Mix, product lab.Product) (found mixes, err error) {
	for _, run := range runs {
		o := m.o
		if len(runs) > 1 {
			o.Title = fmt.Sprintf("save-after %s", run.Savings.After)
		}
		r, err := bench.RunMix(ctx, o, run, product)
		if err != nil {
			return found, calledOff(ctx, err)
		}
		found.Runs = append(found.Runs, r)
	}
	return found, nil
}
