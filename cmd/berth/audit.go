// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/audit"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// auditFlags say which entries are shown.
type auditFlags struct {
	audit.Wanted
	kafka  kafkaFlags
	follow bool
	since  string
	limit  int
}

func newAudit() *cobra.Command {
	var o auditFlags
	cmd := &cobra.Command{
		Use:   "audit [--kafka HOST:PORT,… | --config FILE | --api ADDRESS] [-f]",
		Short: "Show who changed what over the API, and what was refused",
		Long: `Show the audit, oldest first: what API nodes wrote to Kafka's topic audit, where callers sign in and where their
settings say audit: true. It is read from Kafka, with an operator's rights there. Where --api or $BERTH_API names an
API node, and nothing says where Kafka is, the node is asked, which shows it to admins of the cell; -f needs Kafka.

An entry names the caller, the operation, the project and the thing, the address that the call came from, the status
of the answer and the request's id. Bodies, user data, keys and tokens are in none. "left out" in front of a refusal:
so many before it were too many, or Kafka did not answer. Two entries with one request id: the change failed after its
entry had gone out beside it, and the last one counts.`,
		Example: "  berth audit --config api.yaml --since 1h\n" +
			"  berth audit --kafka k1:9092 -f --project web --who token:ci-bot\n" +
			"  berth audit --kafka k1:9092 --operation delete-instance --since 7d -o json\n" +
			"  berth audit --api https://berth.example --result refused",
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.follow, "follow", "f", false, "go on with what comes")
	flags.StringVar(&o.Who, "who", "", "of this caller alone: its name, as in token:ci-bot, or its id")
	flags.StringVar(&o.What, "operation", "", "of this operation alone, as in boot or delete-instance")
	flags.StringVar(&o.Result, "result", "", "that ended so: ok, refused, a status as in 403, or a kind as in forbidden")
	flags.StringVar(&o.since, "since", "1d", "no older than this, as in 90d or 1h")
	flags.IntVar(&o.limit, "limit", 1000, "without -f: the last of them, at most so many")
	o.kafka.add(cmd, time.Minute)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flag("project").Changed { // the default project of other commands is no filter here
			o.Project = compute.Project(cmd.Flag("project").Value.String())
		}
		since, err := o.begin(time.Now())
		if err != nil {
			return err
		}
		if cli.NamesAPI(cmd) && !o.kafka.named() {
			return o.ask(cmd, since)
		}
		return o.kafka.runs("audit", func(ctx context.Context, c cell.Cell, w io.Writer, f cli.Format) error {
			c = c.As(access.Operator)
			if o.follow { // as long as somebody looks
				return c.ReadAudit(cmd.Context(), since, true, o.printing(w, cmd.ErrOrStderr(), f))
			}
			return o.list(ctx, c, since, w, cmd.ErrOrStderr(), f)
		})(cmd, args)
	}
	return cmd
}

// begin is the time of the oldest entry that is shown.
func (o auditFlags) begin(now time.Time) (time.Time, error) {
	begin, err := window(now, o.since, o.limit)
	return begin, errors.Join(err, o.Check())
}

// ask has an API node show it.
func (o auditFlags) ask(cmd *cobra.Command, since time.Time) error {
	if o.follow {
		return compute.Invalid("follow", "true", "say where Kafka is (--kafka or --config): an API node shows what there is")
	}
	f, err := cli.ParseFormat(cmd.Flag("output").Value.String())
	if err != nil {
		return err
	}
	c, err := cli.Dial(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), o.kafka.patience)
	defer cancel()
	last, err := c.Audit(ctx, client.AuditFilter{
		Project: o.Project, Who: o.Who, Operation: o.What, Result: o.Result, Since: since,
	}, o.limit)
	if err != nil && len(last) == 0 {
		return err
	}
	slices.Reverse(last)
	return errors.Join(err, printAll(cmd.OutOrStdout(), f, auditSheet(), last, "No entries."))
}

// list prints the last entries that are wanted.
func (o auditFlags) list(ctx context.Context, c cell.Cell, since time.Time, w, notes io.Writer, f cli.Format) error {
	last := newTail[rest.AuditEntry](o.limit, nil)
	err := c.ReadAudit(ctx, since, false, func(e compute.AuditEntry, err error) error {
		switch {
		case err != nil:
			return unreadable(notes, err)
		case o.Takes(e):
			last.add(rest.FromAudit(e))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return printAll(w, f, auditSheet(), last.cut(), "No entries.")
}

// printing prints each entry that is wanted as it comes, in a line; as YAML, in a document.
func (o auditFlags) printing(w, notes io.Writer, f cli.Format) func(compute.AuditEntry, error) error {
	return func(e compute.AuditEntry, err error) error {
		if err != nil {
			return unreadable(notes, err)
		}
		if !o.Takes(e) {
			return nil
		}
		return printOne(w, f, auditSheet(), rest.FromAudit(e))
	}
}

func auditSheet() cli.Sheet[rest.AuditEntry] {
	return cli.Sheet[rest.AuditEntry]{
		Name: func(v rest.AuditEntry) string { return v.Request },
		Columns: []cli.Column[rest.AuditEntry]{
			{Title: "AT", Cell: func(v rest.AuditEntry) string { return cli.ShownTime(v.At) }},
			{Title: "WHO", Cell: func(v rest.AuditEntry) string { return v.Who }},
			{Title: "OPERATION", Cell: func(v rest.AuditEntry) string { return v.Operation }},
			{Title: "PROJECT", Cell: func(v rest.AuditEntry) string { return string(v.Project) }},
			{Title: "ON", Cell: func(v rest.AuditEntry) string { return v.Target }},
			{Title: "RESULT", Cell: auditResult},
			{Title: "FROM", Cell: func(v rest.AuditEntry) string { return v.Remote }},
			{Title: "REQUEST", Cell: func(v rest.AuditEntry) string { return v.Request }},
		},
	}
}

// result is how the call was answered, and how many refusals before it have no entry.
func auditResult(v rest.AuditEntry) string {
	text := fmt.Sprint(v.Status)
	if v.Kind != "" {
		text += " " + v.Kind
	}
	if v.LeftOut > 0 {
		text += fmt.Sprintf(" (%d left out)", v.LeftOut)
	}
	return text
}
