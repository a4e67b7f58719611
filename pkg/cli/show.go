// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
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
			details := func(i client.Instance) []detail { return instanceDetails(i, now) }
			return instanceSheet(now).one(cmd.OutOrStdout(), out, i, details)
		},
	}
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
