// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
)

func newShow(s *settings) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "show NAME|ID|PREFIX",
		Short: "Show an instance with all that is known of it",
		Args:  cobra.ExactArgs(1),
		RunE: s.about(func(cmd *cobra.Command, c *client.Client, out Format, i client.Instance) error {
			now := time.Now()
			details := func(i client.Instance) []detail { return instanceDetails(i, now) }
			err := instanceSheet(now).one(cmd.OutOrStdout(), out, i, details)
			if err != nil || !watch {
				return err
			}
			return watchInstance(cmd, c, out, i)
		}),
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "then a line for each change, until it has ended")
	return cmd
}

// errEnded is that an instance has ended, and nothing more is to be told of it.
var errEnded = errors.New("ended")

// watchInstance prints what changes of an instance from what was shown on, until it has ended.
func watchInstance(cmd *cobra.Command, c *client.Client, out Format, i client.Instance) error {
	lines := newEventLines(cmd, out, false)
	lines.apart = true
	ask := client.Follow{Instance: i.ID, Present: true, Lost: lines.lost}
	shown := i.Version
	err := followEvents(cmd.Context(), c, ask, func(t client.Told) error {
		switch {
		case t.Kind == client.ToldGap:
			return lines.told(t)
		case t.Kind == client.ToldPresented && i.State.Compute().Ended():
			return errEnded
		case t.Kind == client.ToldPresented, t.Event.Version <= shown && t.Kind != client.ToldRemoved:
			return nil
		}
		shown, i.State = t.Event.Version, t.Event.State
		if err := lines.told(t); err != nil {
			return err
		}
		if t.Event.State.Compute().Ended() {
			return errEnded
		}
		return nil
	})
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}

// about is what a command does that is about the one instance that its argument means.
func (s *settings) about(
	do func(cmd *cobra.Command, c *client.Client, out Format, i client.Instance) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, out, err := s.open()
		if err != nil {
			return err
		}
		defer c.Close()
		i, err := resolve(cmd.Context(), c, cmd.ErrOrStderr(), args[0])
		if err != nil {
			return err
		}
		return do(cmd, c, out, i)
	}
}

func instanceDetails(i client.Instance, now time.Time) []detail {
	when := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return fmt.Sprintf("%s (%s ago)", ShownTime(t), Short(now.Sub(t)))
	}
	deadline := ""
	if i.State == "queued" && !i.Deadline.IsZero() {
		deadline = "in " + Short(i.Deadline.Sub(now))
	}
	asked, answered := "", ""
	if c := i.Command; c != nil {
		asked = c.Op + ", " + when(c.At) + ", not answered yet"
	}
	if a := i.Answer; a != nil {
		answered = a.Op + ", " + when(a.At)
		if a.Failed != "" {
			answered += ", failed: " + Printable(a.Failed)
		}
	}
	return []detail{
		{"Name", i.Name}, {"ID", string(i.ID)}, {"Project", string(i.Project)},
		{"State", string(i.State)}, {"Why", why(i)}, {"Power", i.Power}, {"Asked", asked}, {"Answered", answered},
		{"Flavor", string(i.Flavor)}, {"With", choices(i.With)}, {"Queue", string(i.Queue)},
		{"Uses", humanResources(i.Resources)}, {"Image", i.Image},
		{"Labels", labels(i.Metadata, "\n")}, {"SSH keys", strings.Join(i.SSHKeys, "\n")},
		{"Host", string(i.Host)}, {"Only on", string(i.PinnedTo)}, {"Never on", joined(i.Avoid)},
		{"Group", string(i.Group)}, {"Set", setOf(i)}, {"Reservation", string(i.Reservation)}, {"Room of", roomOf(i)},
		{"Placeholder", placeholder(i)}, {"Priority", i.Priority},
		{"Preemptible", preemptible(i)}, {"Notice", notice(i, now)}, {"Made room", madeRoom(i)},
		{"Attempt", attempt(i)}, {"Failures", failureLines(i.Failures)},
		{"Accepted", when(i.AcceptedAt)}, {"Queued", when(i.QueuedAt)}, {"Deadline", deadline},
		{"Starting", when(i.StartingAt)}, {"Active", when(i.ActiveAt)}, {"Ended", when(i.EndedAt)},
	}
}

// preemptible is what becomes of an instance whose place is taken.
func preemptible(i client.Instance) string {
	if p := i.Preemptible; p != nil && p.Grace != nil {
		return fmt.Sprintf("%s, with %s for its guest", p.Then, p.Grace)
	}
	return ""
}

// notice is that an instance is taken away, or was.
func notice(i client.Instance, now time.Time) string {
	n := i.Notice
	if n == nil {
		return ""
	}
	what := fmt.Sprintf("its place on %s is taken for work of priority %s in queue %s", n.Host, n.Priority, n.Queue)
	if !n.Over.IsZero() {
		return fmt.Sprintf("%s, over since %s", what, Short(now.Sub(n.Over)))
	}
	return fmt.Sprintf("%s; its guest may run until %s, then: %s", what, ShownTime(n.Until), n.Then)
}

