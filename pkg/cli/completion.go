// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// completions have a shell offer names that there are, as the API node that the command line names knows them.
type completions struct{ s *settings }

// patience is how long somebody who has pressed tab waits for names.
const patience = 2 * time.Second

// bashSelectors makes the script for bash offer commas and exclamation marks as they are. Cobra's escapes them, and
// then does not know what is offered as what was typed, so that "-l a=1,b=" would become "-l a=1,b=a=1\,b=2".
func bashSelectors(script string) string {
	const before = `    __berth_handle_special_char "$cur" :`
	const bare = `    if ((${#COMPREPLY[@]} > 0)); then
        COMPREPLY=("${COMPREPLY[@]//\\,/,}")
        COMPREPLY=("${COMPREPLY[@]//\\!/!}")
    fi
`
	return strings.Replace(script, before, bare+before, 1)
}

// addScripts adds the command that prints the scripts for shells.
func addScripts(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	bash, _, err := root.Find([]string{"completion", "bash"})
	if err != nil {
		panic(err) // cobra has just made it
	}
	bash.RunE = func(cmd *cobra.Command, _ []string) error {
		bare, err := cmd.Flags().GetBool("no-descriptions")
		if err != nil {
			return err
		}
		var script strings.Builder
		if err := root.GenBashCompletionV2(&script, !bare); err != nil {
			return err
		}
		_, err = io.WriteString(cmd.OutOrStdout(), bashSelectors(script.String()))
		return err
	}
}

// names are all of one kind that begin with what is typed, as far as that is known.
type names func(ctx context.Context, c *client.Client, typed string) ([]string, error)

// add gives every command below the names of what its use line and its flags ask for.
func (o completions) add(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		o.add(sub)
	}
	if strings.HasSuffix(cmd.Use, " AXIS [VALUE...]") {
		cmd.ValidArgsFunction = o.axisThenValues
	}
	if kind := argument(cmd); kind != nil && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = o.offer(bareWords(kind), strings.HasSuffix(firstArgument(cmd), "..."))
	}
	if cmd.LocalNonPersistentFlags().Lookup("label") != nil {
		o.register(cmd, "label", labelWords(cmd))
	}
	for flag, kind := range map[string]names{
		"flavor": flavorNames, "group": groupNames, "reservation": reservationNames, "host": hostNames, "avoid": hostNames,
		"queue": queueNames, "with": choiceNames,
		"project": projectNames, "state": words(compute.States()),
		"priority": words(compute.Priorities()),
		"output":   words([]Format{FormatTable, FormatWide, FormatJSON, FormatYAML, formatName}),
	} {
		if f := cmd.LocalNonPersistentFlags().Lookup(flag); f == nil && cmd.PersistentFlags().Lookup(flag) == nil {
			continue
		}
		o.register(cmd, flag, bareWords(kind))
	}
}

func (o completions) register(cmd *cobra.Command, flag string, kind names) {
	if err := cmd.RegisterFlagCompletionFunc(flag, o.offer(kind, true)); err != nil {
		panic(err) // the flag is there
	}
}

// firstArgument is what the use line has behind the command, as in "HOST", or "NAME|ID..." of a command that takes
// several.
func firstArgument(cmd *cobra.Command) string {
	_, takes, _ := strings.Cut(cmd.Use, " ")
	takes, _, _ = strings.Cut(takes, " ")
	return strings.Trim(takes, "[]")
}

// argument is what a command takes: by its use line, and by the group that it is in.
func argument(cmd *cobra.Command) names {
	switch strings.TrimSuffix(firstArgument(cmd), "...") {
	case "NAME|ID", "NAME|ID|PREFIX":
		return instanceNames
	case "HOST":
		return hostNames
	case "AXIS":
		return axisNames
	case "PROJECT":
		return projectNames
	case "QUEUE":
		return queueNames
	case "NAME":
		if cmd.Name() == "add" || cmd.Name() == "create" || cmd.Name() == "reserve" || cmd.Parent() == nil {
			return nil
		}
		switch cmd.Parent().Name() {
		case "flavor":
			return flavorNames
		case "queue":
			return queueNames
		case "group":
			return groupNames
		case "reservation":
			return reservationNames
		}
	}
	return nil
}

