package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

func newShow(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME|ID|PREFIX",
		Short: "Show an instance with all that is known of it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			i, err := resolve(cmd.Context(), c, cmd.ErrOrStderr(), args[0])
			if err != nil {
				return err
			}
			now := time.Now()
			return instanceSheet(now).one(cmd.OutOrStdout(), out, i, func(i client.Instance) []detail { return instanceDetails(i, now) })
		},
	}
}

// resolve finds the one instance a person means. If it may be several, it lists
// them and refuses: nothing is ever done to one that was not meant.
func resolve(ctx context.Context, c *client.Client, candidates io.Writer, ref string) (client.Instance, error) {
	found, err := c.Instances(ctx, client.Filter{Ref: ref})
	if err != nil {
		return client.Instance{}, err
	}
	switch len(found) {
	case 0:
		return client.Instance{}, compute.NotFound("instance", ref, "berth list shows those of project "+string(c.Project()))
	case 1:
		return found[0], nil
	}
	if err := instanceSheet(time.Now()).list(candidates, formatTable, found); err != nil {
		return client.Instance{}, err
	}
	return client.Instance{}, compute.Conflict("instance", ref, fmt.Sprintf("may mean %d instances", len(found)), "give more of its id or name")
}

func instanceDetails(i client.Instance, now time.Time) []detail {
	when := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return fmt.Sprintf("%s (%s ago)", t.Local().Format(time.DateTime), short(now.Sub(t)))
	}
	failures := ""
	for _, f := range i.Failures {
		failures += fmt.Sprintf("\nattempt %d on %s (%s): %s", f.Attempt, f.Host, f.Class, printable(f.Message))
	}
	if failures != "" {
		failures = failures[1:]
	}
	deadline := ""
	if i.State == "queued" && !i.Deadline.IsZero() {
		deadline = "in " + short(i.Deadline.Sub(now))
	}
	asked, answered := "", ""
	if c := i.Command; c != nil {
		asked = c.Op + ", " + when(c.At) + ", not answered yet"
	}
	if a := i.Answer; a != nil {
		answered = a.Op + ", " + when(a.At)
		if a.Failed != "" {
			answered += ", failed: " + printable(a.Failed)
		}
	}
	return []detail{
		{"Name", i.Name}, {"ID", string(i.ID)}, {"Project", string(i.Project)},
		{"State", string(i.State)}, {"Why", why(i)}, {"Power", i.Power}, {"Asked", asked}, {"Answered", answered},
		{"Flavor", string(i.Flavor)}, {"With", choices(i.With)}, {"Queue", string(i.Queue)},
		{"Uses", humanResources(i.Resources)}, {"Image", i.Image},
		{"Host", string(i.Host)}, {"Only on", string(i.PinnedTo)}, {"Never on", joined(i.Avoid)},
		{"Attempt", attempt(i)}, {"Failures", failures},
		{"Accepted", when(i.AcceptedAt)}, {"Queued", when(i.QueuedAt)}, {"Deadline", deadline},
		{"Starting", when(i.StartingAt)}, {"Active", when(i.ActiveAt)}, {"Ended", when(i.EndedAt)},
	}
}
