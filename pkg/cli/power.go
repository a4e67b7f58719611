// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

func newPower(s *settings, op compute.RequestOp) *cobra.Command {
	p := powering{op: op}
	p.chosen.states = []compute.State{compute.StateActive}
	long := map[compute.RequestOp]string{
		compute.OpStop: "Stop machines. Guests are asked to shut down, and cut off if they do not within 30 s.\n" +
			"They keep their share of their host and of the quota.",
		compute.OpStart:  "Start stopped machines again, from their disks.",
		compute.OpReboot: "Reboot running machines: soft as stop and start do, with --hard by a reset.",
	}[op]
	cmd := &cobra.Command{
		Use: op.String() + " NAME|ID... | -l LABEL",
		Short: map[compute.RequestOp]string{
			compute.OpStop: "Stop machines", compute.OpStart: "Start stopped machines",
			compute.OpReboot: "Reboot machines",
		}[op],
		Long: long + `

Each is named by its whole name or its whole id; with --prefix the beginning of
either will do. What may mean several does nothing to any: the candidates are
listed. With --label all active ones of the project that have such labels are
meant, and how many that are is asked before. Returns once the requests cannot
be lost; with --wait, once the hosts have answered.`,
		Args: p.chosen.args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			if p.meant, err = p.chosen.of(cmd, c, op.String(), args); err != nil {
				return err
			}
			done, err := p.all(cmd, c)
			if len(done) == 0 && err != nil {
				return err
			}
			if printed := instanceSheet(time.Now()).List(cmd.OutOrStdout(), out, done); err == nil {
				err = printed
			}
			return err
		},
	}
	if op != compute.OpStart {
		cmd.Flags().BoolVar(&p.hard, "hard", false, "at once, without asking the guest")
	}
	p.chosen.flags(cmd)
	cmd.Flags().BoolVar(&p.wait, "wait", false, "wait until the hosts have answered")
	timeoutFlag(cmd, &p.timeout, defaultWait, "how long --wait waits; 0 waits for ever")
	return cmd
}

// powering is one use of stop, start or reboot.
type powering struct {
	op         compute.RequestOp
	chosen     selection
	hard, wait bool
	timeout    time.Duration
	meant      []client.Instance // as they were before
}

// all asks for all of them and, if wanted, waits for their hosts.
func (p *powering) all(cmd *cobra.Command, c *client.Client) ([]client.Instance, error) {
	var ids []compute.InstanceID
	commands := map[compute.InstanceID]*command{}
	var w *watch
	if p.wait {
		w = watchInstances(cmd.Context(), c, idsOf(p.meant))
		defer w.close()
	}
	done, failed := p.chosen.all(p.meant, func(i client.Instance) error {
		asked, err := c.Power(cmd.Context(), i.ID, p.op, compute.CommandID(uuid.NewString()), p.hard)
		if err == nil {
			ids, commands[i.ID] = append(ids, i.ID), newCommand(i, asked.Command)
		}
		return err
	})
	switch {
	case len(done) == 0:
		return nil, failed
	case !p.wait:
		now, err := p.show(cmd.Context(), c, ids)
		return now, cmp.Or(failed, err)
	}
	now, err := waitInstances(
		cmd.Context(),
		c,
		w,
		newLiveLine(cmd.ErrOrStderr()),
		p.timeout,
		ids,
		func(i client.Instance) bool {
			return powered(i, commands[i.ID].id) || i.State != "active" && i.State != "unknown" ||
				commands[i.ID].overtaken(i, time.Now())
		},
	)
	for _, i := range now {
		if err == nil {
			err = p.failure(i, commands[i.ID].id)
		}
	}
	return now, cmp.Or(failed, err)
}

func (p powering) show(ctx context.Context, c *client.Client, ids []compute.InstanceID) ([]client.Instance, error) {
	return c.Instances(ctx, client.Filter{IDs: ids, All: true})
}

// powered says that the host has answered this command.
func powered(now client.Instance, c compute.CommandID) bool {
	return now.Answer != nil && now.Answer.Command == c
}

// command is one that is waited for. Another may have been given before it and be read after the instance was looked
// at, as in `berth stop web; berth start web --wait`.
type command struct {
	id         compute.CommandID
	before     map[compute.CommandID]bool // the instance had these already
	seen       bool                       // the instance has shown it: what comes now came after it
	doubtSince time.Time                  // when another was first seen that may have come before or after; zero: none was
}

// readWithin is how long after another command a conductor may read the awaited one, if that came second: one may have
// to take over first. A wait that has missed the awaited one ends that much later.
const readWithin = time.Minute

func newCommand(i client.Instance, id compute.CommandID) *command {
	c := &command{id: id, before: map[compute.CommandID]bool{}}
	for _, was := range commandsOf(i) {
		c.before[was] = true
	}
	return c
}

// overtaken says whether another command has taken its place.
func (c *command) overtaken(i client.Instance, now time.Time) bool {
	shown := commandsOf(i)
	if slices.Contains(shown, c.id) {
		c.seen = true
		return false
	}
	if !slices.ContainsFunc(shown, func(other compute.CommandID) bool { return !c.before[other] }) {
		return false
	}
	if c.doubtSince.IsZero() {
		c.doubtSince = now
	}
	return c.seen || now.Sub(c.doubtSince) >= readWithin
}

// commandsOf are the commands that an instance shows: the one that is not answered yet, and the last that was.
func commandsOf(i client.Instance) (ids []compute.CommandID) {
	if i.Command != nil {
		ids = append(ids, i.Command.Command)
	}
	if i.Answer != nil {
		ids = append(ids, i.Answer.Command)
	}
	return ids
}

// failure is why the command was not carried out; nil if it was.
func (p powering) failure(i client.Instance, c compute.CommandID) error {
	e := &compute.Error{Kind: compute.KindConflict, Field: "instance", Value: i.Name}
	switch {
	case powered(i, c) && i.Answer.Failed == "":
		return nil
	case powered(i, c):
		e.Kind, e.Message = compute.KindInternal, fmt.Sprintf("%s failed on %s: %s", p.op, i.Host, i.Answer.Failed)
	case i.State != "active":
		e.Message = fmt.Sprintf("is %s: there is nothing to %s any more", i.State, p.op)
	default:
		e.Message = "another command came after this " + p.op.String()
	}
	return e
}
