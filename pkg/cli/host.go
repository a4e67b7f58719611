// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/terminal"
)

func newHost(s *settings) *cobra.Command {
	cmd := Group("host", "The hosts that run machines")
	cmd.AddCommand(newHostList(s), newHostShow(s), newHostInstances(s), newHostDrain(s),
		newHostAsk(s, "disable", "Make no more offers; machines stay"),
		newHostAsk(s, "enable", "Offer again; a quarantine for failed starts ends"),
		newHostEvacuate(s), newHostForget(s))
	return cmd
}

func newHostList(s *settings) *cobra.Command {
	var labels []string
	cmd := newListing(s, "List hosts", hostSheet, func(ctx context.Context, c *client.Client) ([]client.Host, error) {
		return c.Hosts(ctx, labels...)
	})
	selectorFlag(cmd, &labels, "only those with such labels: rack=a, rack!=a, rack (any) or '!rack' (none)")
	return cmd
}

func newHostShow(s *settings) *cobra.Command {
	return newShowing(s, "show HOST", "Show what a host last said", hostSheet, hostDetails,
		func(ctx context.Context, c *client.Client, name string) (client.Host, error) {
			return c.Host(ctx, compute.HostID(name))
		})
}

// wish is what an operator wants of a host.
type wish struct {
	verb, reason string
	timeout      time.Duration
	wait         bool
}

func newHostAsk(s *settings, verb, short string) *cobra.Command {
	w := wish{verb: verb}
	cmd := &cobra.Command{
		Use: verb + " HOST", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			id := compute.HostID(args[0])
			var before client.Host
			if w.verb == "enable" {
				if before, err = c.Host(cmd.Context(), id); err != nil {
					return err
				}
			}
			h, acted, err := w.ask(cmd.Context(), c, id)
			if err != nil {
				return err
			}
			if !acted {
				tellAsked(cmd, h)
			}
			w.tellQuarantine(cmd, acted, before, h)
			return hostSheet().List(cmd.OutOrStdout(), out, []client.Host{h})
		},
	}
	cmd.Flags().StringVar(&w.reason, "reason", "", "shown with the host")
	mayBeEmpty(cmd.Flags(), "reason")
	cmd.Flags().BoolVar(&w.wait, "wait", false, "wait until the host has acted")
	timeoutFlag(cmd, &w.timeout, time.Minute, "how long --wait waits; 0 waits for ever")
	return cmd
}

// actsWithin is how long a command that does not wait gives a host to act: it mostly does so at once, and then the host
// is shown as it is from now on.
const actsWithin = 2 * time.Second

// acts shows a host as soon as it has acted, or as it is if it has not after some time; acted says which.
func acts(
	ctx context.Context, c *client.Client, asked client.HostAsked, within time.Duration,
) (now client.Host, acted bool, err error) {
	err = until(ctx, within, func(ctx context.Context) (bool, string, error) {
		seen, err := c.Host(ctx, asked.Host)
		if err != nil {
			return false, "", err
		}
		now, acted = seen, seen.DesiredSeen >= asked.Version
		return acted, "host " + string(asked.Host) + " is " + now.State, nil
	})
	return now, acted, err
}

// actsSoon is acts for commands that do not wait: that it has not acted yet is no error.
func actsSoon(ctx context.Context, c *client.Client, asked client.HostAsked) (client.Host, bool, error) {
	now, acted, err := acts(ctx, c, asked, actsWithin)
	if now.Host != "" && ctx.Err() == nil {
		return now, acted, nil
	}
	return now, acted, err
}

// tellAsked says that a wish is on its way.
func tellAsked(cmd *cobra.Command, h client.Host) {
	fmt.Fprintf(cmd.ErrOrStderr(), "host %s is asked; it acts as soon as it reads this\n", h.Host)
}

// tellQuarantine says what becomes of a quarantine that a host was in before it was asked, as far as that is known
// from here.
func (w wish) tellQuarantine(cmd *cobra.Command, acted bool, before, now client.Host) {
	was, is := before.State == compute.HostQuarantined.String(), now.State == compute.HostQuarantined.String()
	switch why := Printable(before.Reason); {
	case w.verb != "enable":
	case acted && is:
		fmt.Fprintf(cmd.ErrOrStderr(), "host %s is quarantined still: %s\n", now.Host, Printable(now.Reason))
	case acted && was:
		fmt.Fprintf(cmd.ErrOrStderr(), "the quarantine of host %s has ended; it was for this: %s\n", now.Host, why)
	case was:
		const words = "host %s is quarantined: %s; that ends if it is for starts that failed (--wait tells)\n"
		fmt.Fprintf(cmd.ErrOrStderr(), words, now.Host, why)
	}
}

func (w wish) ask(ctx context.Context, c *client.Client, h compute.HostID) (client.Host, bool, error) {
	var asked client.HostAsked
	var err error
	switch w.verb {
	case "disable":
		asked, err = c.Disable(ctx, h, w.reason)
	default:
		asked, err = c.Enable(ctx, h, w.reason)
	}
	switch {
	case err != nil:
		return client.Host{}, false, err
	case w.wait:
		return acts(ctx, c, asked, w.timeout)
	}
	return actsSoon(ctx, c, asked)
}

