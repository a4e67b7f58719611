// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

func newCapacity(s *settings) *cobra.Command {
	cmd := newPagingQueues(s, "Say how many machines of each kind hosts could have", capacitySheet)
	cmd.Use, cmd.Aliases = "capacity", nil
	var by string
	list := cmd.RunE
	cmd.Flags().StringVar(&by, "by", "", "by the values of this axis, as in --by zone")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("by") {
			return list(cmd, args)
		}
		if sort := cmd.Flag("sort-by"); sort.Changed {
			return compute.Invalid("sort-by", sort.Value.String(), "leave it out with --by, which has an order of its own")
		}
		return capacityBy(cmd, s, compute.AxisName(by))
	}
	cmd.Long = `Say how many machines of each kind could begin now, each kind by itself, by what hosts said last: of each flavor
and each choice of capabilities that it is offered with.

STRANDED are those that could begin besides if what is free on different hosts were on one: the room is there, in pieces
that are too small. EMPTY are those that there could be if hosts had no other machines.

With --by AXIS it says how many of each flavor could begin now with each value, which is the largest flavor that fits,
and what is free but UNUSABLE: what stays on its host, whichever one flavor is booted there as often as it fits.`
	cmd.Example = "  berth capacity\n  berth capacity --flavor m1.small\n  berth capacity --by zone"
	return cmd
}

func capacitySheet() Sheet[client.Queue] {
	number := func(of func(client.Capacity) int64) func(client.Queue) string {
		return func(q client.Queue) string {
			if q.Capacity == nil {
				return ""
			}
			return fmt.Sprint(of(*q.Capacity))
		}
	}
	return Sheet[client.Queue]{
		Name: func(q client.Queue) string { return string(q.Name) },
		none: "No flavors. berth flavor add makes one.",
		Columns: []Column[client.Queue]{
			{Title: "FLAVOR", Cell: func(q client.Queue) string { return kind(q.Flavor, q.With) }},
			{Title: "NOW", Right: true, Cell: number(func(c client.Capacity) int64 { return c.Room })},
			{Title: "STRANDED", Right: true, Cell: number(func(c client.Capacity) int64 { return c.Stranded })},
			{Title: "EMPTY", Right: true, Cell: number(func(c client.Capacity) int64 { return c.Empty })},
			{Title: "HOSTS NOW", Right: true, Cell: hostsOf(func(c client.HostCounts) uint32 { return c.Eligible })},
			{Title: "FULL", Right: true, Cell: hostsOf(func(c client.HostCounts) uint32 { return c.Full })},
			{Title: "NEVER", Right: true, Cell: hostsOf(func(c client.HostCounts) uint32 { return c.NeverFits })},
			{Title: "EACH NEEDS", Cell: func(q client.Queue) string { return humanResources(q.Resources) }},
		},
	}
}

func capacityBy(cmd *cobra.Command, s *settings, axis compute.AxisName) error {
	c, out, err := s.open()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := axis.Check(); err != nil {
		return err
	}
	by, err := c.CapacityBy(cmd.Context(), axis, compute.FlavorName(cmd.Flag("flavor").Value.String()))
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	switch out {
	case FormatJSON, FormatYAML:
		return PrintData(w, out, by)
	case formatName:
		return valueSheet(by.By).List(w, out, by.Values)
	}
	if err := capacityGrid(by).Print(w); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return valueSheet(by.By).List(w, out, by.Values)
}

// capacityGrid has a row for each flavor and a column for each value.
func capacityGrid(by client.CapacityBy) Grid {
	g := Grid{Rows: [][]string{{"FLAVOR"}}, Right: []bool{false}}
	var flavors []compute.FlavorName
	for _, v := range by.Values {
		g.Rows[0], g.Right = append(g.Rows[0], valueName(by.By, v)), append(g.Right, true)
		for _, f := range v.Flavors {
			flavors = append(flavors, f.Flavor)
		}
	}
	slices.Sort(flavors)
	for _, name := range slices.Compact(flavors) {
		row := []string{string(name)}
		for _, v := range by.Values {
			cell := "-" // it is not offered with the value
			for _, f := range v.Flavors {
				if f.Flavor == name {
					cell = fmt.Sprint(f.Room)
				}
			}
			row = append(row, cell)
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

func valueName(axis compute.AxisName, v client.ValueCapacity) string {
	if v.Value == "" {
		return "ANY"
	}
	return string(axis) + "=" + string(v.Value)
}

// someResources leaves out what there is none of.
func someResources(r compute.Resources) string {
	r = r.Clone()
	maps.DeleteFunc(r, func(_ compute.ResourceClass, n int64) bool { return n == 0 })
	return humanResources(r)
}

func valueSheet(axis compute.AxisName) Sheet[client.ValueCapacity] {
	name := func(v client.ValueCapacity) string { return valueName(axis, v) }
	return Sheet[client.ValueCapacity]{
		Name: name,
		Columns: []Column[client.ValueCapacity]{
			{Title: "HOSTS OF", Cell: name},
			{Title: "HOSTS", Right: true, Cell: func(v client.ValueCapacity) string { return fmt.Sprint(v.Hosts) }},
			{Title: "TAKE WORK", Right: true, Cell: func(v client.ValueCapacity) string { return fmt.Sprint(v.Taking) }},
			{Title: "LARGEST", Cell: func(v client.ValueCapacity) string { return string(v.Largest) }},
			{Title: "FREE", Cell: func(v client.ValueCapacity) string { return someResources(v.Free) }},
			{Title: "UNUSABLE", Cell: func(v client.ValueCapacity) string { return someResources(v.Unusable) }},
		},
	}
}
