// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// queueWait is how long a change of the catalog waits for its queues if
// --timeout does not say.
const queueWait = 5 * time.Minute

func newFlavor(s *settings) *cobra.Command {
	cmd := Group("flavor", "Sizes of machine on offer")
	cmd.AddCommand(newFlavorAdd(s), newFlavorList(s), newFlavorShow(s), newFlavorRemove(s))
	return cmd
}

// Group is a command that only holds others.
func Group(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("%s: say what to do: %s", cmd.CommandPath(), subcommands(cmd))
			}
			return fmt.Errorf("%s has no command %q: there is %s", cmd.CommandPath(), args[0], subcommands(cmd))
		},
		RunE: func(*cobra.Command, []string) error { return nil }, // Args has refused by now
	}
}

func subcommands(cmd *cobra.Command) string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return strings.Join(names, ", ")
}

// sizeFlags are the amounts a flavor has and a quota limits.
type sizeFlags struct {
	vcpus        int64
	memory, disk string
	resources    []string
}

func (f *sizeFlags) add(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&f.vcpus, "vcpus", 0, "virtual processors")
	cmd.Flags().StringVar(&f.memory, "memory", "", "as in 2GiB")
	cmd.Flags().StringVar(&f.disk, "disk", "", "as in 20GiB")
	cmd.Flags().StringArrayVar(&f.resources, "resource", nil, "a class of your own, as in CUSTOM_X=1; repeatable")
}

// amounts are those that were given.
func (f *sizeFlags) amounts(cmd *cobra.Command) (compute.Resources, error) {
	out, err := parseAmounts("resource", f.resources)
	if err != nil {
		return nil, err
	}
	if cmd.Flags().Changed("vcpus") {
		out[compute.VCPU] = f.vcpus
	}
	if f.memory != "" {
		if out[compute.MemoryMB], err = ParseMemory("memory", f.memory); err != nil {
			return nil, err
		}
	}
	if f.disk != "" {
		if out[compute.DiskGB], err = parseDisk("disk", f.disk); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func newFlavorAdd(s *settings) *cobra.Command {
	var size sizeFlags
	var capabilities, require, forbid []string
	var w queueWaiting
	cmd := &cobra.Command{
		Use:   "add NAME --vcpus N --memory SIZE --disk SIZE",
		Short: "Offer a flavor",
		Long: "Offer a flavor. It has one queue for each combination of choices on its capabilities; " +
			"the number is printed first, and refused above the limit.",
		Example: "  berth flavor add m1.small --vcpus 1 --memory 2GiB --disk 20GiB --capability gpu",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			f := compute.Flavor{
				Name: compute.FlavorName(args[0]), Capabilities: named[compute.AxisName](capabilities),
				Required: named[compute.Trait](require), Forbidden: named[compute.Trait](forbid),
			}
			if f.Resources, err = size.amounts(cmd); err != nil {
				return err
			}
			ctx := cmd.Context()
			done, err := w.change(
				cmd,
				out,
				"flavor "+args[0],
				func(dry bool) (client.Change, error) { return c.AddFlavor(ctx, f, dry) },
				func(ctx context.Context) ([]client.Flavor, error) {
					v, err := c.Flavor(ctx, f.Name)
					return []client.Flavor{v}, err
				},
			)
			if err != nil || !done {
				return err
			}
			v, err := shown(ctx, w, func(ctx context.Context) (client.Flavor, error) { return c.Flavor(ctx, f.Name) })
			if err != nil {
				return err
			}
			return flavorSheet().List(cmd.OutOrStdout(), out, []client.Flavor{v})
		},
	}
	size.add(cmd)
	cmd.Flags().StringArrayVar(&capabilities, "capability", nil, "an axis it may be combined with; repeatable")
	cmd.Flags().StringArrayVar(&require, "require", nil, "a trait the host must have; repeatable")
	cmd.Flags().StringArrayVar(&forbid, "forbid", nil, "a trait the host must not have; repeatable")
	w.add(cmd)
	return cmd
}

func named[T ~string](texts []string) []T {
	var out []T
	for _, t := range texts {
		out = append(out, T(t))
	}
	return out
}

// queueWaiting is whether and how long a change waits for its queues.
type queueWaiting struct {
	dry, noWait bool
	timeout     time.Duration
}

func (w *queueWaiting) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.dry, "dry-run", false, "only say what it would do")
	cmd.Flags().BoolVar(&w.noWait, "no-wait", false, "do not wait until the new queues are open")
	timeoutFlag(cmd, &w.timeout, queueWait, "how long to wait for them; 0 waits for ever")
}

