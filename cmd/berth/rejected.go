// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/wire"
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

docs/OPERATIONS.md (Records that were refused) says what the reasons mean.`,
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
	return cmd
}

func (o rejectedFlags) wants(v rejectedView) bool {
	return (o.reason == "" || strings.EqualFold(o.reason, string(v.Reason))) && (o.topic == "" || o.topic == v.Topic)
}

// list prints the last rejections that are wanted. Those of several partitions are put in the order of their times.
func (o rejectedFlags) list(ctx context.Context, c cell.Cell, since time.Time, w, notes io.Writer, f cli.Format) error {
	last := newTail(o.limit, func(a, b rejectedView) int { return a.At.Compare(b.At) })
	err := c.ReadRejected(ctx, since, false, func(j compute.Rejected, err error) error {
		v := viewRejected(c.Topics(), j)
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
		v := viewRejected(t, j)
		if !o.wants(v) {
			return nil
		}
		return printOne(w, f, rejectedSheet(), v)
	}
}

// rejectedView is a rejection as data, without what was in the record.
type rejectedView struct {
	At        time.Time          `json:"at"`
	Topic     string             `json:"topic"` // without the cell's prefix
	Partition int32              `json:"partition"`
	Offset    int64              `json:"offset"`
	Reason    compute.ReasonCode `json:"reason"`
	Detail    string             `json:"detail,omitempty"`
	Project   compute.Project    `json:"project,omitempty"`
	Host      compute.HostID     `json:"host,omitempty"`
}

func viewRejected(t wire.Topics, j compute.Rejected) rejectedView {
	v := rejectedView{
		At: j.At.UTC(), Topic: strings.TrimPrefix(j.Topic, t.Prefix), Partition: j.Partition, Offset: j.Offset,
		Reason: j.Reason.Code, Detail: j.Reason.Detail, Host: j.Reason.Host,
	}
	stream, ofHost := t.HostOf(j.Topic)
	switch {
	case ofHost && v.Host == "":
		v.Host = stream
	case j.Topic == t.Hosts() && v.Host == "" && compute.HostID(j.Key).Check() == nil:
		v.Host = compute.HostID(j.Key)
	case j.Topic == t.Requests() || j.Topic == t.Reports():
		if p := compute.Project(j.Key); p.Check() == nil {
			v.Project = p
		}
	}
	return v
}

func rejectedSheet() cli.Sheet[rejectedView] {
	return cli.Sheet[rejectedView]{
		Name: func(v rejectedView) string { return fmt.Sprintf("%s/%d/%d", v.Topic, v.Partition, v.Offset) },
		Columns: []cli.Column[rejectedView]{
			{Title: "AT", Cell: func(v rejectedView) string { return v.At.Local().Format(time.DateTime) }},
			{Title: "TOPIC", Cell: func(v rejectedView) string { return v.Topic }},
			{Title: "PARTITION", Cell: func(v rejectedView) string { return fmt.Sprint(v.Partition) }},
			{Title: "OFFSET", Cell: func(v rejectedView) string { return fmt.Sprint(v.Offset) }},
			{Title: "REASON", Cell: func(v rejectedView) string { return string(v.Reason) }},
			{Title: "PROJECT", Cell: func(v rejectedView) string { return string(v.Project) }},
			{Title: "HOST", Cell: func(v rejectedView) string { return string(v.Host) }},
			{Title: "WHY", Cell: func(v rejectedView) string { return strings.Map(shown, v.Detail) }},
		},
	}
}