// madeRoom is how many machines went for an instance.
func madeRoom(i client.Instance) string {
	if i.MadeRoom == 0 {
		return ""
	}
	return fmt.Sprintf("preemptible machines taken away for it: %d", i.MadeRoom)
}

// setOf is the set of an instance.
func setOf(i client.Instance) string {
	switch s := i.Set; {
	case s == nil:
		return ""
	case s.Granted:
		return fmt.Sprintf("one of %d, granted together; the first is %s", s.Size, s.ID)
	default:
		return fmt.Sprintf("one of %d, of which all start or none; the first is %s", s.Size, s.ID)
	}
}

// roomOf is the placeholder whose room an instance has.
func roomOf(i client.Instance) string {
	if i.In == "" {
		return ""
	}
	return "placeholder " + string(i.In)
}

// placeholder is what an instance without a machine holds room for.
func placeholder(i client.Instance) string {
	p := i.Placeholder
	if p == nil {
		return ""
	}
	what := "of reservation " + string(p.Reservation) + ", without a machine"
	if !p.From.IsZero() {
		what += ", from " + ShownTime(p.From)
	}
	if !p.Until.IsZero() {
		what += ", until " + ShownTime(p.Until)
	}
	if p.Taker != "" {
		what += "; taken by " + string(p.Taker)
	}
	return what
}

// failureLines is a line for each attempt that failed.
func failureLines(all []client.Failure) string {
	var lines []string
	for _, f := range all {
		lines = append(
			lines,
			fmt.Sprintf("attempt %d on %s (%s): %s", f.Attempt, f.Host, f.Class, Printable(f.Message)),
		)
	}
	return strings.Join(lines, "\n")
}

// bare is a part of a label, in quotes where it would read as more than one.
func bare(text string) string {
	if strings.ContainsFunc(
		text,
		func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == '=' || r == '"' },
	) {
		return strconv.Quote(text)
	}
	return text
}

// labels are all of them, in order.
func labels(all map[string]string, between string) string {
	var each []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		each = append(each, bare(key)+"="+bare(all[key]))
	}
	return strings.Join(each, between)
}

func newExplain(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "explain NAME|ID|PREFIX",
		Short: "Explain where an instance is, or why it is not placed",
		Long: `Say where an instance is and why, what happens next and when, and what can be done.

While it is queued, every host is held against it, by what hosts said last: how many can take it now, how
many once something changes there, and how many never. Operators see the hosts that are nearest to taking it.`,
		Example: "  berth explain web-1\n  berth explain web-1 -o json",
		Args:    cobra.ExactArgs(1),
		RunE: s.about(func(cmd *cobra.Command, c *client.Client, out Format, i client.Instance) error {
			e, err := c.Explain(cmd.Context(), i.ID)
			if err != nil {
				return err
			}
			now := time.Now()
			sheet := Sheet[client.Explanation]{Name: func(e client.Explanation) string { return string(e.ID) }}
			details := func(e client.Explanation) []detail { return explanation(e, now) }
			return sheet.one(cmd.OutOrStdout(), out, e, details)
		}),
	}
}

func explanation(e client.Explanation, now time.Time) []detail {
	out := []detail{
		{"Instance", strings.TrimSpace(e.Name + " " + string(e.ID))}, {"State", string(e.State)}, {"Why", e.Summary},
	}
	if p := e.Place; p != nil && p.Depth > 0 {
		out = append(out, detail{"In line", fmt.Sprintf("%d of %d in queue %s, the first since %s",
			p.Position+1, p.Depth, e.Queue, Short(now.Sub(p.Oldest)))})
	}
	if e.Hosts != nil {
		out = append(out, standings(*e.Hosts)...)
	}
	var next []string
	for _, n := range e.Next {
		when := ""
		if !n.At.IsZero() {
			when = "in " + Short(n.At.Sub(now)) + ": "
		}
		next = append(next, when+n.What)
	}
	return append(out, detail{"Failures", failureLines(e.Failures)}, detail{"Next", strings.Join(next, "\n")},
		detail{"You can", strings.Join(e.YouCan, "\n")}, detail{"Operators can", strings.Join(e.OperatorsCan, "\n")})
}

func standings(h client.Standings) []detail {
	const most = 3 // -o json has more
	var near []string
	for _, n := range h.Nearest[:min(most, len(h.Nearest))] {
		near = append(near, nearest(n))
	}
	return []detail{
		{"Hosts", fmt.Sprintf("%d can take it now, %d later, %d never", h.Now, h.Later, h.Never)},
		{"Room", fmt.Sprintf("%d of its kind now, %d if all were empty", h.Room, h.Empty)},
		{"Nearest", strings.Join(near, "\n")},
	}
}

// nearest is a host that is near to taking it, in a line.
func nearest(n client.HostStanding) string {
	parts := []string{string(n.Host) + ": " + n.Standing}
	if len(n.Short) > 0 {
		parts = append(parts, "short of "+humanResources(n.Short))
	}
	for _, t := range n.Traits {
		parts = append(parts, string(t))
	}
	if n.Reason != "" {
		parts = append(parts, Printable(n.Reason))
	}
	if n.Room > 0 {
		parts = append(parts, fmt.Sprintf("room for %d", n.Room))
	}
	return strings.Join(parts, ", ")
}
