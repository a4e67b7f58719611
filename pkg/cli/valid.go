// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
)

func newValid(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "capabilities", Short: "Say what is valid in a request: flavors, choices, limits, states and reasons",
		Long: "Say what is valid in a request: flavors with what they use, the axes that they may be combined with, how " +
			"much each part of a request may have, what names look like, and what states and reasons mean. " +
			"With -o json it is the document of GET /v1/capabilities.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			doc, err := c.Valid(cmd.Context())
			if err != nil {
				return err
			}
			return printValid(cmd.OutOrStdout(), out, doc)
		},
	}
}

func printValid(w io.Writer, f Format, doc client.Capabilities) error {
	if f == FormatJSON || f == FormatYAML {
		return PrintData(w, f, doc)
	}
	var flavors []client.Flavor
	for _, v := range doc.Flavors {
		flavors = append(flavors, client.Flavor{Flavor: v})
	}
	if f == formatName {
		return flavorsOnOffer().List(w, f, flavors)
	}
	parts := []func() error{
		func() error { return flavorsOnOffer().List(w, f, flavors) },
		func() error { return capabilitySheet().List(w, f, doc.Items) },
		func() error { return limitSheet().List(w, f, doc.Limits) },
		func() error { return nameSheet().List(w, f, doc.Names) },
		func() error { return meaningSheet("ON_NO_CAPACITY").List(w, f, doc.OnNoCapacity) },
		func() error { return meaningSheet("STATE").List(w, f, doc.States) },
		func() error { return meaningSheet("POWER").List(w, f, doc.PowerStates) },
		func() error { return meaningSheet("REASON").List(w, f, doc.Reasons) },
	}
	for _, part := range parts {
		if err := part(); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	d, v := doc.Defaults, doc.Versions
	_, err := fmt.Fprintf(w,
		"A boot that does not say has project %s, %d attempts, a deadline of %s and on_no_capacity %s.\n"+
			"This is Berth %s with API version %s; it reads records of the schemas %d to %d.\n",
		d.Project, d.Attempts, d.Deadline, d.OnNoCapacity, v.Berth, v.API, v.Records.First, v.Records.Newest)
	return err
}

func flavorsOnOffer() Sheet[client.Flavor] {
	return Sheet[client.Flavor]{
		Name: func(f client.Flavor) string { return string(f.Name) },
		none: "No flavors. berth flavor add makes one.",
		Columns: []Column[client.Flavor]{
			{Title: "FLAVOR", Cell: func(f client.Flavor) string { return string(f.Name) }},
			{Title: "USES", Cell: func(f client.Flavor) string { return humanResources(f.Resources) }},
			{Title: "AXES", Cell: func(f client.Flavor) string { return joined(f.Capabilities) }},
			{Title: "REQUIRES", Cell: func(f client.Flavor) string { return joined(f.Required) }},
			{Title: "FORBIDS", Cell: func(f client.Flavor) string { return joined(f.Forbidden) }, wide: true},
		},
	}
}

func limitSheet() Sheet[client.Limit] {
	return Sheet[client.Limit]{Columns: []Column[client.Limit]{
		{Title: "REQUEST", Cell: func(l client.Limit) string { return l.Request }},
		{Title: "FIELD", Cell: func(l client.Limit) string { return l.Field }},
		{Title: "MOST", Cell: most, Right: true},
		{Title: "UNIT", Cell: func(l client.Limit) string { return l.Unit }},
	}}
}

// most is a limit for people: sizes of whole KiB as those, and with the least where that is not 0.
func most(l client.Limit) string {
	if l.Least != 0 {
		least := l.Least
		l.Least = 0
		return fmt.Sprintf("%d to %s", least, most(l))
	}
	if l.Unit == "bytes" && l.Most >= 1<<20 && l.Most%(1<<20) == 0 {
		return fmt.Sprintf("%d (%d MiB)", l.Most, l.Most>>20)
	}
	if l.Unit == "bytes" && l.Most%(1<<10) == 0 {
		return fmt.Sprintf("%d (%d KiB)", l.Most, l.Most>>10)
	}
	return strconv.FormatInt(l.Most, 10)
}

func nameSheet() Sheet[client.NameRule] {
	return Sheet[client.NameRule]{Columns: []Column[client.NameRule]{
		{Title: "NAME OF A", Cell: func(r client.NameRule) string { return r.Of }},
		{Title: "MOST BYTES", Cell: func(r client.NameRule) string { return strconv.Itoa(r.Most) }, Right: true},
		{Title: "LOOKS LIKE", Cell: func(r client.NameRule) string { return r.Pattern }},
	}}
}

func meaningSheet(title string) Sheet[client.Meaning] {
	return Sheet[client.Meaning]{Columns: []Column[client.Meaning]{
		{Title: title, Cell: func(m client.Meaning) string { return m.Name }},
		{Title: "MEANS", Cell: func(m client.Meaning) string { return m.Means }},
	}}
}
