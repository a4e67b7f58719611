// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

func newGroup(s *settings) *cobra.Command {
	cmd := Group("group", "Rules about where instances may run beside each other")
	cmd.AddCommand(
		newGroupCreate(s), newGroupSet(s), newGroupDelete(s),
		newListing(s, "List a project's groups", groupSheet,
			func(ctx context.Context, c *client.Client) ([]client.Group, error) { return c.Groups(ctx) }),
		newShowing(s, "show NAME", "Show a group, and where its members are", groupSheet, groupDetails,
			func(ctx context.Context, c *client.Client, name string) (client.Group, error) {
				return c.Group(ctx, compute.GroupName(name))
			}),
	)
	return cmd
}

// ruleFlags are the rule of a group on the command line.
type ruleFlags struct {
	policy, over, spread string
	most, skew           uint32
}

func (f *ruleFlags) add(cmd *cobra.Command) {
	var names []string
	for _, p := range compute.GroupPolicies() {
		names = append(names, p.String())
	}
	cmd.Flags().StringVar(&f.policy, "policy", "", strings.Join(names, ", "))
	cmd.Flags().Uint32Var(&f.most, "max-per-host", 0,
		"how many members one host may have, or one value of --over; with the policies that keep apart (default 1)")
	cmd.Flags().StringVar(&f.over, "over", "",
		"what members share or must not share: host, or a capability of which each chooses a value (default host)")
	cmd.Flags().StringVar(&f.spread, "spread", "",
		"a capability: a member that chooses no value of it gets the one with fewest members; with set, empty for none")
	cmd.Flags().Uint32Var(&f.skew, "max-skew", 0,
		"how many members on hosts one value of --spread may have more than another when one more comes (default any)")
}

// given says whether any of the rule was.
func (f *ruleFlags) given(cmd *cobra.Command) bool {
	return slices.ContainsFunc([]string{"policy", "max-per-host", "over", "spread", "max-skew"}, cmd.Flags().Changed)
}

// change is what was given of the rule.
func (f *ruleFlags) change(cmd *cobra.Command) (client.GroupChange, error) {
	var c client.GroupChange
	given := cmd.Flags().Changed
	if given("policy") {
		if _, err := compute.ParseGroupPolicy(f.policy); err != nil {
			return c, err
		}
		c.Policy = &f.policy
	}
	if given("max-per-host") {
		if f.most == 0 {
			return c, compute.Invalid("max-per-host", "0", "give at least 1")
		}
		c.Most = &f.most
	}
	if given("over") {
		over := compute.AxisName(f.over)
		c.Over = &over
	}
	if given("spread") {
		spread := compute.AxisName(f.spread)
		c.Spread = &spread
	}
	if given("max-skew") {
		c.Skew = &f.skew
	}
	return c, nil
}

func newGroupCreate(s *settings) *cobra.Command {
	var f ruleFlags
	cmd := &cobra.Command{
		Use:   "create NAME --policy POLICY | --spread CAPABILITY",
		Short: "Make a group",
		Long: `Make a group: a rule about where the instances that are booted with --group NAME may run beside each other. A hard
rule (anti-affinity, affinity) holds at every moment: a member that would break it waits. A soft one is preferred
for a while (groups.soft of the conductors, 10 s).

With --spread a member that chooses no value of that capability gets the one with fewest members, when it is
admitted. --max-skew makes that a hard rule of what is on hosts. The policy is none then, if it is not given.`,
		Example: `  berth group create web --policy anti-affinity
  berth group create db --policy affinity
  berth group create cache --policy anti-affinity --max-per-host 2
  berth group create shop --spread zone --max-skew 1`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.policy == "" && f.spread == "" {
				return compute.Invalid("policy", "",
					"give --policy, as in --policy anti-affinity, or --spread, as in --spread zone")
			}
			return changeGroup(cmd, s, func(ctx context.Context, c *client.Client) (client.Group, error) {
				g := compute.Group{Project: c.Project(), Name: compute.GroupName(args[0])}
				if f.policy == "" {
					g.Policy = compute.SpreadOnly
				}
				rule, err := f.change(cmd)
				if err != nil {
					return client.Group{}, err
				}
				if g, err = rule.Apply(g); err != nil {
					return client.Group{}, err
				}
				return c.CreateGroup(ctx, g)
			})
		},
	}
	f.add(cmd)
	return cmd
}

