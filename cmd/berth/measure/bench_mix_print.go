// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/lab/bench"
	"github.com/berth-project/berth/pkg/lab/bench/mixed"
)

func printMixes(w io.Writer, m mixes) error {
	for _, r := range m.Runs {
		if err := printMix(w, r); err != nil {
			return err
		}
	}
	return nil
}

// printMix shows how long boots of each kind waited, and how full hosts were.
func printMix(w io.Writer, r bench.MixResult) error {
	l := r.Load
	fmt.Fprintf(w, "\n%d boots, %v/s, that live for %vs, on %d hosts with %d processors; %s\n\n",
		r.All.Boots, l.Rate, l.LifeS, l.Hosts, l.HostSize, savingOf(l))
	g := cli.Grid{Right: []bool{false, true, true, true, true, true, true, true}}
	g.Rows = append(g.Rows, []string{"SECONDS TO GRANTED", "BOOTS", "P50", "P90", "P99", "MAX", "WAITING", "OLDEST"})
	row := func(name string, r mixed.Row) {
		oldest := "-"
		if r.Waiting > 0 {
			oldest = seconds(r.Oldest)
		}
		cells := []string{name, fmt.Sprint(r.Boots)}
		for _, s := range []float64{r.P50, r.P90, r.P99, r.Max} {
			if r.Boots == 0 {
				cells = append(cells, "-") // all that there were came in the warm-up
				continue
			}
			cells = append(cells, seconds(s))
		}
		g.Rows = append(g.Rows, append(cells, fmt.Sprint(r.Waiting), oldest))
	}
	for _, x := range r.Sizes {
		row(processors(x.Size), x)
	}
	if len(r.Classes) > 1 {
		for _, x := range r.Each {
			row(processors(x.Size)+", "+x.Priority, x)
		}
		for _, x := range r.Classes {
			row(x.Priority, x)
		}
	}
	if r.Members != nil {
		row("members of groups", *r.Members)
		row("in no group", *r.Alone)
	}
	row("all", r.All)
	if err := g.Print(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return mixFacts(r).Print(w)
}

func processors(n int) string {
	if n == 1 {
		return "1 processor"
	}
	return fmt.Sprintf("%d processors", n)
}

func savingOf(l bench.MixSettings) string {
	if l.SaveAfterS == 0 {
		return "none saves room"
	}
	return fmt.Sprintf("one in %d saves room after %vs, for %vs", l.SaveShare, l.SaveAfterS, l.SaveForS)
}

// mixFacts are the numbers that are no waits.
func mixFacts(r bench.MixResult) cli.Grid {
	var g cli.Grid
	add := func(name, format string, args ...any) {
		g.Rows = append(g.Rows, []string{name, fmt.Sprintf(format, args...)})
	}
	add("fill:", "%s in the mean, a tenth of the time %s or less; %s in the mean if none had waited",
		percent(r.Fill.Mean), percent(r.Fill.P10), percent(r.Offered.Mean))
	s := r.Savings
	add("savings:", "%.1f hosts in the mean; %d ended with the work taken, %d in vain, %d for other reasons",
		s.Hosts, s.Taken, s.InVain, s.Other)
	add("outcome:", "%d boots in all: %d error, %d refused, %d lost, %d doubled",
		r.Boots, r.Error, r.Refused, r.Lost, r.Doubled)
	add("retries:", "%d denied, %d released; %d machines prepared in vain", r.Denied, r.Released, r.Wasted)
	add("cpu:", "%s", cpu(r.CPU.Share, r.All.Boots))
	for _, said := range slices.Sorted(maps.Keys(r.Warnings)) {
		add("warnings:", "%d × %s", r.Warnings[said], said)
	}
	add("load:", "seed %d, %v s after a warm-up of %v s; %v high, %v low, %v in groups of %d; %d projects",
		r.Load.Seed, r.Load.ForS, r.Load.WarmupS, r.Load.High, r.Load.Low, r.Load.Grouped, r.Load.GroupOf, r.Load.Projects)
	add("machine:", "%d × %s, %s, Linux %s", r.Machine.Cores, r.Machine.CPU, cli.InUnits(r.Machine.Memory>>20),
		r.Machine.Kernel)
	add("versions:", "berth %s, %s, Kafka %s (%s)", r.Versions.Berth, r.Versions.Go, r.Versions.Kafka, r.Load.Kafka)
	return g
}

// seconds are shown as exact as they are long.
func seconds(s float64) string {
	switch {
	case s >= 100:
		return fmt.Sprintf("%.0f", s)
	case s >= 10:
		return fmt.Sprintf("%.1f", s)
	}
	return fmt.Sprintf("%.2f", s)
}
