// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/terminal"
)

func newList(s *settings) *cobra.Command {
	var states []string
	var f client.Filter
	var host, queue, flavor, group, by string
	var everybody, watch bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List instances, oldest first",
		Long:    "List the project's instances, oldest first. Deleted ones show with --all or --state deleted.",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			for _, text := range states {
				state, err := compute.ParseState(text)
				if err != nil {
					return err
				}
				f.States = append(f.States, state)
			}
			f.Host, f.Queue, f.Flavor = compute.HostID(host), compute.QueueName(queue), compute.FlavorName(flavor)
			f.Group = compute.GroupName(group)
			if watch {
				return watchList(cmd, c, out, f, by, everybody)
			}
			if out == formatName && by == "" {
				f.Fields = []string{"id"}
			}
			ask := c.Instances
			if everybody {
				if f.Fields != nil {
					f.Fields = append(f.Fields, "accepted_at")
				}
				ask = func(ctx context.Context, f client.Filter) ([]client.Instance, error) { return ofAll(ctx, c, f) }
			}
			items, err := ask(cmd.Context(), f)
			if err != nil {
				return err
			}
			sheet := instanceSheet(time.Now())
			if everybody {
				sheet.Columns = slices.Insert(sheet.Columns, 0, Column[client.Instance]{
					Title: "PROJECT", Cell: func(i client.Instance) string { return string(i.Project) },
				})
			}
			if items, err = sheet.sorted(items, by); err != nil {
				return err
			}
			return sheet.List(cmd.OutOrStdout(), out, items)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(
		&states,
		"state",
		nil,
		"only these states: accepted, queued, starting, active, deleting, deleted, error, unknown",
	)
	flags.BoolVarP(&f.All, "all", "a", false, "deleted ones too")
	flags.BoolVarP(&everybody, "all-projects", "A", false, "of all projects that you may read")
	flags.BoolVar(&f.Placeholders, "placeholders", false, "placeholders of reservations too, which have no machine")
	flags.StringVar(&f.Name, "name", "", "only this name")
	flags.StringVar(&host, "host", "", "only what this host has")
	flags.StringVar(&queue, "queue", "", "only this queue's")
	flags.StringVar(&flavor, "flavor", "", "only this flavor")
	flags.StringVar(&group, "group", "", "only what was booted into this group; -o wide shows it")
	selectorFlag(cmd, &f.Labels,
		"only those with such labels: team=a, team!=a, team (any) or '!team' (none); several, with commas, must all hold")
	sortFlag(cmd, &by)
	flags.BoolVarP(&watch, "watch", "w", false, "then a line for each change, until it is stopped")
	return cmd
}

