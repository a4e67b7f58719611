// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/lab/bench"
)

// benchSweep measures how something grows.
func benchSweep(product lab.Product) *cobra.Command {
	o := bench.Options{Warmup: bench.WarmupAuto, Idle: bench.IdleAuto}.WithDefaults()
	var set []string
	var level, vary string
	repeat := 1
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Measure several values of one thing: how cost and time grow with it",
		Long: `sweep runs the bench for each value of one thing, everything else as its flags say,
each time on a cell of its own (with --kafka local on a Kafka of its own), and shows
a row for each value. With --repeat each is measured more than once, in turns, and
the row shows the medians; what was lost or doubled is added up.

All values are checked before the first is measured. It exits 1 if anything was lost
or doubled. docs/BENCH.md says what each number means, and how to draw them.`,
		Example: "berth bench sweep --vary hosts=10,100,1000 --repeat 3 -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := prepareBench(cmd, &o, set, level); err != nil {
				return err
			}
			sweep, err := bench.ParseSweep(vary, repeat)
			if err != nil {
				return err
			}
			if f := cmd.Flag(sweep.Vary); f.Changed {
				return compute.Invalid(sweep.Vary, f.Value.String(), "leave it out: --vary has the values")
			}
			return runSweep(cmd, sweep, o, product)
		},
	}
	brokerFlags(cmd, &o, &set, &level)
	loadFlags(cmd, &o)
	f := cmd.Flags()
	f.StringVar(&vary, "vary", "", "what to vary, as hosts=10,100,1000; one of "+strings.Join(bench.Sweepable(), ", "))
	f.IntVar(&repeat, "repeat", repeat, "how often each value is measured")
	return cmd
}

// swept is what a sweep found: all its runs, in the order in which they were.
type swept struct {
	Vary string           `json:"vary"`
	Runs []bench.Measured `json:"runs"`
}

func runSweep(cmd *cobra.Command, sweep bench.Sweep, o bench.Options, product lab.Product) error {
	f, err := cli.ParseFormat(cmd.Flag("output").Value.String())
	if err != nil {
		return err
	}
	measured, err := sweep.Run(cmd.Context(), o, product)
	err = calledOff(cmd.Context(), err)
	if len(measured) == 0 {
		return err
	}
	errs := []error{err}
	for _, m := range measured {
		if wrong := wrongIn(m.Result.Lost, m.Result.Doubled, m.Result.Wrong); wrong != nil {
			errs = append(errs, fmt.Errorf("%s %v: %w", sweep.Vary, m.Value, wrong))
		}
	}
	if f == cli.FormatJSON || f == cli.FormatYAML {
		errs = append(errs, cli.PrintData(cmd.OutOrStdout(), f, swept{sweep.Vary, measured}))
	} else {
		errs = append(errs, printSweep(cmd.OutOrStdout(), sweep, measured))
	}
	return errors.Join(errs...)
}

// printSweep shows a row for each value.
func printSweep(w io.Writer, sweep bench.Sweep, measured []bench.Measured) error {
	rows := sweep.Rows(measured)
	heads := []string{
		strings.ToUpper(sweep.Vary), "RUNS", "BOOTS/S", "P50", "P99", "ACTIVE P99", "CPU MS/BOOT", "OURS", "MISSING S",
		"REQUESTS/BOOT", "KB/BOOT", "CONNECTIONS", "RETRIES", "NOT ACTIVE", "LOST", "DOUBLED",
	}
	withFloor, apart := measured[0].Result.Floor != nil, measured[0].Result.Settings.Apart
	if apart {
		heads = append(heads, "CENTRE MS/BOOT")
	}
	if withFloor {
		heads = append(heads, "FLOOR P50", "P99")
	}
	g := cli.Grid{Rows: [][]string{heads}}
	for range heads {
		g.Right = append(g.Right, true)
	}
	for _, r := range rows {
		cells := []string{
			r.Text, fmt.Sprint(r.Runs), fmt.Sprintf("%.1f", r.BootsPerS), ms(r.P50), ms(r.P99), ms(r.ActiveP99),
			ms(r.CPUMS), ms(r.OursMS),
			fmt.Sprintf(
				"%.1f",
				r.MissingS,
			),
			fmt.Sprintf("%.1f", r.Requests), fmt.Sprintf("%.1f", r.KB), fmt.Sprintf("%.0f", r.Connections),
			fmt.Sprint(r.Retries), fmt.Sprint(r.NotActive), fmt.Sprint(r.Lost), fmt.Sprint(r.Doubled),
		}
		if apart {
			cells = append(cells, ms(r.CentreMS))
		}
		if withFloor {
			cells = append(cells, ms(r.FloorP50), ms(r.FloorP99))
		}
		g.Rows = append(g.Rows, cells)
	}
	fmt.Fprint(w, `
Medians of the runs of a value. P50 and P99 are accepted→granted in ms, ACTIVE P99 from when a boot was due until it
ran. CPU is the brokers' and OURS, which has the bench in it (and an embedded broker); MISSING is what went to other
processes or was not given to this virtual machine. RETRIES to DOUBLED are sums.

`)
	return g.Print(w)
}