// offer asks the API node. Whatever is wrong, nothing is offered: a prompt is no place for errors.
func (o completions) offer(kind names, more bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !more {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), patience)
		defer cancel()
		c, _, err := o.s.open()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		all, err := kind(ctx, c, typed)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all = slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, typed) })
		slices.Sort(all)
		all = slices.Compact(all)
		if slices.ContainsFunc(all, func(name string) bool { return strings.HasSuffix(name, "=") }) {
			return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace // a value comes next
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

// bareWord is a word that no shell reads as anything but itself, and no command as a flag. Shells put what is offered
// into the line that they run, quoted or not, and whoever may boot names instances.
var bareWord = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// bareWords leaves out what is no bareWord, or two with a = between them.
func bareWords(kind names) names {
	return func(ctx context.Context, c *client.Client, typed string) ([]string, error) {
		all, err := kind(ctx, c, typed)
		return slices.DeleteFunc(all, func(name string) bool {
			return !bareWord.MatchString(strings.Replace(name, "=", "", 1))
		}), err
	}
}

// instanceNames are one page of them: more are no help to choose from. Of one whose name is no bareWord it is the id.
func instanceNames(ctx context.Context, c *client.Client, typed string) ([]string, error) {
	f := client.Filter{Ref: typed, Fields: []string{"id", "name", "state"}}
	for page, err := range c.InstancePages(ctx, f) {
		var out []string
		for _, i := range page {
			if string(i.State) == compute.StateDeleted.String() {
				continue
			}
			if bareWord.MatchString(i.Name) && strings.HasPrefix(i.Name, typed) {
				out = append(out, i.Name)
			} else {
				out = append(out, string(i.ID))
			}
		}
		return out, err
	}
	return nil, nil
}

func flavorNames(ctx context.Context, c *client.Client, _ string) ([]string, error) {
	return each(c.Flavors(ctx))(func(f client.Flavor) string { return string(f.Name) })
}

func hostNames(ctx context.Context, c *client.Client, _ string) ([]string, error) {
	return each(c.Hosts(ctx))(func(h client.Host) string { return string(h.Host) })
}

func queueNames(ctx context.Context, c *client.Client, _ string) ([]string, error) {
	return each(c.Queues(ctx, ""))(func(q client.Queue) string { return string(q.Name) })
}

func axisNames(ctx context.Context, c *client.Client, _ string) ([]string, error) {
	return each(c.Capabilities(ctx))(func(a client.Capability) string { return string(a.Axis) })
}

func projectNames(ctx context.Context, c *client.Client, _ string) ([]string, error) {
	return each(c.Quotas(ctx))(func(q client.Quota) string { return string(q.Project) })
}

// axisThenValues completes an axis, and behind it those of its values that are not in the line yet.
func (o completions) axisThenValues(
	cmd *cobra.Command, args []string, typed string,
) ([]string, cobra.ShellCompDirective) {
	kind := axisNames
	if len(args) > 0 {
		kind = func(ctx context.Context, c *client.Client, _ string) (out []string, err error) {
			a, err := c.Capability(ctx, compute.AxisName(args[0]))
			for _, v := range a.Values {
				if !slices.Contains(args[1:], string(v.Value)) {
					out = append(out, string(v.Value))
				}
			}
			return out, err
		}
	}
	return o.offer(bareWords(kind), true)(cmd, args, typed)
}

// choiceNames are "gpu=a100" for every axis and value.
func choiceNames(ctx context.Context, c *client.Client, _ string) (out []string, err error) {
	axes, err := c.Capabilities(ctx)
	for _, a := range axes {
		for _, v := range a.Values {
			out = append(out, string(a.Axis)+"="+string(v.Value))
		}
	}
	return out, err
}

func each[T any](items []T, err error) func(func(T) string) ([]string, error) {
	return func(name func(T) string) ([]string, error) {
		var out []string
		for _, item := range items {
			out = append(out, name(item))
		}
		return out, err
	}
}

// words are names that are always the same.
func words[T any](all []T) names {
	return func(context.Context, *client.Client, string) ([]string, error) {
		return each(all, nil)(func(word T) string { return fmt.Sprint(word) })
	}
}

func groupNames(ctx context.Context, c *client.Client, _ string) ([]string, error) {
	all, err := c.Groups(ctx)
	var out []string
	for _, g := range all {
		out = append(out, string(g.Name))
	}
	return out, err
}