// change asks what a change would do and says so, does it, and waits until the
// queues of the flavors it concerns are open; nil: it makes none, and the change
// itself is what is printed as data. It says whether it was done, and not only
// asked for. The wait is also for what was there before:
// it may be that of a command whose wait ended too early.
func (w *queueWaiting) change(
	cmd *cobra.Command,
	f Format,
	what string,
	do func(dry bool) (client.Change, error),
	concerns concerned,
) (bool, error) {
	would, err := do(true)
	if err != nil {
		return false, err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", what, effect(would))
	if w.dry {
		return false, printChange(cmd.OutOrStdout(), f, would)
	}
	did, err := do(false)
	switch {
	case err != nil:
		return false, err
	case concerns == nil:
		return true, printChange(cmd.OutOrStdout(), f, did)
	case w.noWait:
		return true, nil
	}
	return true, w.queues(cmd.Context(), cmd.ErrOrStderr(), concerns)
}

// printChange prints a change as data. A person has read it by then.
func printChange(to io.Writer, f Format, c client.Change) error {
	if f == FormatJSON || f == FormatYAML {
		return PrintData(to, f, c)
	}
	return nil
}

// concerned are the flavors whose queues a change makes, as the API shows them. A KindNotFound says that the node does
// not show the change yet: it has read less than the one that took it.
type concerned func(context.Context) ([]client.Flavor, error)

// notShown is what a wait sees while a node does not show a change.
const notShown = "the API node does not show it yet"

// shown asks for what was added, until the node that answers shows it. Without a wait it tries for a moment.
func shown[T any](ctx context.Context, w queueWaiting, ask func(context.Context) (T, error)) (v T, err error) {
	within := w.timeout
	if w.noWait {
		within = actsWithin
	}
	err = until(ctx, within, func(ctx context.Context) (bool, string, error) {
		var failed error
		if v, failed = ask(ctx); compute.KindOf(failed) == compute.KindNotFound {
			return false, notShown, nil
		}
		return failed == nil, "", failed
	})
	return v, err
}

// effect says what a change does to the queues: "makes 6 queues, 24 of at most 20000 in all".
func effect(c client.Change) string {
	var parts []string
	if c.Added > 0 {
		parts = append(parts, "makes "+Plural(c.Added, "queue"))
	}
	if c.Removed > 0 {
		parts = append(parts, "closes "+Plural(c.Removed, "queue"))
	}
	if len(parts) == 0 {
		parts = append(parts, "changes no queue")
	}
	all := fmt.Sprintf("%d in all", c.Total)
	if c.Limit > 0 {
		all = fmt.Sprintf("%d of at most %d in all", c.Total, c.Limit)
	}
	return strings.Join(parts, ", ") + "; " + all
}

// Plural is "1 queue" or "2 queues".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func (w *queueWaiting) queues(ctx context.Context, to io.Writer, concerns concerned) error {
	live := newLiveLine(to)
	defer live.end()
	return until(ctx, w.timeout, func(ctx context.Context) (bool, string, error) {
		flavors, err := concerns(ctx)
		switch {
		case compute.KindOf(err) == compute.KindNotFound:
			return false, notShown, nil
		case err != nil:
			return false, "", err
		}
		wanted, open, failed := 0, 0, 0
		for _, f := range flavors {
			wanted, open, failed = wanted+f.Queues.Wanted, open+f.Queues.Open, failed+f.Queues.Failed
		}
		seen := fmt.Sprintf("%d of %s open", open, Plural(wanted, "queue"))
		if wanted > 0 { // else there is nothing to wait for
			live.show(waitStatus{seen, seen})
		}
		if failed > 0 {
			return false, seen, &compute.Error{
				Kind:    compute.KindInternal,
				Message: Plural(failed, "queue") + " cannot be made",
				Remedy:  "berth queue list -o wide shows why",
			}
		}
		return open >= wanted, seen, nil
	})
}