func hostSheet() Sheet[client.Host] {
	return Sheet[client.Host]{
		Name: func(h client.Host) string { return string(h.Host) },
		none: "No hosts. An agent announces its host by itself.",
		Columns: []Column[client.Host]{
			{Title: "HOST", Cell: func(h client.Host) string { return string(h.Host) }},
			{
				Title: "STATE",
				Cell:  func(h client.Host) string { return h.State },
				tone:  func(h client.Host) terminal.Tone { return ToneOf(h.State) },
			},
			{Title: "VCPUS FREE", Right: true, Cell: ofTotal(compute.VCPU)},
			{Title: "MEMORY FREE", Right: true, Cell: ofTotal(compute.MemoryMB)},
			{Title: "DISK FREE", Right: true, Cell: ofTotal(compute.DiskGB)},
			{Title: "OTHER FREE", Cell: func(h client.Host) string { return humanResources(custom(h.Free)) }},
			{Title: "INSTANCES", Right: true, Cell: func(h client.Host) string { return strconv.Itoa(instancesOf(h)) }},
			{
				Title: "WAITS ON",
				Right: true,
				Cell:  func(h client.Host) string { return Plural(len(h.Waiting), "queue") },
			},
			{Title: "HEARD", Right: true, Cell: func(h client.Host) string { return Short(time.Duration(h.HeardFor)) }},
			{
				Title: "MACHINES",
				wide:  true,
				Right: true,
				Cell:  func(h client.Host) string { return strconv.Itoa(int(h.Machines)) },
			},
			{
				Title: "BUILDING",
				wide:  true,
				Right: true,
				Cell:  func(h client.Host) string { return strconv.Itoa(int(h.Building)) },
			},
			{Title: "LABELS", wide: true, Cell: func(h client.Host) string { return labels(h.Labels, " ") }},
			{Title: "TRAITS", wide: true, Cell: func(h client.Host) string { return joined(h.Traits) }},
			{Title: "SIGNS", wide: true, Cell: func(h client.Host) string { return yesNo(h.Signed) }},
			{Title: "WHY", Cell: func(h client.Host) string { return whyNoOffers(h, time.Now()) }},
		},
	}
}

// instancesOf is how many instances a host has by their records: it is told at once, and of the machines that the host
// counts itself only its next beacon tells.
func instancesOf(h client.Host) (n int) {
	for _, of := range h.Instances {
		n += of
	}
	return n
}

func yesNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// ofTotal is "3/8": what is free of what there is.
func ofTotal(class compute.ResourceClass) func(client.Host) string {
	return func(h client.Host) string {
		return strings.Join([]string{HumanSize(class, h.Free[class]), HumanSize(class, h.Totals[class])}, "/")
	}
}

func hostDetails(h client.Host) []detail {
	return []detail{
		{"Host", string(h.Host)}, {"State", h.State}, {"Why", h.Reason}, {"Drained", drainage(h, time.Now())},
		{"Has", humanResources(h.Totals)}, {"Free", humanResources(h.Free)},
		{"One machine at most", humanResources(h.Largest)},
		{"Keeps back", humanResources(h.Reserved)}, {"Not ours", humanResources(h.Unmanaged)},
		{"Labels", labels(h.Labels, "\n")}, {"Traits", joined(h.Traits)}, {"Weigher", h.Weigher},
		{"Saves room for", savesFor(h)},
		{"Instances", ByState(h.Instances)},
		{"Machines", strconv.Itoa(int(h.Machines))}, {"Building", strconv.Itoa(int(h.Building))},
		{"Waits on", strings.ReplaceAll(joined(h.Waiting), ", ", "\n")},
		{"Heard", Short(time.Duration(h.HeardFor)) + " ago"}, {"Signs", yesNo(h.Signed)},
		{"Warnings", strings.Join(h.Warnings, "\n")},
		{"Mistrusts", mistrusted(h.Mistrusts)},
	}
}

// savesFor is what a host saves room for, and how far it is.
func savesFor(h client.Host) string {
	if h.Saving == nil {
		return ""
	}
	has := compute.Resources{}
	for class, n := range h.Saving.Needs {
		has[class] = max(0, min(n, h.Free[class]))
	}
	return fmt.Sprintf("%s, since %s, for %s at most; it has %s of %s", h.Saving.Queue,
		Short(time.Duration(h.Saving.Age)), Short(time.Duration(h.Saving.Left)),
		cmp.Or(humanResources(has), "nothing"), humanResources(h.Saving.Needs))
}

// mistrusted names images that have failed on a host lately.
func mistrusted(images []string) string {
	var out []string
	for _, i := range images {
		if i == "" {
			i = "the default image"
		}
		out = append(out, i)
	}
	return strings.Join(out, ", ")
}
