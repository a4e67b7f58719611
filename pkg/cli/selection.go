// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// selection is which instances a command ends or changes: those that are named, or those with such labels.
type selection struct {
	labels      []string
	prefix, yes bool
	states      []compute.State // of those with labels; none: all but deleted
}

// flags are added to a command.
func (s *selection) flags(cmd *cobra.Command) {
	prefixFlag(cmd, &s.prefix)
	selectorFlag(cmd, &s.labels, "all of the project with such labels, as berth list takes them")
	cmd.Flags().BoolVarP(&s.yes, "yes", "y", false, "with --label: do not ask")
}

// args refuses names and labels at once, and neither.
func (s *selection) args(cmd *cobra.Command, args []string) error {
	switch {
	case len(s.labels) == 0 && !cmd.Flag("label").Changed:
		return cobra.MinimumNArgs(1)(cmd, args)
	case len(args) > 0:
		return compute.Invalid("label", strings.Join(s.labels, ","), "name instances, or give labels, not both")
	case s.prefix:
		return compute.Invalid("prefix", "true", "it is about names: leave it out, or --label")
	}
	return checkSelector(cmd, s.labels)
}

// of are the instances that are meant. With an error nothing is to be done to any.
func (s *selection) of(cmd *cobra.Command, c *client.Client, verb string, args []string) ([]client.Instance, error) {
	if len(s.labels) == 0 {
		return targets(cmd.Context(), c, cmd.ErrOrStderr(), args, s.prefix)
	}
	found, err := c.Instances(cmd.Context(), client.Filter{Labels: s.labels, States: s.states})
	if err != nil || len(found) == 0 {
		return found, err
	}
	return found, s.ask(cmd, c, verb, found)
}

// ask asks before something is done to all that have labels.
func (s *selection) ask(cmd *cobra.Command, c *client.Client, verb string, found []client.Instance) error {
	if s.yes {
		return nil
	}
	what := fmt.Sprintf("%s of project %s: %s", Plural(len(found), "instance"), c.Project(), firstNames(found))
	if in, is := cmd.InOrStdin().(*os.File); is && !term.IsTerminal(int(in.Fd())) {
		return compute.Invalid("yes", "false", fmt.Sprintf("nobody can be asked here: to %s %s, give --yes", verb, what))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "To %s: %s.\nGo on? [y/N] ", verb, what)
	answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return compute.Conflict("answer", strings.TrimSpace(answer), "is not yes", "nothing was done")
}

// selectorFlag lets a command select by labels.
func selectorFlag(cmd *cobra.Command, labels *[]string, usage string) {
	cmd.Flags().StringSliceVarP(labels, "label", "l", nil, usage)
}

// checkSelector refuses what is no selector before anything is asked. An empty one would select all.
func checkSelector(cmd *cobra.Command, labels []string) error {
	if len(labels) == 0 && cmd.Flag("label").Changed {
		labels = []string{""}
	}
	_, err := compute.ParseSelector(labels)
	return err
}

// hide takes a flag out of the help that is there for who knew it by another name.
func hide(flags *pflag.FlagSet, name string) {
	if err := flags.MarkHidden(name); err != nil {
		panic(err) // it was added above
	}
}
