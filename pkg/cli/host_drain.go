// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// drain is one use of host drain.
type drain struct {
	reason            string
	deadline, timeout time.Duration
	wait              bool
}

func newHostDrain(s *settings) *cobra.Command {
	var d drain
	cmd := &cobra.Command{
		Use: "drain HOST", Short: "Make no more offers, so that the host can be emptied", Args: cobra.ExactArgs(1),
		Long: `Make no more offers, so that the host can be emptied.

What it builds is finished, and what is on it stays until somebody deletes it: Berth
moves no machine and ends none by itself. Nor does the deadline end anything: it is
shown with the host, and so is that it has passed. A later drain takes the place of
this one, its deadline too; berth host enable calls it off.

With --wait, exit code 0 says that the host is empty, 9 that the deadline has passed and
what is left (berth host instances shows it too), 8 that the drain was called off, 7
that --timeout is over.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("deadline") && d.deadline <= 0 {
				return compute.Invalid("deadline", d.deadline.String(), "give a duration above 0, as in 10m")
			}
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			return d.run(cmd, c, out, compute.HostID(args[0]))
		},
	}
	cmd.Flags().StringVar(&d.reason, "reason", "", "shown with the host")
	mayBeEmpty(cmd.Flags(), "reason")
	cmd.Flags().DurationVar(&d.deadline, "deadline", 0, "when it should be empty, from now (default: no hurry)")
	cmd.Flags().BoolVar(&d.wait, "wait", false, "wait until the host is empty, or its deadline has passed")
	timeoutFlag(cmd, &d.timeout, 0, "how long --wait waits at most; 0 waits for ever")
	return cmd
}

func (d drain) run(cmd *cobra.Command, c *client.Client, f Format, host compute.HostID) error {
	var by time.Time
	if d.deadline > 0 {
		by = time.Now().Add(d.deadline)
	}
	asked, err := c.Drain(cmd.Context(), host, d.reason, by)
	if err != nil {
		return err
	}
	w := emptying{asked: asked, by: by}
	if d.wait {
		live := newLiveLine(cmd.ErrOrStderr())
		err = until(
			cmd.Context(),
			d.timeout,
			func(ctx context.Context) (bool, string, error) { return w.look(ctx, c, live) },
		)
		live.end()
	} else {
		var acted bool
		if w.host, acted, err = actsSoon(cmd.Context(), c, asked); err == nil && !acted {
			tellAsked(cmd, w.host)
		}
	}
	if w.host.Host == "" {
		return err
	}
	if codeOf(err) == exitNotEmpty {
		listLeft(cmd, c, host)
	}
	if printed := hostSheet().List(cmd.OutOrStdout(), f, []client.Host{w.host}); err == nil {
		err = printed
	}
	return err
}

// listLeft shows the machines that keep a host from being empty.
func listLeft(cmd *cobra.Command, c *client.Client, host compute.HostID) {
	left, err := c.HostInstances(cmd.Context(), host)
	if err == nil {
		err = hostInstanceSheet().List(cmd.ErrOrStderr(), FormatTable, left)
	}
	if err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "what is left cannot be listed: %s\n", Printable(err.Error()))
	}
}

// notEmptyError says that a host is not empty though it should be by now.
type notEmptyError struct{ error }

func (e notEmptyError) Unwrap() error { return e.error }

// emptying is a host on its way to be empty.
type emptying struct {
	asked client.HostAsked
	by    time.Time // as asked; zero: no hurry
	host  client.Host
	off   time.Time // since when it looks called off; zero: it does not
}

// calledOff is how long a drain has to look called off before it counts as that: a host that has not read it yet may
// have obeyed a wish with a higher version before (decision 0058).
const calledOff = 3 * time.Second

// look says whether the host is empty, and ends the wait in vain once it can no
// longer come to that, or not in time.
func (w *emptying) look(ctx context.Context, c *client.Client, live *liveLine) (bool, string, error) {
	h, err := c.Host(ctx, w.asked.Host)
	if err != nil {
		return false, "", err
	}
	now := time.Now()
	w.host = h
	off := w.asked.Version < h.DesiredSeen && h.State != "draining"
	switch {
	case !off:
		w.off = time.Time{}
		if w.asked.Version < h.DesiredSeen {
			w.by = h.Deadline // of somebody's later drain
		}
	case w.off.IsZero():
		w.off = now
	}
	seen := w.status(now)
	live.show(seen)
	switch {
	case h.State == "silent":
	case off && now.Sub(w.off) < calledOff:
		return false, seen.line, nil
	case off:
		return false, "", compute.Conflict(
			"host",
			string(h.Host),
			"the drain was called off: it is "+because(h),
			"what is on it stays",
		)
	case w.asked.Version <= h.DesiredSeen && left(h) == "":
		return true, seen.line, nil
	}
	if w.by.IsZero() || now.Before(w.by) {
		return false, seen.line, nil
	}
	return false, "", notEmptyError{&compute.Error{
		Kind: compute.KindConflict, Field: "host", Value: string(h.Host),
		Message: "its deadline has passed, and it is " + w.state(),
		Remedy: "what is left stays until it is deleted, and no more comes: delete it, or drain again with " +
			"another deadline, or berth host enable " + string(h.Host),
	}}
}

// status is "host host-1 is draining, 2 machines and 1 build left, deadline in 9m".
func (w *emptying) status(now time.Time) waitStatus {
	h, news := w.host, "host "+string(w.host.Host)+" is "+w.state()
	h.Deadline = w.by
	return waitStatus{line: news + untilDeadline(h, now), news: news}
}

func (w *emptying) state() string {
	switch h := w.host; {
	case h.DesiredSeen < w.asked.Version:
		return h.State + ", and has not read yet that it is to be drained"
	case h.State == "silent":
		return "silent, " + cmp.Or(left(h), "nothing") + " left when it was last heard"
	default:
		return h.State + ", " + cmp.Or(left(h), "nothing") + " left"
	}
}

// whyNoOffers is how far a host is drained, and why it is what it is.
func whyNoOffers(h client.Host, now time.Time) string {
	drained := drainage(h, now)
	switch {
	case drained == "":
		return h.Reason
	case h.Reason == "":
		return drained
	}
	return drained + ": " + h.Reason
}

func because(h client.Host) string {
	if h.Reason == "" {
		return h.State
	}
	return h.State + " (" + Printable(h.Reason) + ")"
}

// left is what keeps a host from being empty: "2 machines and 1 build".
func left(h client.Host) string {
	var parts []string
	if h.Machines > 0 {
		parts = append(parts, Plural(int(h.Machines), "machine"))
	}
	if h.Building > 0 {
		parts = append(parts, Plural(int(h.Building), "build"))
	}
	return strings.Join(parts, " and ")
}

// untilDeadline is ", deadline in 9m" or ", deadline passed 5m ago" of a host
// that is not empty.
func untilDeadline(h client.Host, now time.Time) string {
	switch {
	case h.Deadline.IsZero() || left(h) == "":
		return ""
	case now.Before(h.Deadline):
		return ", deadline in " + Short(h.Deadline.Sub(now))
	}
	return ", deadline passed " + age(h.Deadline, now) + " ago"
}

// drainage is how far a draining host is: "1 machine left, deadline in 9m".
func drainage(h client.Host, now time.Time) string {
	switch {
	case h.State != "draining":
		return ""
	case left(h) == "":
		return "nothing left"
	}
	return left(h) + " left" + untilDeadline(h, now)
}

func newHostInstances(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "instances HOST", Short: "List what a host has, of all projects",
		Long: `List what a host has, of all projects, oldest first: what is starting, active or being
deleted there. What it prepares and has not been granted yet is queued, and not listed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			items, err := c.HostInstances(cmd.Context(), compute.HostID(args[0]))
			if err != nil {
				return err
			}
			return hostInstanceSheet().List(cmd.OutOrStdout(), out, items)
		},
	}
}

// hostInstanceSheet is how instances of several projects are listed.
func hostInstanceSheet() Sheet[client.Instance] {
	s := instanceSheet(time.Now())
	s.Columns = append([]Column[client.Instance]{
		{Title: "PROJECT", Cell: func(i client.Instance) string { return string(i.Project) }},
	}, s.Columns...)
	return s
}
