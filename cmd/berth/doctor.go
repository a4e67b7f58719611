// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/doctor"
	"github.com/berth-project/berth/pkg/kafka/access"
)

// errUnwell is the error of a doctor that has printed what fails.
var errUnwell = errors.New("something fails: see above")

func newDoctor() *cobra.Command {
	var at kafkaFlags
	var text string
	var heap int64
	cmd := &cobra.Command{
		Use:   "doctor [--kafka HOST:PORT,… | --config FILE]",
		Short: "Examine Kafka and the cell on it, and say what to do",
		Long: `Look at the brokers, their settings, the cell's topics, the share state of every queue, and
whether conductors, queue managers and hosts are there. It changes nothing.

On brokers with ACLs it needs a Kafka user of the role operator. With a daemon's file it says
what that daemon's user may see, and what is not known.

FAIL: something does not work, or what was acknowledged can be lost. warn: it works, and
slower or with less reserve than it should. It exits with 1 if anything fails.`,
		Example: "  berth doctor --config api.yaml\n  berth doctor --kafka k1:9092 -o json",
		Args:    cobra.NoArgs,
		RunE: at.runs("doctor", func(ctx context.Context, c cell.Cell, w io.Writer, f cli.Format) error {
			c = c.As(access.Operator)
			facts, err := c.Facts(ctx)
			if err != nil {
				return err
			}
			facts.Heap, facts.Trust, facts.Publish, facts.Audit.Kept = heap, at.trust, at.publish, at.audit
			facts.UserData, facts.Certificate = at.userData, at.shown
			return printDoctor(w, f, facts)
		}),
	}
	cmd.PreRunE = func(*cobra.Command, []string) (err error) { // before Kafka is asked
		if text != "" {
			heap, err = cli.ParseMemory("broker-heap", text)
		}
		return err
	}
	cmd.Flags().StringVar(&text, "broker-heap", "", "the heap of each broker (-Xmx), as in 4GiB: no broker tells it")
	at.add(cmd, time.Minute)
	return cmd
}

// report is what a doctor says, as data.
type report struct {
	Healthy  bool             `json:"healthy"`
	Kafka    reportKafka      `json:"kafka"`
	Findings []doctor.Finding `json:"findings"`
}

type reportKafka struct {
	Cluster    string         `json:"cluster"`
	Controller int32          `json:"controller"`
	Brokers    []reportBroker `json:"brokers"`
}

type reportBroker struct {
	ID      int32  `json:"id"`
	Address string `json:"address"`
	Rack    string `json:"rack,omitempty"`
	Version string `json:"version"`
}

func reportOf(f doctor.Facts) report {
	findings := doctor.Examine(f)
	r := report{
		Healthy: doctor.Healthy(findings), Findings: findings,
		Kafka: reportKafka{Cluster: f.Cluster.ID, Controller: f.Cluster.Controller, Brokers: []reportBroker{}},
	}
	for _, b := range f.Cluster.Brokers {
		r.Kafka.Brokers = append(r.Kafka.Brokers, reportBroker{b.ID, b.Address, b.Rack, b.Version})
	}
	return r
}

// printDoctor writes what was found; the error says that something fails.
func printDoctor(w io.Writer, f cli.Format, facts doctor.Facts) error {
	r := reportOf(facts)
	var err error
	if f == cli.FormatJSON || f == cli.FormatYAML {
		err = cli.PrintData(w, f, r)
	} else {
		err = r.print(w, facts)
	}
	if err == nil && !r.Healthy {
		err = errUnwell
	}
	return err
}

// print writes what fails, then the warnings, each with what to do, then in one
// table what is well.
func (r report) print(w io.Writer, facts doctor.Facts) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Cell %s on Kafka %s: %s\n\n", cli.OrDash(facts.Topics.Prefix), r.Kafka.Cluster, r.brokers())
	var counts = map[doctor.Level]int{}
	well := cli.Grid{Rows: [][]string{{"", "WHAT", "CHECK", "IS", "WANTED"}}}
	at := map[string]int{}
	for _, f := range r.Findings {
		counts[f.Level]++
		if f.Level != doctor.OK {
			fmt.Fprintf(&b, "%s  %s: %s is %s, wanted %s\n", f.Level, f.About, f.Check, cli.OrDash(f.Is), f.Wanted)
			fmt.Fprintf(&b, "      %s\n      → %s\n", f.Why, f.Fix)
			continue
		}
		same := f.Check + "\x00" + f.Is + "\x00" + f.Wanted
		if i, seen := at[same]; seen {
			well.Rows[i][1] += ", " + f.About
			continue
		}
		at[same] = len(well.Rows)
		well.Rows = append(well.Rows, []string{"ok", f.About, f.Check, cli.OrDash(f.Is), f.Wanted})
	}
	if counts[doctor.Fail]+counts[doctor.Warn] > 0 {
		b.WriteString("\n")
	}
	for _, row := range well.Rows[1:] {
		row[1] = together(strings.Split(row[1], ", "))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	if err := well.Print(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(
		w,
		"\n%d fail, %d warnings, %d ok\n",
		counts[doctor.Fail],
		counts[doctor.Warn],
		counts[doctor.OK],
	)
	return err
}

// brokers is the cluster in one line.
func (r report) brokers() string {
	var each []string
	for _, b := range r.Kafka.Brokers {
		each = append(each, fmt.Sprintf("%d %s (%s)", b.ID, b.Address, cli.OrDash(b.Version)))
	}
	leader := ""
	if r.Kafka.Controller >= 0 {
		leader = fmt.Sprintf("; controller %d", r.Kafka.Controller)
	}
	return fmt.Sprintf("%d brokers%s: %s", len(each), leader, strings.Join(each, ", "))
}

// together names things of one kind once: "broker 1, 2, 3".
func together(all []string) string {
	kind, _, _ := strings.Cut(all[0], " ")
	out := all[0]
	for i, name := range all[1:] {
		k, rest, _ := strings.Cut(name, " ")
		if i == 2 && len(all) > 4 {
			return fmt.Sprintf("%s, … (%d)", out, len(all))
		}
		if k == kind && rest != "" {
			name = rest
		}
		kind, out = k, out+", "+name
	}
	return out
}