// ofAll lists the instances of all projects that the caller may read, oldest first. Projects are asked one after the
// other: what changes meanwhile may show or not.
func ofAll(ctx context.Context, c *client.Client, f client.Filter) ([]client.Instance, error) {
	projects, err := c.Quotas(ctx)
	if err != nil {
		return nil, err
	}
	all := []client.Instance{}
	for _, q := range projects {
		if q.Project == compute.DefaultQuota {
			continue
		}
		f.Project = q.Project
		some, err := c.Instances(ctx, f)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortStableFunc(all, func(a, b client.Instance) int { return a.AcceptedAt.Compare(b.AcceptedAt) })
	return all, nil
}

// watchList prints how the instances are, and then what changes, each in a line.
func watchList(cmd *cobra.Command, c *client.Client, out Format, f client.Filter, by string, everybody bool) error {
	if f.All || f.Placeholders || f.Queue != "" || f.Flavor != "" || f.Group != "" || by != "" {
		return compute.Invalid("watch", "true", "it goes with --state, --host, --name, --label and --all-projects alone")
	}
	if _, err := eventStates(statesByName(f.States)); err != nil {
		return err
	}
	lines := newEventLines(cmd, out, everybody)
	var present []client.Told // printed together: so the columns are as wide as all need
	ask := client.Follow{
		AllProjects: everybody, Host: f.Host, States: f.States, Labels: f.Labels, Present: true,
		Lost: func(err error) {
			present = nil // it begins anew
			lines.lost(err)
		},
	}
	return followEvents(cmd.Context(), c, ask, func(t client.Told) error {
		switch {
		case f.Name != "" && t.Event.Name != f.Name && t.Event.NameBefore != f.Name && t.Event.Instance != "":
			return nil
		case t.Kind == client.ToldPresent:
			present = append(present, t)
			return nil
		}
		lines.fit(present)
		for _, p := range present {
			if err := lines.told(p); err != nil {
				return err
			}
		}
		present = nil
		return lines.told(t)
	})
}

func statesByName(all []compute.State) (names []string) {
	for _, s := range all {
		names = append(names, s.String())
	}
	return names
}

// instanceSheet is how instances are listed.
func instanceSheet(now time.Time) Sheet[client.Instance] {
	return Sheet[client.Instance]{
		Name: func(i client.Instance) string { return string(i.ID) },
		none: "No instances.",
		Columns: []Column[client.Instance]{
			{Title: "ID", Cell: func(i client.Instance) string { return shortID(i.ID) }},
			{Title: "FULL ID", wide: true, Cell: func(i client.Instance) string { return string(i.ID) }},
			{Title: "NAME", Cell: func(i client.Instance) string { return i.Name }},
			{Title: "STATE", Cell: doing, tone: func(i client.Instance) terminal.Tone { return ToneOf(doing(i)) }},
			{
				Title: "FLAVOR",
				Cell:  func(i client.Instance) string { return kind(i.Flavor, i.With) },
			},
			{Title: "HOST", Cell: func(i client.Instance) string { return string(i.Host) }},
			{Title: "AGE", Right: true, Cell: func(i client.Instance) string { return age(i.AcceptedAt, now) }},
			{Title: "ATTEMPT", wide: true, Right: true, Cell: attempt},
			{Title: "USES", wide: true, Cell: func(i client.Instance) string { return humanResources(i.Resources) }},
			{Title: "PRIORITY", wide: true, Cell: func(i client.Instance) string { return i.Priority }},
			{Title: "GROUP", wide: true, Cell: func(i client.Instance) string { return string(i.Group) }},
			{Title: "LABELS", wide: true, Cell: func(i client.Instance) string { return labels(i.Metadata, " ") }},
			{Title: "WHY", Cell: why},
		},
	}
}

// kind is a flavor with what was chosen: "m1.small gpu=a100".
func kind(f compute.FlavorName, with compute.Choices) string {
	return strings.TrimSpace(string(f) + " " + choices(with))
}

func attempt(i client.Instance) string {
	if i.Attempt == 0 {
		return ""
	}
	n := int64(i.Attempt)
	if i.Set != nil {
		n = int64(len(i.Failures)) + 1 // what its set gives back is an attempt too, and none that counts
	}
	return HumanSize("", n) + "/" + HumanSize("", int64(i.Attempts))
}

// why is what keeps an instance from running, in plain words.
func why(i client.Instance) string {
	switch {
	case i.State == "unknown":
		return "host " + string(i.Host) + " is silent"
	case i.Waiting != nil && i.Reason != nil:
		return i.Waiting.Message + " (" + i.Reason.Message + ")"
	case i.Waiting != nil:
		return i.Waiting.Message
	case i.Reason != nil:
		return i.Reason.Message
	case i.Stopped != nil:
		return i.Stopped.Message
	}
	return ""
}

// doing is the state, and with it what an active machine does if it does not run.
func doing(i client.Instance) string {
	if i.State == "active" && i.Power != "" && i.Power != "running" {
		return "active, " + i.Power
	}
	return string(i.State)
}

// ToneOf is how the state of something is to be seen.
func ToneOf(state string) terminal.Tone {
	switch word, _, _ := strings.Cut(state, ","); word {
	case "active", "enabled", "open":
		if word != state { // it is there, and does not run
			return terminal.Busy
		}
		return terminal.Good
	case "error", "unknown", "silent", "quarantined", "dead", "failed":
		return terminal.Bad
	case "deleted", "disabled", "closed":
		return terminal.Gone
	}
	return terminal.Busy
}

// choices is "disk=ssd gpu=a100".
func choices(with compute.Choices) string {
	var parts []string
	for _, axis := range slices.Sorted(maps.Keys(with)) {
		parts = append(parts, string(axis)+"="+string(with[axis]))
	}
	return strings.Join(parts, " ")
}
