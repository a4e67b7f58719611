// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

func newQuota(s *settings) *cobra.Command {
	cmd := Group("quota", "What projects may have, and what they use")
	cmd.AddCommand(newQuotaSet(s), newQuotaShow(s), newQuotaList(s))
	return cmd
}

func newQuotaSet(s *settings) *cobra.Command {
	var size sizeFlags
	var instances int64
	var clear []string
	cmd := &cobra.Command{
		Use:   "set PROJECT",
		Short: "Limit what a project may have",
		Long: `Limit what a project may have. What is not given stays as it is; --unset leaves a
class to the default quota again. The project ` + string(compute.DefaultQuota) + ` holds the limits of all that
have none of their own.`,
		Example: "  berth quota set web --instances 10 --vcpus 20 --memory 50GiB\n" +
			"  berth quota set " + string(compute.DefaultQuota) + " --instances 100",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			limits, err := size.amounts(cmd)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("instances") {
				limits[compute.Instances] = instances
			}
			if len(limits)+len(clear) == 0 {
				return compute.Invalid("limits", "", "give at least one, as in --instances 10")
			}
			q, err := setQuota(cmd, c, compute.Project(args[0]), limits, clear)
			if err != nil {
				return err
			}
			return printQuota(cmd.OutOrStdout(), out, q)
		},
	}
	size.add(cmd)
	cmd.Flags().Int64Var(&instances, "instances", 0, "how many instances")
	cmd.Flags().StringArrayVar(&clear, "unset", nil, "a class to leave to the default quota, as in VCPU; repeatable")
	return cmd
}

// setQuota adds limits to the project's own.
func setQuota(
	cmd *cobra.Command,
	c *client.Client,
	p compute.Project,
	limits compute.Resources,
	clear []string,
) (client.Quota, error) {
	now, err := c.Quota(cmd.Context(), p)
	if err != nil {
		return client.Quota{}, err
	}
	for _, r := range now.Resources {
		own := r.From == "project" || p == compute.DefaultQuota && r.From == "default"
		if _, given := limits[r.Class]; own && !given && r.Limit != nil {
			limits[r.Class] = *r.Limit
		}
	}
	for _, class := range clear {
		if _, ok := limits[compute.ResourceClass(class)]; !ok {
			return client.Quota{}, compute.NotFound(
				"limit",
				class,
				"project "+string(p)+" has no limit of its own on it",
			)
		}
		delete(limits, compute.ResourceClass(class))
	}
	return c.SetQuota(cmd.Context(), compute.Quota{Project: p, Limits: limits})
}

func newQuotaShow(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "show [PROJECT]", Short: "Show a project's limits and what it uses",
		Long: "Show a project's limits and what it uses; without PROJECT, those of --project.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			p := c.Project()
			if len(args) == 1 {
				p = compute.Project(args[0])
			}
			q, err := c.Quota(cmd.Context(), p)
			if err != nil {
				return err
			}
			return printQuota(cmd.OutOrStdout(), out, q)
		},
	}
}

func newQuotaList(s *settings) *cobra.Command {
	return newListing(
		s,
		"List what projects may have and use: all with limits of their own or with instances",
		quotasSheet,
		func(ctx context.Context, c *client.Client) ([]client.Quota, error) { return c.Quotas(ctx) },
	)
}

// quotasSheet is one line a project, used of limit; classes of the operator's
// own come together.
func quotasSheet() Sheet[client.Quota] {
	of := func(class compute.ResourceClass) func(client.Quota) string {
		return func(q client.Quota) string {
			for _, r := range q.Resources {
				if r.Class == class {
					return usedOf(r)
				}
			}
			return ""
		}
	}
	return Sheet[client.Quota]{
		Name: func(q client.Quota) string { return string(q.Project) },
		none: "No quotas and no instances.",
		Columns: []Column[client.Quota]{
			{Title: "PROJECT", Cell: func(q client.Quota) string { return string(q.Project) }},
			{Title: "INSTANCES", Right: true, Cell: of(compute.Instances)},
			{Title: "VCPUS", Right: true, Cell: of(compute.VCPU)},
			{Title: "MEMORY", Right: true, Cell: of(compute.MemoryMB)},
			{Title: "DISK", Right: true, Cell: of(compute.DiskGB)},
			{Title: "OTHER", Cell: func(q client.Quota) string {
				var parts []string
				for _, r := range q.Resources {
					switch r.Class {
					case compute.Instances, compute.VCPU, compute.MemoryMB, compute.DiskGB:
					default:
						parts = append(parts, usedOf(r)+" "+string(r.Class))
					}
				}
				return strings.Join(parts, ", ")
			}},
		},
	}
}

// unlimited is the limit that is none.
const unlimited = "unlimited"

// usedOf is "2/10", or "2/unlimited".
func usedOf(r client.QuotaResource) string {
	if r.Limit == nil {
		return HumanSize(r.Class, r.Used) + "/" + unlimited
	}
	return HumanSize(r.Class, r.Used) + "/" + HumanSize(r.Class, *r.Limit)
}

func printQuota(w io.Writer, f Format, q client.Quota) error {
	if f == FormatTable || f == FormatWide {
		return quotaSheet().List(w, f, q.Resources)
	}
	return Sheet[client.Quota]{Name: func(q client.Quota) string { return string(q.Project) }}.one(w, f, q, nil)
}

func quotaSheet() Sheet[client.QuotaResource] {
	return Sheet[client.QuotaResource]{
		none: "No limits.",
		Columns: []Column[client.QuotaResource]{
			{Title: "RESOURCE", Cell: func(r client.QuotaResource) string { return string(r.Class) }},
			{
				Title: "USED",
				Right: true,
				Cell:  func(r client.QuotaResource) string { return HumanSize(r.Class, r.Used) },
			},
			{Title: "LIMIT", Right: true, Cell: func(r client.QuotaResource) string {
				if r.Limit == nil {
					return unlimited
				}
				return HumanSize(r.Class, *r.Limit)
			}},
			{Title: "LEFT", Right: true, Cell: func(r client.QuotaResource) string {
				if r.Limit == nil {
					return ""
				}
				return HumanSize(r.Class, max(0, *r.Limit-r.Used))
			}},
			{Title: "FROM", Cell: func(r client.QuotaResource) string {
				if r.From == "none" {
					return ""
				}
				return fmt.Sprintf("%s quota", r.From)
			}},
		},
	}
}