func newGroupSet(s *settings) *cobra.Command {
	var f ruleFlags
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Change the rule of a group",
		Long: `Change the rule of a group. What is not given stays as it is. Members that break the new rule stay where they are,
and berth group show shows them; it holds for all that come.`,
		Example: `  berth group set web --max-per-host 2
  berth group set web --policy soft-anti-affinity
  berth group set web --spread zone --max-skew 2`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !f.given(cmd) {
				return compute.Invalid("policy", "",
					"give what is to change: --policy, --max-per-host, --over, --spread or --max-skew")
			}
			return changeGroup(cmd, s, func(ctx context.Context, c *client.Client) (client.Group, error) {
				change, err := f.change(cmd) // the rest is the node's: others may change that meanwhile
				if err != nil {
					return client.Group{}, err
				}
				return c.ChangeGroup(ctx, compute.GroupName(args[0]), change)
			})
		},
	}
	f.add(cmd)
	mayBeEmpty(cmd.Flags(), "spread")
	return cmd
}

// changeGroup prints what a change has made of a group.
func changeGroup(
	cmd *cobra.Command, s *settings, change func(context.Context, *client.Client) (client.Group, error),
) error {
	c, out, err := s.open()
	if err != nil {
		return err
	}
	defer c.Close()
	g, err := change(cmd.Context(), c)
	if err != nil {
		return err
	}
	return groupSheet().List(cmd.OutOrStdout(), out, []client.Group{g})
}

func newGroupDelete(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Delete a group that has no members",
		Long: "Delete a group. It is refused while instances are members that have not ended: their rule would end with it.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.DeleteGroup(cmd.Context(), compute.GroupName(args[0])); err != nil {
				return err
			}
			gone := deletedGroup{compute.GroupName(args[0])}
			sheet := Sheet[deletedGroup]{Name: func(g deletedGroup) string { return string(g.Name) }}
			return sheet.did(cmd.OutOrStdout(), out, gone, "group "+args[0]+" is deleted")
		},
	}
}

// deletedGroup is a group that is no more, as data.
type deletedGroup struct {
	Name compute.GroupName `json:"name"`
}

func groupSheet() Sheet[client.Group] {
	breaks := func(g client.Group) string {
		if g.Breaks {
			return "broken"
		}
		return ""
	}
	number := func(n func(client.Group) int) func(client.Group) string {
		return func(g client.Group) string { return fmt.Sprint(n(g)) }
	}
	return Sheet[client.Group]{
		Name: func(g client.Group) string { return string(g.Name) },
		none: "No groups.",
		Columns: []Column[client.Group]{
			{Title: "GROUP", Cell: func(g client.Group) string { return string(g.Name) }},
			{Title: "POLICY", Cell: func(g client.Group) string { return g.Policy }},
			{Title: "RULE", Cell: func(g client.Group) string { return g.Rule }},
			{Title: "PLACED", Right: true, Cell: number(func(g client.Group) int { return g.Placed })},
			{Title: "WAITING", Right: true, Cell: number(func(g client.Group) int { return g.Waiting })},
			{Title: "IS", Cell: breaks},
		},
	}
}

func groupDetails(g client.Group) []detail {
	var there []string
	for _, d := range g.Domains {
		line := fmt.Sprintf("%s: %d", d.Domain, d.Members)
		if d.Breaks {
			line += ", against the rule"
		}
		there = append(there, line)
	}
	values := []string{}
	for _, v := range g.Values {
		line := fmt.Sprintf("%s: %d, %d of them placed", v.Value, v.Members, v.Placed)
		if v.Full {
			line += ", no more before others have more"
		}
		values = append(values, line)
	}
	details := []detail{
		{"Group", string(g.Name)}, {"Project", string(g.Project)}, {"Policy", g.Policy}, {"Rule", g.Rule},
		{"Members", fmt.Sprintf("%d placed, %d waiting", g.Placed, g.Waiting)},
		{"On " + string(g.Over), strings.Join(there, "\n")},
	}
	if g.Spread != "" {
		details = append(details, detail{"By " + string(g.Spread), strings.Join(values, "\n")})
	}
	return details
}
