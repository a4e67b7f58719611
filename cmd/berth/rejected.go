// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/rejected"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// rejectedFlags say which rejections are shown.
type rejectedFlags struct {
	kafka                kafkaFlags
	follow               bool
	reason, topic, since string
	limit                int
}

func newRejected() *cobra.Command {
	var o rejectedFlags
	cmd := &cobra.Command{
		Use:   "rejected [--kafka HOST:PORT,… | --config FILE] [-f]",
		Short: "Show which records made no sense, or were not believed",
		Long: `Read the topic rejected from Kafka, with an operator's rights there: what conductors, queue managers and agents
could not read, or did not believe, and why. It shows where the record is (topic, partition and offset) and whose it
says that it is, and nothing else of what is in it: PROJECT is the key of a request or report, HOST that of a beacon or
the host that the reason names. Whoever wrote the record may have made them up.

docs/OPERATIONS.md (Records that were refused) says what the reasons mean. berth rejected list and show ask an API node
instead, and need no rights on Kafka.`,
		Example: "  berth rejected --config operator.yaml --since 1h\n" +
			"  berth rejected --kafka k1:9092 -f --reason Forged\n" +
			"  berth rejected --kafka k1:9092 --topic requests -o json",
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.follow, "follow", "f", false, "go on with what comes")
	flags.StringVar(&o.reason, "reason", "", "for this reason alone, as in Forged")
	flags.StringVar(&o.topic, "topic", "", "from this topic alone, as in requests or host.rack1-07")
	flags.StringVar(&o.since, "since", "1d", "no older than this, as in 7d or 1h")
	flags.IntVar(&o.limit, "limit", 1000, "without -f: the last of them, at most so many")
	o.kafka.add(cmd, time.Minute)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		since, err := window(time.Now(), o.since, o.limit)
		if err != nil {
			return err
		}
		return o.kafka.runs("rejected", func(ctx context.Context, c cell.Cell, w io.Writer, f cli.Format) error {
			c = c.As(access.Operator)
			if o.follow { // as long as somebody looks
				return c.ReadRejected(cmd.Context(), since, true, o.printing(c.Topics(), w, cmd.ErrOrStderr(), f))
			}
			return o.list(ctx, c, since, w, cmd.ErrOrStderr(), f)
		})(cmd, args)
	}
	cmd.AddCommand(newRejectedList(), newRejectedShow())
	return cmd
}

func newRejectedList() *cobra.Command {
	var f client.RejectedFilter
	var since, reason string
	var limit int
	cmd := &cobra.Command{
		Use:   "list [-A]",
		Short: "List which requests of a project were refused, as an API node shows it",
		Long: `List the requests that name the project and were refused, oldest first: where each is, why, and, with berth
rejected show, what to do about it. With --all-projects operators see everything that was refused, of whatever topic.`,
		Example: "  berth rejected list --since 1h\n  berth rejected list -A --reason Forged -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if f.Since, err = window(time.Now(), since, limit); err != nil {
				return err
			}
			f.Reason = compute.ReasonCode(reason)
			out, all, err := askRejected(cmd, f, limit)
			if err != nil && len(all) == 0 {
				return err
			}
			slices.Reverse(all)
			return errors.Join(err, printAll(cmd.OutOrStdout(), out, rejectedSheet(), all, "No record was refused."))
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.AllProjects, "all-projects", "A", false, "everything; for operators")
	flags.StringVar(&reason, "reason", "", "for this reason alone, as in Malformed")
	flags.StringVar(&f.Topic, "topic", "", "from this topic alone, as in requests or host.rack1-07")
	flags.StringVar(&since, "since", "1d", "no older than this, as in 7d or 1h")
	flags.IntVar(&limit, "limit", 1000, "the last of them, at most so many")
	return cmd
}

