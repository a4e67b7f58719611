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
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/wire"
)

// aclFlags say whose rights a command is about.
type aclFlags struct {
	at                    kafkaFlags
	role, host, principal string
}

func (a *aclFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&a.role, "role", "", "api, queues, conductor, agent, publisher, follower or operator")
	flags.StringVar(&a.host, "host", "", "with --role agent: its host")
	flags.StringVar(&a.principal, "principal", "", "Kafka user, as in User:berth-api")
	a.at.add(cmd, 20*time.Second)
}

// rights are those of the role in the cell with these topics.
func (a *aclFlags) rights(t wire.Topics) ([]access.Right, error) {
	role, err := access.RoleNamed(a.role)
	if err != nil {
		return nil, err
	}
	return access.Rights(role, t, compute.HostID(a.host))
}

// runs is the RunE of a command that needs Kafka: do has the role's rights too.
func (a *aclFlags) runs(
	do func(ctx context.Context, c cell.Cell, rights []access.Right, w io.Writer, f cli.Format) error,
) func(*cobra.Command, []string) error {
	return a.at.runs("acl", func(ctx context.Context, c cell.Cell, w io.Writer, f cli.Format) error {
		rights, err := a.rights(c.Topics())
		if err != nil {
			return err
		}
		return do(ctx, c, rights, w, f)
	})
}

// check refuses, before Kafka is asked, flags that nothing can come of, and a principal that Kafka would take and never
// match.
func (a *aclFlags) check(*cobra.Command, []string) error {
	_, err := a.rights(wire.Topics{}) // of a cell of any name
	if kind, name, _ := strings.Cut(a.principal, ":"); kind != "User" || name == "" {
		const remedy = "give User: and the name that brokers know the process by, as in User:berth-api"
		err = errors.Join(err, compute.Invalid("principal", a.principal, remedy))
	}
	return err
}

// errLacking is the answer of a check that has said what is missing.
var errLacking = errors.New("rights are missing: see above")

func newACL() *cobra.Command {
	cmd := &cobra.Command{
		Use: "acl", Short: "Rights of Berth's processes on Kafka", Args: cobra.NoArgs,
		Long: `What each role of a cell needs on Kafka, and no more, as ACLs for brokers with an authorizer.

Every process has a Kafka user of its own; agents have one for each host, which can read the
commands to that host alone.`,
	}
	cmd.AddCommand(newACLPrint(), newACLApply(), newACLCheck())
	return cmd
}

func newACLPrint() *cobra.Command {
	var a aclFlags
	cmd := &cobra.Command{
		Use:     "print --role ROLE [--host HOST] --principal User:NAME",
		Short:   "Print the calls of kafka-acls.sh that give a role its rights",
		Example: "  berth acl print --role conductor --principal User:conductor\n  berth acl print --role agent --host rack1-07 --principal User:rack1-07",
		Args:    cobra.NoArgs, PreRunE: a.check,
	}
	a.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f, err := cli.ParseFormat(cmd.Flag("output").Value.String())
		if err != nil {
			return err
		}
		c, err := a.at.cell(cmd, "acl")
		if err != nil {
			return err
		}
		rights, err := a.rights(c.Topics())
		if err != nil {
			return err
		}
		if f == cli.FormatJSON || f == cli.FormatYAML {
			return cli.PrintData(cmd.OutOrStdout(), f, rights)
		}
		for _, line := range access.Commands(strings.Join(c.Kafka.Brokers, ","), a.principal, rights) {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

func newACLApply() *cobra.Command {
	var a aclFlags
	cmd := &cobra.Command{
		Use:   "apply --role ROLE [--host HOST] --principal User:NAME",
		Short: "Give a role its rights; what the principal has already stays",
		Long:  "Give a role its rights. The Kafka user of --config must be a super user of the brokers, or have ALTER on the cluster.",
		Args:  cobra.NoArgs, PreRunE: a.check,
	}
	a.add(cmd)
	cmd.RunE = a.runs(func(ctx context.Context, c cell.Cell, rights []access.Right, w io.Writer, f cli.Format) error {
		if err := c.Allow(ctx, a.principal, rights); err != nil {
			return err
		}
		if f == cli.FormatJSON || f == cli.FormatYAML {
			return cli.PrintData(w, f, aclGiven{a.principal, a.role, a.host, rights})
		}
		_, err := fmt.Fprintf(w, "%s may do what %s needs: %d rights\n", a.principal, a.role, len(rights))
		return err
	})
	return cmd
}

// aclGiven is what apply has done, as data.
type aclGiven struct {
	Principal string         `json:"principal"`
	Role      string         `json:"role"`
	Host      string         `json:"host,omitempty"`
	Rights    []access.Right `json:"rights"`
}

func newACLCheck() *cobra.Command {
	var a aclFlags
	cmd := &cobra.Command{
		Use:   "check --role ROLE [--host HOST] --principal User:NAME",
		Short: "Compare what a principal may do with what its role needs",
		Long: `Compare the ACLs of a principal with what its role needs: what is missing, and what it has that nobody needs.
It exits with 1 if anything is missing. The Kafka user of --config needs DESCRIBE on the cluster.`,
		Args: cobra.NoArgs, PreRunE: a.check,
	}
	a.add(cmd)
	cmd.RunE = a.runs(func(ctx context.Context, c cell.Cell, rights []access.Right, w io.Writer, f cli.Format) error {
		given, err := c.Allowed(ctx, a.principal)
		if err != nil {
			return err
		}
		var out aclDifference
		out.Missing, out.Surplus = access.Compare(rights, given)
		return out.print(w, f, a.principal, a.role)
	})
	return cmd
}

// aclDifference is what a check has found.
type aclDifference struct {
	Missing []access.Right `json:"missing"`
	Surplus []access.Right `json:"surplus"`
}

func (d aclDifference) print(w io.Writer, f cli.Format, principal, role string) (err error) {
	if f == cli.FormatJSON || f == cli.FormatYAML {
		err = cli.PrintData(w, f, d)
	} else {
		err = d.text(w, principal, role)
	}
	if err == nil && len(d.Missing) > 0 {
		err = errLacking
	}
	return err
}

func (d aclDifference) text(w io.Writer, principal, role string) error {
	if len(d.Missing)+len(d.Surplus) == 0 {
		_, err := fmt.Fprintf(w, "%s may do what %s needs, and nothing else\n", principal, role)
		return err
	}
	table := cli.Grid{Rows: [][]string{{"", "OPERATIONS", "ON", "NAME", "WHY"}}}
	add := func(what string, rights []access.Right) {
		for _, r := range rights {
			var ops []string
			for _, op := range r.Operations {
				ops = append(ops, string(op))
			}
			name := r.Name
			if r.Prefixed {
				name += "…"
			}
			table.Rows = append(table.Rows, []string{what, strings.Join(ops, ","), string(r.Kind), name, cli.OrDash(r.Why)})
		}
	}
	add("missing", d.Missing)
	add("not needed", d.Surplus)
	return table.Print(w)
}
