// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/lab/bench"
)

// benchClassic repeats a published experiment.
func benchClassic(product lab.Product) *cobra.Command {
	o := bench.Options{Warmup: bench.WarmupAuto, Hosts: 1000, Queues: 1}.WithDefaults()
	o.Count = 0
	var set []string
	var level string
	cmd := &cobra.Command{
		Use:   "classic",
		Short: "Repeat the shared-state schedulers' evaluation: how many boots must be tried again",
		Long: `classic sends 31 boots at once to 3 hosts, with 1 and with 4 conductors, and then
boots at --rate to --hosts hosts, with 1, 2 and 4 conductors. Each time the boots
fill nine tenths of what the hosts have, and each time on a cell of its own. It
says how many had to be tried again, what was prepared in vain and how long each
step took, next to what was published of schedulers that share their state.

It exits 1 if anything was lost or doubled. docs/BENCH.md says what each
number means.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := prepareBench(cmd, &o, set, level); err != nil {
				return err
			}
			return runClassic(cmd, o, product)
		},
	}
	brokerFlags(cmd, &o, &set, &level)
	f := cmd.Flags()
	f.IntVar(&o.Hosts, "hosts", o.Hosts, "simulated hosts of the runs with many")
	f.IntVar(&o.Count, "count", 0, "boots of the runs with many hosts; 0: nine for each host")
	f.Float64Var(&o.Rate, "rate", o.Rate, "boots a second of the runs with many hosts, and of all warm-ups")
	f.IntVar(
		&o.Warmup,
		"warmup",
		o.Warmup,
		"boots before the measured ones of each run; -1: as many as make the broker warm",
	)
	f.IntVar(&o.Queues, "queues", o.Queues, "queues that boots are spread over")
	return cmd
}

// classic is what the experiment found.
type classic struct {
	Runs      []bench.Result    `json:"runs"`
	Published []bench.Published `json:"published"`
}

func runClassic(cmd *cobra.Command, o bench.Options, product lab.Product) error {
	f, err := cli.ParseFormat(cmd.Flag("output").Value.String())
	if err != nil {
		return err
	}
	results, err := bench.RunAll(cmd.Context(), bench.Classic(o), product)
	err = calledOff(cmd.Context(), err)
	if len(results) == 0 {
		return err
	}
	found := classic{results, bench.ClassicPublished()}
	errs := []error{err}
	for _, r := range results {
		errs = append(errs, wrongIn(r.Lost, r.Doubled, r.Wrong))
	}
	if f == cli.FormatJSON || f == cli.FormatYAML {
		errs = append(errs, cli.PrintData(cmd.OutOrStdout(), f, found))
	} else {
		errs = append(errs, printClassic(cmd.OutOrStdout(), found))
	}
	return errors.Join(errs...)
}

// printClassic shows what was measured, and below it what was published.
func printClassic(w io.Writer, c classic) error {
	g := cli.Grid{Right: []bool{true, true, true, true, true, true, true, true, true, true, true, true}}
	g.Rows = append(
		g.Rows,
		[]string{
			"HOSTS",
			"BOOTS",
			"CONDUCTORS",
			"FILL",
			"RETRIES",
			"OF BOOTS",
			"WASTED",
			"ACCEPT",
			"QUEUED",
			"GRANTED",
			"ACTIVE",
			"LOST, DOUBLED",
		},
	)
	stage := func(q bench.Quantiles) string { return ms(q.P50) + " / " + ms(q.P99) }
	for _, r := range c.Runs {
		g.Rows = append(g.Rows, []string{
			fmt.Sprint(r.Hosts), fmt.Sprint(r.Boots), fmt.Sprint(r.Settings.Conductors), percent(r.Fill),
			fmt.Sprint(r.Retries), percent(float64(r.Retries) / float64(max(r.Boots, 1))), fmt.Sprint(r.Wasted),
			stage(r.AcceptMS), stage(r.QueuedMS), stage(r.GrantedMS), stage(r.ActiveMS),
			fmt.Sprintf("%d, %d", r.Lost, r.Doubled),
		})
	}
	fmt.Fprintf(
		w,
		"\nBerth: retries are claims denied, records released and attempts above 1; steps are p50 / p99 in ms "+
			"from when a boot was due\n\n",
	)
	if err := g.Print(w); err != nil {
		return err
	}
	p := cli.Grid{Right: []bool{false, true, true, true, true, true}}
	p.Rows = append(p.Rows, []string{"PUBLISHED", "SCHEDULERS", "REQUESTS", "RETRIES", "OF REQUESTS", "MS BLOCKED"})
	for _, x := range c.Published {
		schedulers, blocked := "", fmt.Sprint(x.BlockedMS[0])
		if x.Schedulers > 0 {
			schedulers = fmt.Sprint(x.Schedulers)
		}
		if x.BlockedMS[1] > x.BlockedMS[0] {
			blocked += fmt.Sprintf("–%v", x.BlockedMS[1])
		}
		p.Rows = append(
			p.Rows,
			[]string{x.Design, schedulers, fmt.Sprint(x.Requests), fmt.Sprint(x.Retries), percent(x.Retried), blocked},
		)
	}
	fmt.Fprintf(
		w,
		"\nPublished of schedulers that share their state, 31 requests for 3 hosts; on other machines "+
			"under another load, so shares compare and milliseconds do not:\n\n",
	)
	return p.Print(w)
}

// percent is a share as people write it.
func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