func newRejectedShow() *cobra.Command {
	var f client.RejectedFilter
	cmd := &cobra.Command{
		Use:     "show TOPIC/PARTITION/OFFSET",
		Short:   "Show why a record was refused, and what to do",
		Example: "  berth rejected show requests/3/41",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Record = args[0]
			out, all, err := askRejected(cmd, f, 1)
			switch {
			case err != nil:
				return err
			case len(all) == 0:
				return compute.NotFound("record", args[0], "berth rejected list shows those that were refused in 14 days")
			case out == cli.FormatTable || out == cli.FormatWide:
				return rejectedDetails(all[0]).Print(cmd.OutOrStdout())
			}
			return printOne(cmd.OutOrStdout(), out, rejectedSheet(), all[0])
		},
	}
	cmd.Flags().BoolVarP(&f.AllProjects, "all-projects", "A", false, "of whomever; for operators")
	return cmd
}

// askRejected has an API node show what was refused, the newest first.
func askRejected(cmd *cobra.Command, f client.RejectedFilter, most int) (cli.Format, []rest.Rejected, error) {
	out, err := cli.ParseFormat(cmd.Flag("output").Value.String())
	if err != nil {
		return out, nil, err
	}
	c, err := cli.Dial(cmd)
	if err != nil {
		return out, nil, err
	}
	defer c.Close()
	all, err := c.Rejected(cmd.Context(), f, most)
	return out, all, err
}

// rejectedDetails are the lines of one.
func rejectedDetails(v rest.Rejected) cli.Grid {
	var g cli.Grid
	for _, d := range [][2]string{
		{"Record", v.Record}, {"At", cli.ShownTime(v.At)}, {"Reason", string(v.Reason)}, {"Why", v.Detail},
		{"Project", string(v.Project)}, {"Host", string(v.Host)}, {"You can", v.Remedy},
	} {
		if d[1] != "" {
			g.Rows = append(g.Rows, []string{d[0] + ":", cli.Printable(d[1])})
		}
	}
	return g
}

func (o rejectedFlags) wants(v rest.Rejected) bool {
	return (o.reason == "" || strings.EqualFold(o.reason, string(v.Reason))) && (o.topic == "" || o.topic == v.Topic)
}

// list prints the last rejections that are wanted. Those of several partitions are put in the order of their times.
func (o rejectedFlags) list(ctx context.Context, c cell.Cell, since time.Time, w, notes io.Writer, f cli.Format) error {
	last := newTail(o.limit, func(a, b rest.Rejected) int { return a.At.Compare(b.At) })
	err := c.ReadRejected(ctx, since, false, func(j compute.Rejected, err error) error {
		v := rejected.Show(c.Topics(), j)
		switch {
		case err != nil:
			return unreadable(notes, err)
		case o.wants(v):
			last.add(v)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return printAll(w, f, rejectedSheet(), last.cut(), "No record was refused.")
}

// printing prints each rejection that is wanted as it comes.
func (o rejectedFlags) printing(
	t wire.Topics, w, notes io.Writer, f cli.Format,
) func(compute.Rejected, error) error {
	return func(j compute.Rejected, err error) error {
		if err != nil {
			return unreadable(notes, err)
		}
		v := rejected.Show(t, j)
		if !o.wants(v) {
			return nil
		}
		return printOne(w, f, rejectedSheet(), v)
	}
}

func rejectedSheet() cli.Sheet[rest.Rejected] {
	return cli.Sheet[rest.Rejected]{
		Name: func(v rest.Rejected) string { return v.Record },
		Columns: []cli.Column[rest.Rejected]{
			{Title: "AT", Cell: func(v rest.Rejected) string { return cli.ShownTime(v.At) }},
			{Title: "TOPIC", Cell: func(v rest.Rejected) string { return v.Topic }},
			{Title: "PARTITION", Cell: func(v rest.Rejected) string { return fmt.Sprint(v.Partition) }},
			{Title: "OFFSET", Cell: func(v rest.Rejected) string { return fmt.Sprint(v.Offset) }},
			{Title: "REASON", Cell: func(v rest.Rejected) string { return string(v.Reason) }},
			{Title: "PROJECT", Cell: func(v rest.Rejected) string { return string(v.Project) }},
			{Title: "HOST", Cell: func(v rest.Rejected) string { return string(v.Host) }},
			{Title: "WHY", Cell: func(v rest.Rejected) string { return cli.Printable(v.Detail) }},
		},
	}
}