func newFlavorList(s *settings) *cobra.Command {
	return newListing(
		s,
		"List flavors",
		flavorSheet,
		func(ctx context.Context, c *client.Client) ([]client.Flavor, error) {
			return c.Flavors(ctx)
		},
	)
}

func newFlavorShow(s *settings) *cobra.Command {
	return newShowing(s, "show NAME", "Show a flavor", flavorSheet, flavorDetails,
		func(ctx context.Context, c *client.Client, name string) (client.Flavor, error) {
			return c.Flavor(ctx, compute.FlavorName(name))
		})
}

func newFlavorRemove(s *settings) *cobra.Command {
	var w queueWaiting
	cmd := &cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, Short: "Stop offering a flavor",
		Long: "Stop offering a flavor: its queues close and go. Refused while instances wait in them. " +
			"Machines that run are not touched.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = w.change(cmd, out, "flavor "+args[0], func(dry bool) (client.Change, error) {
				return c.RemoveFlavor(cmd.Context(), compute.FlavorName(args[0]), dry)
			}, nil)
			return err
		},
	}
	cmd.Flags().BoolVar(&w.dry, "dry-run", false, "only say what it would do")
	return cmd
}

func flavorSheet() Sheet[client.Flavor] {
	return Sheet[client.Flavor]{
		Name: func(f client.Flavor) string { return string(f.Name) },
		none: "No flavors. berth flavor add makes one.",
		Columns: []Column[client.Flavor]{
			{Title: "NAME", Cell: func(f client.Flavor) string { return string(f.Name) }},
			{
				Title: "VCPUS",
				Right: true,
				Cell:  func(f client.Flavor) string { return strconv.FormatInt(f.Resources[compute.VCPU], 10) },
			},
			{
				Title: "MEMORY",
				Right: true,
				Cell:  func(f client.Flavor) string { return InUnits(f.Resources[compute.MemoryMB]) },
			},
			{
				Title: "DISK",
				Right: true,
				Cell:  func(f client.Flavor) string { return InUnits(f.Resources[compute.DiskGB] << 10) },
			},
			{Title: "OTHER", Cell: func(f client.Flavor) string { return humanResources(custom(f.Resources)) }},
			{Title: "CAPABILITIES", Cell: func(f client.Flavor) string { return joined(f.Capabilities) }},
			{
				Title: "QUEUES",
				Right: true,
				Cell:  func(f client.Flavor) string { return fmt.Sprintf("%d/%d", f.Queues.Open, f.Queues.Wanted) },
			},
			{Title: "REQUIRES", wide: true, Cell: func(f client.Flavor) string { return joined(f.Required) }},
			{Title: "FORBIDS", wide: true, Cell: func(f client.Flavor) string { return joined(f.Forbidden) }},
		},
	}
}

// custom is what has no column of its own.
func custom(r compute.Resources) compute.Resources {
	out := r.Clone()
	for _, class := range []compute.ResourceClass{compute.VCPU, compute.MemoryMB, compute.DiskGB} {
		delete(out, class)
	}
	return out
}

func flavorDetails(f client.Flavor) []detail {
	queues := fmt.Sprintf("%d of %d open", f.Queues.Open, f.Queues.Wanted)
	if f.Queues.Closed > 0 {
		queues += fmt.Sprintf(", %d closing", f.Queues.Closed)
	}
	if f.Queues.Failed > 0 {
		queues += fmt.Sprintf(", %d failed", f.Queues.Failed)
	}
	if f.Queues.Tiers > 0 {
		queues += ", and " + Plural(f.Queues.Tiers, "tier")
	}
	return []detail{
		{"Name", string(f.Name)}, {"Uses", humanResources(f.Resources)}, {"Capabilities", joined(f.Capabilities)},
		{"Requires", joined(f.Required)}, {"Forbids", joined(f.Forbidden)}, {"Queues", queues},
	}
}
