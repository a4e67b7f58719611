// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
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
	case len(s.labels) == 0:
		return cobra.MinimumNArgs(1)(cmd, args)
	case len(args) > 0:
		return compute.Invalid("label", strings.Join(s.labels, ","), "name instances, or give labels, not both")
	case s.prefix:
		return compute.Invalid("prefix", "true", "it is about names: leave it out, or --label")
	}
	return nil
}

// of are the instances that are meant. With an error nothing is to be done to any.
func (s *selection) of(cmd *cobra.Command, c *client.Client, verb string, args []string) ([]client.Instance, error) {
	if len(s.labels) == 0 {
		return targets(cmd.Context(), c, cmd.ErrOrStderr(), args, s.prefix)
	}
	found, err := c.Instances(cmd.Context(), client.Filter{Labels: s.labels, States: s.states, Fresh: true})
	if err != nil || len(found) == 0 {
		return found, err
	}
	return found, s.ask(cmd, c, verb, found)
}

// idsOf are the ids of some instances.
func idsOf(all []client.Instance) (ids []compute.InstanceID) {
	for _, i := range all {
		ids = append(ids, i.ID)
	}
	return ids
}

// ask asks before something is done to all that have labels.
func (s *selection) ask(cmd *cobra.Command, c *client.Client, verb string, found []client.Instance) error {
	if s.yes {
		return nil
	}
	what := fmt.Sprintf("%s of project %s: %s", Plural(len(found), "instance"), c.Project(), firstNames(found))
	if in, is := cmd.InOrStdin().(*os.File); is && !term.IsTerminal(int(in.Fd())) {
		return compute.Invalid(
			"yes",
			"false",
			fmt.Sprintf("nobody can be asked here: to %s %s, give --yes", verb, what),
		)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "To %s: %s.\nGo on? [y/N] ", verb, what)
	answer, err := input(cmd.Context(), func() (string, error) {
		line, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // the end of input is no yes
		return strings.TrimSpace(line), nil
	})
	if err != nil {
		return err
	}
	if a := strings.ToLower(answer); a == "y" || a == "yes" {
		return nil
	}
	return compute.Conflict("answer", answer, "is not yes", "nothing was done")
}

// readInput is all that comes on standard input. It ends early if the command is called off.
func readInput(ctx context.Context, stdin io.Reader) ([]byte, error) {
	return input(ctx, func() ([]byte, error) { return io.ReadAll(stdin) })
}

// input is what is read of standard input. It ends early if the command is called off.
func input[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		is  T
		err error
	}
	said := make(chan result, 1)
	go func() { // reading does not end with the command, but with the process
		is, err := read()
		said <- result{is, err}
	}()
	select {
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case r := <-said:
		return r.is, r.err
	}
}

// all does something to each that is meant, and answers those to which it was done. Of several with labels one that is
// gone meanwhile, or in a state that does not allow it, keeps nobody from the others: the error says which were left.
func (s *selection) all(meant []client.Instance, do func(client.Instance) error) (done []client.Instance, err error) {
	var left []client.Instance
	for _, i := range meant {
		switch failed := do(i); {
		case failed == nil:
			done = append(done, i)
		case len(s.labels) == 0:
			return done, failed
		default:
			if left = append(left, i); err == nil {
				err = failed
			}
			if kind := compute.KindOf(failed); kind != compute.KindConflict && kind != compute.KindNotFound {
				return done, s.leftOut(meant, done, err)
			}
		}
	}
	if len(left) > 0 {
		err = s.leftOut(meant, done, err)
	}
	return done, err
}

// leftOut says of how many it was not done, and which these are.
func (s *selection) leftOut(meant, done []client.Instance, err error) error {
	not := slices.DeleteFunc(slices.Clone(meant), func(i client.Instance) bool {
		return slices.ContainsFunc(done, func(d client.Instance) bool { return d.ID == i.ID })
	})
	return fmt.Errorf(
		"%d of %s were asked, and not %s: %w",
		len(done),
		Plural(len(meant), "instance"),
		firstNames(not),
		err,
	)
}

// selectorFlag lets a command select by labels.
func selectorFlag(cmd *cobra.Command, labels *[]string, usage string) {
	cmd.Flags().VarP((*selector)(labels), "label", "l", usage)
}

// selector is the value of such a flag: requirements, several with commas between them, or the flag several times. An
// empty one is refused, as all that is none: it would select all.
type selector []string

func (s *selector) Set(text string) error {
	parts := strings.Split(text, ",")
	if _, err := compute.ParseSelector(parts); err != nil {
		return err
	}
	*s = append(*s, parts...)
	_, err := compute.ParseSelector(*s)
	return err
}

func (s *selector) String() string { return strings.Join(*s, ",") }

// Type is what the help calls it.
func (s *selector) Type() string { return "labels" }
