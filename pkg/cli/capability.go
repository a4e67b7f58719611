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

func newCapability(s *settings) *cobra.Command {
	cmd := Group("capability", "Axes of choices that flavors may be combined with")
	cmd.AddCommand(newCapabilityAdd(s), newCapabilityList(s), newCapabilityRemove(s))
	return cmd
}

func newCapabilityAdd(s *settings) *cobra.Command {
	var requires, consumes []string
	var w queueWaiting
	cmd := &cobra.Command{
		Use:   "add AXIS VALUE...",
		Short: "Offer an axis, or more values on it",
		Example: `  berth capability add disk ssd
  berth capability add gpu a100 h100 --requires gpu=a100:CUSTOM_TRAIT --consumes gpu=a100:CUSTOM_GPU=1`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			axis, err := parseCapability(args[0], args[1:], requires, consumes)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			done, err := w.change(
				cmd,
				out,
				"capability "+args[0],
				func(dry bool) (client.Change, error) { return c.AddCapability(ctx, axis, dry) },
				func(ctx context.Context) ([]client.Flavor, error) { return flavorsOf(ctx, c, axis) },
			)
			if err != nil || !done {
				return err
			}
			v, err := shown(ctx, w, func(ctx context.Context) (client.Capability, error) { return c.Capability(ctx, axis.Axis) })
			if err != nil {
				return err
			}
			return capabilitySheet().List(cmd.OutOrStdout(), out, []client.Capability{v})
		},
	}
	cmd.Flags().StringArrayVar(
		&requires,
		"requires",
		nil,
		"a trait a value requires of the host, as in gpu=a100:CUSTOM_TRAIT; repeatable",
	)
	cmd.Flags().StringArrayVar(
		&consumes,
		"consumes",
		nil,
		"what a value uses of the host, as in gpu=a100:CUSTOM_GPU=1; repeatable",
	)
	w.add(cmd)
	return cmd
}

// flavorsOf are the flavors that may be combined with an axis, as a node shows them that has read of all these values:
// it counts the queues that a flavor should have by what it has read. No flavor may have the axis yet.
func flavorsOf(ctx context.Context, c *client.Client, axis compute.Capability) ([]client.Flavor, error) {
	has, err := c.Capability(ctx, axis.Axis)
	if err != nil {
		return nil, err
	}
	for _, v := range axis.Values {
		if _, there := has.Compute().Value(v.Value); !there {
			return nil, compute.NotFound("value", string(v.Value), "")
		}
	}
	all, err := c.Flavors(ctx)
	return slices.DeleteFunc(all, func(f client.Flavor) bool { return !slices.Contains(f.Capabilities, axis.Axis) }), err
}

// parseCapability joins the values with what --requires and --consumes say of
// them. Both name the axis too, so that a line can be read by itself.
func parseCapability(axis string, values, requires, consumes []string) (compute.Capability, error) {
	c := compute.Capability{Axis: compute.AxisName(axis)}
	for _, v := range values {
		if slices.ContainsFunc(c.Values, func(o compute.CapabilityValue) bool { return string(o.Value) == v }) {
			return c, compute.Invalid("value", v, "give each value once")
		}
		c.Values = append(c.Values, compute.CapabilityValue{Value: compute.AxisValue(v)})
	}
	about := func(field, text, as string) (*compute.CapabilityValue, string, error) {
		choice, what, found := strings.Cut(text, ":")
		named, value, equals := strings.Cut(choice, "=")
		if !found || !equals || what == "" {
			return nil, "", compute.Invalid(field, text, "give "+axis+"=VALUE:"+as)
		}
		n := slices.IndexFunc(c.Values, func(v compute.CapabilityValue) bool { return string(v.Value) == value })
		if named != axis || n < 0 {
			return nil, "", compute.Invalid(
				field,
				text,
				fmt.Sprintf("it is about %s, but this adds %s=%s", choice, axis, strings.Join(values, ", ")),
			)
		}
		return &c.Values[n], what, nil
	}
	for _, text := range requires {
		v, trait, err := about("requires", text, "TRAIT")
		if err != nil {
			return c, err
		}
		v.Requires = append(v.Requires, compute.Trait(trait))
	}
	for _, text := range consumes {
		v, amount, err := about("consumes", text, "CLASS=NUMBER")
		if err != nil {
			return c, err
		}
		amounts, err := parseAmounts("consumes", []string{amount})
		if err != nil {
			return c, err
		}
		v.Consumes = v.Consumes.Plus(amounts)
	}
	return c, nil
}

func newCapabilityList(s *settings) *cobra.Command {
	return newListing(
		s,
		"List capabilities",
		capabilitySheet,
		func(ctx context.Context, c *client.Client) ([]client.Capability, error) {
			return c.Capabilities(ctx)
		},
	)
}

func newCapabilityRemove(s *settings) *cobra.Command {
	var w queueWaiting
	var drain bool
	cmd := &cobra.Command{
		Use: "remove AXIS [VALUE...]", Aliases: []string{"rm"}, Short: "Stop offering an axis, or values on it",
		Long: `Stop offering an axis, or only values on it. An axis cannot be removed while a flavor may
be combined with it, and a value not while instances wait in queues of it or start; with
--drain those queues close, go on serving what waits there, and go once nothing waits or
starts in them. What waits for a value that no host has waits on, until its deadline or until
it is deleted. Machines that run are not touched.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			axis, values := compute.AxisName(args[0]), named[compute.AxisValue](args[1:])
			if len(values) == 0 {
				if drain {
					return compute.Invalid("drain", "true", "say which values to remove: berth capability remove AXIS VALUE --drain")
				}
				_, err = w.change(cmd, out, "capability "+args[0], func(dry bool) (client.Change, error) {
					return c.RemoveCapability(cmd.Context(), axis, dry)
				}, nil)
				return err
			}
			what := "capability " + args[0] + "=" + joined(values)
			_, err = w.change(cmd, out, what, func(dry bool) (client.Change, error) {
				return c.RemoveValues(cmd.Context(), axis, values, drain, dry)
			}, nil)
			return err
		},
	}
	cmd.Flags().BoolVar(&drain, "drain", false, "remove values also while instances wait in queues of them")
	cmd.Flags().BoolVar(&w.dry, "dry-run", false, "only say what it would do")
	return cmd
}

func capabilitySheet() Sheet[client.Capability] {
	return Sheet[client.Capability]{
		Name: func(c client.Capability) string { return string(c.Axis) },
		none: "No capabilities. berth capability add makes one.",
		Columns: []Column[client.Capability]{
			{Title: "AXIS", Cell: func(c client.Capability) string { return string(c.Axis) }},
			{Title: "VALUES", Cell: valuesOf},
		},
	}
}

// valuesOf is "a100 (requires CUSTOM_TRAIT; uses 1 CUSTOM_GPU), h100".
func valuesOf(c client.Capability) string {
	var out []string
	for _, v := range c.Values {
		var notes []string
		if len(v.Requires) > 0 {
			notes = append(notes, "requires "+joined(v.Requires))
		}
		if len(v.Consumes) > 0 {
			notes = append(notes, "uses "+humanResources(v.Consumes))
		}
		text := string(v.Value)
		if len(notes) > 0 {
			text += " (" + strings.Join(notes, "; ") + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}
