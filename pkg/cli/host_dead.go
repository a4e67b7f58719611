// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// fenceCommandTime is how long the API may take to switch a host off and to say
// so to everybody.
const fenceCommandTime = 6 * time.Minute

// death is the word that a host is dead.
type death struct {
	client.DeadHost
	wait    bool
	timeout time.Duration
	say     func(*client.Client, context.Context, compute.HostID, client.DeadHost) (client.HostDead, error)
}

func newHostEvacuate(s *settings) *cobra.Command {
	d := death{say: (*client.Client).Evacuate}
	cmd := d.command(s, "evacuate HOST", "Build elsewhere what a dead host had", `Build elsewhere what a dead host had.

The host must be dead for certain, or its machines would run twice. The API's own
fence.command makes that certain; where there is none, see to it that the host is
off, and say so with --fenced. What was starting or active on it is built on other
hosts, and what was being deleted is deleted. What is pinned to it is built nowhere
else: if it was active it ends (HostLost), otherwise it waits for the host. What was
active and is no longer offered ends too. Each is listed with what becomes of it. If
the host comes back, it first destroys what it had.

It may be repeated. After an error that says so, it has to be.`)
	cmd.Flags().BoolVar(&d.wait, "wait", false, "wait until nothing is left on the host")
	timeoutFlag(cmd, &d.timeout, time.Minute, "how long --wait waits; 0 waits for ever")
	return cmd
}

func newHostForget(s *settings) *cobra.Command {
	d := death{say: (*client.Client).Forget}
	return d.command(
		s,
		"forget HOST",
		"End what a host had that is gone for good",
		`End what a host had that is gone for good.

As evacuate, but what was active there is lost (HostLost) and not built again, and the
host is not listed any more. Should it come back after all, it destroys what it had
and is listed again.`,
	)
}

func (d *death) command(s *settings, use, short, long string) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			patient := *s
			if !cmd.Flags().Changed("request-timeout") {
				patient.timeout = fenceCommandTime
			}
			c, out, err := patient.open()
			if err != nil {
				return err
			}
			defer c.Close()
			return d.run(cmd, c, out, compute.HostID(args[0]))
		},
	}
	cmd.Flags().BoolVar(&d.Fenced, "fenced", false, "the host is off for certain: I have seen to it")
	cmd.Flags().BoolVar(
		&d.Force,
		"force",
		false,
		"if it was heard a moment ago, wait until it has been silent for a minute, instead of failing",
	)
	cmd.Flags().StringVar(&d.Reason, "reason", "", "why, for the API's log")
	mayBeEmpty(cmd.Flags(), "reason")
	return cmd
}

func (d *death) run(cmd *cobra.Command, c *client.Client, f Format, h compute.HostID) error {
	ctx := cmd.Context()
	d.By = cmp.Or(os.Getenv("SUDO_USER"), os.Getenv("USER"))
	var w *watch
	if d.wait {
		w = newWatch(ctx, c, client.Follow{AllProjects: true, Host: h}, func(client.Event) bool { return true })
		defer w.close()
	}
	dead, err := d.say(c, ctx, h, d.DeadHost)
	if err != nil {
		return err
	}
	if f == FormatTable || f == FormatWide {
		fmt.Fprintf(cmd.ErrOrStderr(), "host %s is declared dead; %s\n", h, fateOf(dead))
	}
	if d.wait {
		err = d.left(ctx, c, w, newLiveLine(cmd.ErrOrStderr()), dead)
	}
	return cmp.Or(deadSheet().one(cmd.OutOrStdout(), f, dead, deadDetails), err)
}

// fateOf is what becomes of what the host had, in one sentence.
func fateOf(dead client.HostDead) string {
	if dead.Total() == 0 {
		return "it had nothing"
	}
	had := Plural(dead.Total(), "instance") + " (" + ByState(dead.Instances) + ")"
	var parts []string
	for _, f := range []compute.Fate{compute.FateRebuilt, compute.FateWaits, compute.FateEnded, compute.FateDeleted} {
		if n := dead.Becomes[string(f)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, f))
		}
	}
	if len(parts) == 0 { // an API node of before: it does not say
		return had
	}
	if dead.Others > 0 {
		parts = append(parts, fmt.Sprintf("and %d of other hosts or queues end with their sets", dead.Others))
	}
	return had + ": " + strings.Join(parts, ", ")
}

// left waits until the API shows nothing on the host any more.
func (d *death) left(ctx context.Context, c *client.Client, w *watch, live *liveLine, dead client.HostDead) error {
	defer live.end()
	return untilTold(ctx, d.timeout, w, func(ctx context.Context) (bool, string, error) {
		n, err := leftOn(ctx, c, dead)
		if err != nil {
			return false, "", err
		}
		seen := Plural(n, "instance") + " left on host " + string(dead.Host)
		live.show(waitStatus{line: seen, news: seen})
		return n == 0, seen, nil
	}, func([]client.Told) urgency { return soonest })
}

// leftOn is how many instances the host still has that are meant.
func leftOn(ctx context.Context, c *client.Client, dead client.HostDead) (n int, err error) {
	seen, err := c.HostBefore(ctx, dead.Host, dead.Fence)
	if compute.KindOf(err) == compute.KindNotFound {
		return 0, nil // it is not listed, and a node shows such a host for as long as it has instances
	}
	for _, of := range seen.Instances {
		n += of
	}
	return n, err
}

// ByState says how many of each state there are: "3 active, 1 queued".
func ByState(counts map[string]int) string {
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprint(counts[state], " ", state))
	}
	return strings.Join(parts, ", ")
}

func deadDetails(d client.HostDead) []detail {
	return []detail{
		{"Host", string(d.Host)}, {"Had", ByState(d.Instances)}, {"Becomes", fates(d)}, {"Fence", fmt.Sprint(d.Fence)},
	}
}

// fates is a line for each instance of a dead host: "web-1 (default, <id>), active: built elsewhere".
func fates(d client.HostDead) string {
	var lines []string
	for _, f := range d.Fates {
		line := fmt.Sprintf("%s (%s, %s), %s: %s", f.Name, f.Project, f.ID, f.State, f.Becomes)
		if f.Reason != "" {
			line += " as " + string(f.Reason)
		}
		if f.Other {
			line += ", not of this host"
		}
		lines = append(lines, line)
	}
	if more := d.Total() + d.Others - len(lines); more > 0 && len(lines) > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

func deadSheet() Sheet[client.HostDead] {
	return Sheet[client.HostDead]{Name: func(d client.HostDead) string { return string(d.Host) }}
}
