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
	var class string
	var weight uint32
	cmd := &cobra.Command{
		Use:   "set PROJECT",
		Short: "Limit what a project may have",
		Long: `Limit what a project may have. What is not given stays as it is; --unset leaves a
class to the default quota again. The project ` + string(compute.DefaultQuota) + ` holds the limits of all that
have none of their own.

With --priority they are limits for its instances of that class alone, which count
beside those for all: an instance of high priority counts in both.

--weight is the project's share where projects take turns in a queue.`,
		Example: "  berth quota set web --instances 10 --vcpus 20 --memory 50GiB\n" +
			"  berth quota set web --priority high --vcpus 4\n" +
			"  berth quota set web --weight 3\n" +
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
			if err := checkUnset(clear, limits); err != nil {
				return err
			}
			part := compute.QuotaWhole
			if cmd.Flags().Changed("priority") {
				p, err := compute.ParsePriority(class)
				if err != nil {
					return err
				}
				part = compute.QuotaOf(p)
			}
			weighs := cmd.Flags().Changed("weight")
			if len(limits)+len(clear) == 0 && !weighs {
				return compute.Invalid("limits", "", "give at least one, as in --instances 10")
			}
			change := quotaChange{part: part, limits: limits, clear: clear}
			if weighs {
				change.weight = &weight
			}
			q, err := setQuota(cmd, c, compute.Project(args[0]), change)
			if err != nil {
				return err
			}
			return printQuota(cmd.OutOrStdout(), out, q)
		},
	}
	size.add(cmd)
	cmd.Flags().Int64Var(&instances, "instances", 0, "how many instances")
	cmd.Flags().StringArrayVar(&clear, "unset", nil, "a class to leave to the default quota, as in VCPU; repeatable")
	cmd.Flags().Uint32Var(&weight, "weight", 0,
		"how many times as many builds it may have in a queue as a project of weight 1; 0: that of the default quota")
	cmd.Flags().StringVar(&class, "priority", "", "of instances of this class alone: low, normal or high")
	return cmd
}

// checkUnset refuses a class that is left to the default quota and has a limit given.
func checkUnset(clear []string, limits compute.Resources) error {
	for _, class := range clear {
		if _, given := limits[compute.ResourceClass(class)]; given {
			return compute.Invalid("unset", class, "a limit is given for it too: leave out one of the two")
		}
	}
	return nil
}

// quotaChange is what is given of a project's quota.
type quotaChange struct {
	part   compute.QuotaPart
	limits compute.Resources
	clear  []string
	weight *uint32 // nil: as it is
}

// setQuota changes what is given, and leaves to the node what the project has besides: others may change that
// meanwhile.
func setQuota(cmd *cobra.Command, c *client.Client, p compute.Project, given quotaChange) (client.Quota, error) {
	amounts := map[compute.ResourceClass]*int64{}
	for class, n := range given.limits {
		amounts[class] = &n
	}
	if err := checkOwn(cmd, c, p, given); err != nil {
		return client.Quota{}, err
	}
	for _, class := range given.clear {
		amounts[compute.ResourceClass(class)] = nil
	}
	change := client.QuotaChange{Weight: given.weight}
	if class, is := given.part.Priority(); is {
		change.Priorities = map[string]map[compute.ResourceClass]*int64{class.String(): amounts}
	} else {
		change.Limits = amounts
	}
	return c.ChangeQuota(cmd.Context(), p, change)
}

// checkOwn refuses to take out limits that a project does not have.
func checkOwn(cmd *cobra.Command, c *client.Client, p compute.Project, given quotaChange) error {
	if len(given.clear) == 0 {
		return nil
	}
	now, err := c.Quota(cmd.Context(), p)
	if err != nil {
		return err
	}
	own := ownLimits(now, given.part)
	for _, class := range given.clear {
		if _, has := own[compute.ResourceClass(class)]; !has {
			return compute.NotFound("limit", class, "project "+string(p)+" has no limit of its own on it")
		}
	}
	return nil
}

// ownLimits are a project's own limits in one part of its quota.
func ownLimits(shown client.Quota, part compute.QuotaPart) compute.Resources {
	all := shown.Resources
	if class, is := part.Priority(); is {
		all = nil
		for _, c := range shown.Priorities {
			if c.Priority == class.String() {
				all = c.Resources
			}
		}
	}
	limits := compute.Resources{}
	for _, r := range all {
		own := r.From == "project" || shown.Project == compute.DefaultQuota && r.From == "default"
		if own && r.Limit != nil {
			limits[r.Class] = *r.Limit
		}
	}
	return limits
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
		rows := []quotaRow{}
		for _, r := range q.Resources {
			rows = append(rows, quotaRow{r, ""})
		}
		for _, c := range q.Priorities {
			for _, r := range c.Resources {
				rows = append(rows, quotaRow{r, " of priority " + c.Priority})
			}
		}
		if q.WeightFrom != "none" && q.WeightFrom != "" {
			defer fmt.Fprintf(w, "Weight in queues: %d (%s quota)\n", q.Weight, q.WeightFrom)
		}
		return quotaSheet().List(w, f, rows)
	}
	return Sheet[client.Quota]{Name: func(q client.Quota) string { return string(q.Project) }}.one(w, f, q, nil)
}

// quotaRow is one class of resources of the whole, or of one class of priority.
type quotaRow struct {
	client.QuotaResource
	of string
}

func quotaSheet() Sheet[quotaRow] {
	return Sheet[quotaRow]{
		none: "No limits.",
		Columns: []Column[quotaRow]{
			{Title: "RESOURCE", Cell: func(r quotaRow) string { return string(r.Class) + r.of }},
			{
				Title: "USED",
				Right: true,
				Cell:  func(r quotaRow) string { return HumanSize(r.Class, r.Used) },
			},
			{Title: "LIMIT", Right: true, Cell: func(r quotaRow) string {
				if r.Limit == nil {
					return unlimited
				}
				return HumanSize(r.Class, *r.Limit)
			}},
			{Title: "LEFT", Right: true, Cell: func(r quotaRow) string {
				if r.Limit == nil {
					return ""
				}
				return HumanSize(r.Class, max(0, *r.Limit-r.Used))
			}},
			{Title: "FROM", Cell: func(r quotaRow) string {
				if r.From == "none" {
					return ""
				}
				return fmt.Sprintf("%s quota", r.From)
			}},
		},
	}
}
