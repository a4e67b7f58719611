// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/lab/bench"
	"github.com/berth-project/berth/pkg/telemetry"
)

// NewBench measures a whole Berth in this process.
func NewBench() *cobra.Command { return benchOf(lab.Berth{}) }

// benchOf measures a product.
func benchOf(product lab.Product) *cobra.Command {
	o := bench.Options{Warmup: bench.WarmupAuto, Idle: bench.IdleAuto}.WithDefaults()
	var set []string
	var level string
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure it: boots at a given rate on simulated hosts, and how long each step took",
		Long: `bench starts a whole Berth in this process with simulated hosts, sends boots at a
given rate whatever becomes of them, and says how long each step took, counted
from when the boot was meant to be sent. Each agent has connections, a journal
that waits for the disk, a table of queues and a stream of its own. With --closed
boots wait for those before them; with --ramp the rate rises until it is too much.

It runs on an embedded broker, on the Kafka at --kafka HOST:PORT, or, with
--kafka local, on one that it starts itself (needs Java and Maven). All it makes
there has a prefix of its own and is deleted at the end.

With --apart API node, conductors, queue manager and agents have processes of their
own, and the result says what each took: the centre's cost is told from the agents'.

It exits 1 if anything was lost or doubled. docs/BENCH.md says what each
number means.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := prepareBench(cmd, &o, set, level); err != nil {
				return err
			}
			return runBench(cmd, o, product)
		},
	}
	brokerFlags(cmd, &o, &set, &level)
	loadFlags(cmd, &o)
	aloneFlags(cmd, &o)
	cmd.AddCommand(benchClassic(product), benchMix(product), benchSweep(product), benchPart(product))
	return cmd
}

// brokerFlags are of every bench: where it runs, and what is shown of that.
func brokerFlags(cmd *cobra.Command, o *bench.Options, set *[]string, level *string) {
	f := cmd.Flags()
	f.StringVar(
		level,
		"log",
		"error",
		"what of Berth's own log is shown: debug, info, warn or error; warnings are counted anyway",
	)
	f.StringVar(&o.Kafka, "kafka", "", "brokers as host:port, or \"local\" to start one; without it an embedded one")
	f.StringVar(&o.Heap, "kafka-heap", o.Heap, "memory of each broker of --kafka local")
	f.IntVar(
		&o.Replication,
		"replication",
		0,
		"brokers that keep each record, and that --kafka local starts; 0: the brokers' default, one of --kafka local",
	)
	f.StringArrayVar(set, "kafka-set", nil, "setting of the broker of --kafka local, as NAME=VALUE")
	f.StringVar(&o.Data, "data", "", "folder for journals and the local broker; a temporary one is made in it")
	f.DurationVar(&o.Stall, "stall", o.Stall, "when nothing has moved for so long, what is missing is lost")
}

// loadFlags say what is measured.
func loadFlags(cmd *cobra.Command, o *bench.Options) {
	f := cmd.Flags()
	f.IntVar(&o.Hosts, "hosts", o.Hosts, "simulated hosts; from 5 on, one in five has GPUs")
	f.BoolVar(&o.NoGPUs, "no-gpus", false, "no host has GPUs")
	f.IntVar(&o.HostSize, "host-size", 0, "machines a host has room for; 0: as many as the run needs")
	f.Float64Var(&o.Fill, "fill", 0, "how full hosts are in the end, as 0.9; sets the host size, and no host has GPUs")
	f.IntVar(&o.Slots, "slots", o.Slots, "builds that a host prepares at once")
	f.IntVar(&o.Conductors, "conductors", o.Conductors, "conductors that share the partitions")
	f.IntVar(&o.Queues, "queues", o.Queues, "queues that boots are spread over")
	f.Float64Var(&o.Skew, "skew", 0, "share of the boots that go to the first queue, as 0.8; 0: by lot like all others")
	f.IntVar(&o.Projects, "projects", o.Projects, "projects that boots are spread over")
	f.Int32Var(&o.Partitions, "partitions", o.Partitions, "of requests, reports and instances")
	f.StringVar((*string)(&o.Via), "via", string(o.Via), "how boots get in: http or kafka")
	f.Float64Var(&o.Rate, "rate", o.Rate, "boots a second")
	f.IntVar(&o.Count, "count", o.Count, "boots that are measured")
	f.IntVar(&o.Burst, "burst", o.Burst, "boots that are sent at once, at the same mean rate")
	f.IntVar(&o.Closed, "closed", 0, "boots in flight, each next one when one became active, instead of a rate")
	f.IntVar(&o.Warmup, "warmup", o.Warmup, "boots before the measured ones; -1: as many as make the broker warm")
	f.BoolVar(&o.OwnIDs, "own-ids", false, "choose the instances' ids, as callers do who may repeat a request")
	f.BoolVar(&o.Churn, "churn", false, "delete the oldest machines while booting, so that hosts stay 70 % full")
	f.BoolVar(&o.Floor, "floor", false, "also measure the same record work with nothing else, on the same broker")
	f.BoolVar(
		&o.Apart,
		"apart",
		false,
		"give API node, conductors, queue manager and agents processes of their own, and say what each takes",
	)
	f.IntVar(&o.HostsEach, "hosts-per-process", o.HostsEach, "hosts in each process of agents, with --apart")
	f.DurationVar(
		&o.Idle,
		"idle",
		o.Idle,
		"how long nothing is asked for before what is measured, to see what idle hosts cost; "+
			"-1s: 20s with --apart, else not at all",
	)
	f.DurationVar(&o.PrepareTime, "prepare-time", 0, "what a simulated host takes to prepare a machine")
	f.DurationVar(&o.LaunchTime, "launch-time", 0, "what a simulated host takes to launch a machine")
}

// aloneFlags are of a bench that is one run.
func aloneFlags(cmd *cobra.Command, o *bench.Options) {
	f := cmd.Flags()
	f.BoolVar(
		&o.Ramp,
		"ramp",
		false,
		"measure at --rate, then at rates half as high again each, until one does not keep up",
	)
	f.IntVar(&o.RampSteps, "ramp-steps", o.RampSteps, "rates of a ramp, at most")
	f.DurationVar(
		&o.RampP99,
		"ramp-p99",
		o.RampP99,
		"a ramp ends when more than one boot in a hundred takes longer until it is active",
	)
	f.StringVar(&o.Profile, "profile", "", "folder for profiles of the measured boots: processor time, memory, waits")
}

// prepareBench fills in what flags say only in words.
func prepareBench(cmd *cobra.Command, o *bench.Options, set []string, level string) (err error) {
	if o.Properties, err = cli.ParsePairs[string, string]("kafka-set", set); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.Self, o.Level = []string{self, "bench", partCommand}, level
	o.Say = cmd.ErrOrStderr()
	o.Log, err = telemetry.NewLogger(cmd.ErrOrStderr(), level, "console")
	return err
}

// runBench measures, prints, and says what was wrong.
func runBench(cmd *cobra.Command, o bench.Options, product lab.Product) error {
	f, err := cli.ParseFormat(cmd.Flag("output").Value.String())
	if err != nil {
		return err
	}
	if err := o.Check(); err != nil { // before what is left out takes its default
		return err
	}
	result, err := bench.Run(cmd.Context(), o, product)
	err = calledOff(cmd.Context(), err)
	if result.Boots == 0 {
		return err
	}
	return errors.Join(printResult(cmd.OutOrStdout(), f, result), wrongIn(result.Lost, result.Doubled, result.Wrong), err)
}

// calledOff says it in words when an error is the end of ctx.
func calledOff(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	if left, ok := errors.AsType[*bench.LeftError](err); ok {
		return &compute.Error{
			Op: "bench", Message: "was interrupted, and could not delete what it had made", Remedy: "delete that by hand",
			Cause: left,
		}
	}
	return &compute.Error{Op: "bench", Message: "was interrupted; what it had made is deleted"}
}

func printResult(w io.Writer, f cli.Format, r bench.Result) error {
	if f == cli.FormatJSON || f == cli.FormatYAML {
		return cli.PrintData(w, f, r)
	}
	return printBench(w, r)
}

// mostWrong is how many wrong things an error lists.
const mostWrong = 10

func wrongIn(lost, doubled int, wrong []string) error {
	if lost+doubled == 0 {
		return nil
	}
	some := wrong[:min(len(wrong), mostWrong)]
	more := ""
	if rest := len(wrong) - len(some); rest > 0 {
		more = fmt.Sprintf("\n  and %d more", rest)
	}
	return &compute.Error{
		Op:      "bench",
		Message: fmt.Sprintf("%d lost, %d doubled\n  %s%s", lost, doubled, strings.Join(some, "\n  "), more),
	}
}
