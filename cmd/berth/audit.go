// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
)

// auditFlags say which entries are shown.
type auditFlags struct {
	kafka                          kafkaFlags
	follow                         bool
	project, who, operation, since string
	limit                          int
}

func newAudit() *cobra.Command {
	var o auditFlags
	cmd := &cobra.Command{
		Use:   "audit [--kafka HOST:PORT,… | --config FILE] [-f]",
		Short: "Show who changed what over the API, and what was refused",
		Long: `Read the topic audit from Kafka, oldest first, with an operator's rights there: no API node is asked, so that
neither projects nor agents see it. API nodes write it where callers sign in, and where their settings say audit: true.

An entry names the caller, the operation, the project and the thing, the address that the call came from, the status
of the answer and the request's id. Bodies, user data, keys and tokens are in none. "left out" in front of a refusal:
so many before it were too many, or Kafka did not answer. Two entries with one request id: the change failed after its
entry had gone out beside it, and the last one counts.`,
		Example: "  berth audit --config api.yaml --since 1h\n" +
			"  berth audit --kafka k1:9092 -f --project web --who token:ci-bot\n" +
			"  berth audit --kafka k1:9092 --operation delete-instance --since 7d -o json",
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.follow, "follow", "f", false, "go on with what comes")
	flags.StringVar(&o.who, "who", "", "of this caller alone: its name, as in token:ci-bot, or its id")
	flags.StringVar(&o.operation, "operation", "", "of this operation alone, as in boot or delete-instance")
	flags.StringVar(&o.since, "since", "1d", "no older than this, as in 90d or 1h")
	flags.IntVar(&o.limit, "limit", 1000, "without -f: the last of them, at most so many")
	o.kafka.add(cmd, time.Minute)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flag("project").Changed { // the default project of other commands is no filter here
			o.project = cmd.Flag("project").Value.String()
		}
		since, err := o.begin(time.Now())
		if err != nil {
			return err
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
	back, err := cli.ParseLife("since", o.since)
	if err != nil || back == 0 {
		return now, compute.Invalid("since", o.since, "give a time, as in 90d or 1h")
	}
	if o.limit < 1 || o.limit > maxAuditLimit {
		return now, compute.Invalid("limit", fmt.Sprint(o.limit), fmt.Sprintf("give 1 to %d", maxAuditLimit))
	}
	return now.Add(-back), nil
}

// maxAuditLimit bounds what is kept in memory.
const maxAuditLimit = 100_000

func (o auditFlags) wants(e compute.AuditEntry) bool {
	return (o.project == "" || string(e.Project) == o.project) &&
		(o.who == "" || e.Who == o.who || e.WhoID == o.who) &&
		(o.operation == "" || e.Operation == o.operation)
}

// list prints the last entries that are wanted.
func (o auditFlags) list(ctx context.Context, c cell.Cell, since time.Time, w, notes io.Writer, f cli.Format) error {
	last := []auditView{}
	err := c.ReadAudit(ctx, since, false, func(e compute.AuditEntry, err error) error {
		switch {
		case err != nil:
			return unreadable(notes, err)
		case o.wants(e):
			last = append(last, viewAudit(e))
			if len(last) > 2*o.limit {
				last = append(last[:0], last[len(last)-o.limit:]...)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(last) == 0 && (f == cli.FormatTable || f == cli.FormatWide) {
		_, err := fmt.Fprintln(w, "No entries.")
		return err
	}
	return auditSheet().List(w, f, last[max(0, len(last)-o.limit):])
}

// printing prints each entry that is wanted as it comes, in a line; as YAML, in a document.
func (o auditFlags) printing(w, notes io.Writer, f cli.Format) func(compute.AuditEntry, error) error {
	return func(e compute.AuditEntry, err error) error {
		if err != nil {
			return unreadable(notes, err)
		}
		if !o.wants(e) {
			return nil
		}
		v := viewAudit(e)
		switch f {
		case cli.FormatJSON:
			return json.NewEncoder(w).Encode(v)
		case cli.FormatYAML:
			if _, err := fmt.Fprintln(w, "---"); err != nil {
				return err
			}
			return cli.PrintData(w, f, v)
		}
		var cells []string
		for _, c := range auditSheet().Columns {
			cells = append(cells, cli.OrDash(strings.Map(shown, c.Cell(v))))
		}
		_, err = fmt.Fprintln(w, strings.Join(cells, "  "))
		return err
	}
}

func unreadable(notes io.Writer, err error) error {
	_, err = fmt.Fprintln(notes, "passed over:", err)
	return err
}

// shown keeps what callers named from steering a terminal.
func shown(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}

// auditView is an entry as data.
type auditView struct {
	At        time.Time       `json:"at"`
	Who       string          `json:"who"`
	WhoID     string          `json:"who_id"`
	How       string          `json:"how"`
	Operation string          `json:"operation"`
	Project   compute.Project `json:"project"`
	Target    string          `json:"target"`
	Remote    string          `json:"remote"`
	Status    int32           `json:"status"`
	Kind      string          `json:"kind,omitempty"`
	Request   string          `json:"request"`
	Node      string          `json:"node"`
	LeftOut   uint64          `json:"left_out,omitempty"`
}

func viewAudit(e compute.AuditEntry) auditView {
	return auditView{
		e.At, e.Who, e.WhoID, e.How, e.Operation, e.Project, e.Target, e.Remote, e.Status, e.Kind, e.Request, e.Node,
		e.LeftOut,
	}
}

func auditSheet() cli.Sheet[auditView] {
	return cli.Sheet[auditView]{
		Name: func(v auditView) string { return v.Request },
		Columns: []cli.Column[auditView]{
			{Title: "AT", Cell: func(v auditView) string { return v.At.Local().Format(time.DateTime) }},
			{Title: "WHO", Cell: func(v auditView) string { return v.Who }},
			{Title: "OPERATION", Cell: func(v auditView) string { return v.Operation }},
			{Title: "PROJECT", Cell: func(v auditView) string { return string(v.Project) }},
			{Title: "ON", Cell: func(v auditView) string { return v.Target }},
			{Title: "RESULT", Cell: auditView.result},
			{Title: "FROM", Cell: func(v auditView) string { return v.Remote }},
			{Title: "REQUEST", Cell: func(v auditView) string { return v.Request }},
		},
	}
}

// result is how the call was answered, and how many refusals before it have no entry.
func (v auditView) result() string {
	text := fmt.Sprint(v.Status)
	if v.Kind != "" {
		text += " " + v.Kind
	}
	if v.LeftOut > 0 {
		text += fmt.Sprintf(" (%d left out)", v.LeftOut)
	}
	return text
}
