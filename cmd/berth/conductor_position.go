// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/loop"
)

// asideTrouble is what /readyz says of partitions that are set aside.
func asideTrouble(all []loop.Aside) (lines []string) {
	for _, a := range all {
		remedy := a.Remedy
		if strings.HasPrefix(remedy, "berth ") {
			remedy = fmt.Sprintf("run %q", remedy)
		}
		lines = append(lines, fmt.Sprintf("partition %d is set aside: %s; %s", a.Partition, a.Why, remedy))
	}
	return lines
}

// newResetPosition brings a partition back that conductors have set aside.
func newResetPosition() *cobra.Command {
	var at kafkaFlags
	var partition int32
	var to string
	var yes bool
	cmd := &cobra.Command{
		Use:   "reset-position --partition N [--to noticed|end|beginning] [--yes]",
		Short: "Bring back a partition that conductors have set aside",
		Long: `Bring back a partition that conductors have set aside, because its position lies behind the end
of requests or reports: records that had been decided are not there any more.

Without --yes it only says what it would do. It refuses to touch a partition that
conductors can go on with.

--to noticed    go on where the topics ended when a conductor noticed: nothing that came
                since is passed over, and nothing is decided twice
--to end        pass over all that is there now: requests among it stay "accepted" for ever
--to beginning  decide all again that the topics still have: boots, deletes and reports that
                were decided before change nothing, but old stops, starts and reboots may
                be given once more`,
		Example: "  berth conductor reset-position --partition 3 --config conductor.yaml\n" +
			"  berth conductor reset-position --partition 3 --kafka k1:9092 --yes",
		Args: cobra.NoArgs,
	}
	reset := at.runs("reset-position", func(ctx context.Context, c cell.Cell, w io.Writer, f cli.Format) error {
		return resetPosition(ctx, c.As(access.Conductor), w, f, partition, loop.ResetTo(to), yes)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("partition") || partition < 0 {
			remedy := "name it with --partition, as a conductor's log and /readyz do"
			return compute.Invalid("partition", strconv.Itoa(int(partition)), remedy)
		}
		if err := loop.ResetTo(to).Check(); err != nil {
			return err
		}
		return reset(cmd, args)
	}
	at.add(cmd, time.Minute)
	cmd.Flags().Int32Var(&partition, "partition", 0, "which partition of requests, reports and instances")
	cmd.Flags().StringVar(&to, "to", string(loop.ResetNoticed), "noticed, end or beginning")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it, and do not only say what would be done")
	return cmd
}

// positionReset is what the command says, one for each topic.
type positionReset struct {
	Topic    string `json:"topic"    yaml:"topic"`
	Position int64  `json:"position" yaml:"position"`
	Begins   int64  `json:"begins"   yaml:"begins"`
	End      int64  `json:"end"      yaml:"end"`
	Becomes  int64  `json:"becomes"  yaml:"becomes"`
	Done     bool   `json:"done"     yaml:"done"` // false: it is what --yes would do
}

func resetPosition(
	ctx context.Context, c cell.Cell, w io.Writer, f cli.Format, p int32, to loop.ResetTo, do bool,
) error {
	was, err := loop.PositionOf(ctx, c.Kafka, p)
	if err != nil {
		return err
	}
	becomes, err := was.Reset(to)
	if err != nil {
		return err
	}
	var rows []positionReset
	for i, in := range was.Inputs {
		rows = append(rows, positionReset{in.Topic, in.At, in.Begins, in.End, becomes.Inputs[i].At, do})
	}
	if do {
		if err := loop.ResetPosition(ctx, c.Kafka, becomes); err != nil {
			return err
		}
	}
	if err := resetSheet().List(w, f, rows); err != nil || f != cli.FormatTable && f != cli.FormatWide {
		return err
	}
	told := "Nothing was changed. Say --yes to do it."
	if do {
		told = "Done. A conductor takes the partition over within seconds."
	}
	_, err = fmt.Fprintln(w, told)
	return err
}

func resetSheet() cli.Sheet[positionReset] {
	number := func(of func(positionReset) int64) func(positionReset) string {
		return func(r positionReset) string { return strconv.FormatInt(of(r), 10) }
	}
	return cli.Sheet[positionReset]{
		Name: func(r positionReset) string { return r.Topic },
		Columns: []cli.Column[positionReset]{
			{Title: "TOPIC", Cell: func(r positionReset) string { return r.Topic }},
			{Title: "POSITION", Right: true, Cell: number(func(r positionReset) int64 { return r.Position })},
			{Title: "BEGINS", Right: true, Cell: number(func(r positionReset) int64 { return r.Begins })},
			{Title: "ENDS", Right: true, Cell: number(func(r positionReset) int64 { return r.End })},
			{Title: "BECOMES", Right: true, Cell: number(func(r positionReset) int64 { return r.Becomes })},
		},
	}
}
