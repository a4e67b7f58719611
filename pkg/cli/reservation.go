// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// reserveFlags are the command line of reserve.
type reserveFlags struct {
	flavor, from, priority string
	with                   []string
	count                  int
	long, timeout          time.Duration
	wait                   bool
}

func newReserve(s *settings) *cobra.Command {
	var f reserveFlags
	cmd := &cobra.Command{
		Use:   "reserve NAME --flavor FLAVOR --for DURATION",
		Short: "Have hosts hold room for boots to come",
		Long: `Have hosts hold room for boots to come. The room is held as soon as hosts have it, and
counts in the quota from now on; berth boot --reservation NAME gets it. After --for it
is free again, but for what was booted into it.

Returns once the request cannot be lost; with --wait, once hosts hold all of it, or never
will: it was refused, or placeholders of it have ended.`,
		Example: `  berth reserve nightly --flavor m1.small --count 4 --for 2h --wait
  berth reserve launch --flavor m1.large --with disk=ssd --count 10 --from 2026-12-01T08:00:00Z --for 12h`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runReserve(cmd, s, f, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.flavor, "flavor", "", "size of the machines")
	flags.StringArrayVar(&f.with, "with", nil, "a choice on a capability, as in gpu=a100; repeatable")
	flags.IntVar(&f.count, "count", 1, "for how many machines")
	flags.StringVar(&f.from, "from", "", "when the first may be booted into it: a time, or a duration from now (default now)")
	flags.DurationVar(&f.long, "for", 0, "how long it lasts: 1m to 720h")
	flags.StringVar(&f.priority, "priority", "normal", "low, normal or high: in which class it waits for room")
	flags.BoolVar(&f.wait, "wait", false, "wait until hosts hold all of it")
	timeoutFlag(cmd, &f.timeout, defaultWait, "how long --wait waits; 0 waits for ever")
	return cmd
}

// wish is what is asked for, as far as the command line alone can tell.
func (f reserveFlags) wish(name string, now time.Time) (client.ReservationWish, error) {
	w := client.ReservationWish{
		Name: compute.ReservationName(name), Flavor: compute.FlavorName(f.flavor), Count: f.count, For: client.Duration(f.long),
		Priority: f.priority,
	}
	if f.flavor == "" {
		return w, compute.Invalid("flavor", "", "give --flavor")
	}
	if f.count < 1 {
		return w, compute.Invalid("count", fmt.Sprint(f.count), fmt.Sprintf("give 1 to %d", compute.MaxReserved))
	}
	if f.long <= 0 {
		return w, compute.Invalid("for", f.long.String(), "say how long it lasts, as in --for 2h")
	}
	var err error
	if w.With, err = ParsePairs[compute.AxisName, compute.AxisValue]("with", f.with); err != nil {
		return w, err
	}
	w.From, err = beginning(f.from, now)
	return w, err
}

// beginning reads a time, or a duration from now; empty: the zero time.
func beginning(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(d).UTC().Truncate(time.Second), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, compute.Invalid("from", text, "give a time, as in 2026-12-01T08:00:00Z, or a duration from now, as in 2h")
	}
	return at, nil
}

func runReserve(cmd *cobra.Command, s *settings, f reserveFlags, name string) error {
	c, out, err := s.open()
	if err != nil {
		return err
	}
	defer c.Close()
	w, err := f.wish(name, time.Now())
	if err != nil {
		return err
	}
	v, err := c.Reserve(cmd.Context(), w)
	if err != nil {
		return err
	}
	if f.wait {
		v, err = waitHeld(cmd.Context(), c, newLiveLine(cmd.ErrOrStderr()), f.timeout, w, v)
	}
	if printed := reservationSheet().List(cmd.OutOrStdout(), out, []client.Reservation{v}); err == nil {
		err = printed
	}
	return err
}

// waitHeld waits until hosts hold all of a reservation. One that begins later is held shortly before. Where another
// request had the name first, it is asked for again: the same one is done then, and any other one is refused. With an
// error too it answers the reservation as it was seen last.
func waitHeld(
	ctx context.Context, c *client.Client, live *liveLine, timeout time.Duration,
	w client.ReservationWish, v client.Reservation,
) (client.Reservation, error) {
	defer live.end()
	gone := 0
	err := until(ctx, timeout, func(ctx context.Context) (bool, string, error) {
		next, err := c.Reservation(ctx, v.Name)
		switch {
		case err == nil && isAnother(next, v):
			next, err = c.Reserve(ctx, w)
		case compute.KindOf(err) == compute.KindNotFound: // this node may have read less than the one that answered before
			if gone++; gone < mostGone {
				err = compute.Unavailable("reserve", err)
			}
		}
		if err != nil {
			return false, "", err
		}
		v, gone = next, 0
		seen := fmt.Sprintf("hosts hold room for %d of %d", v.Held, v.Count)
		live.show(waitStatus{seen, seen})
		if v.State == "ended" || v.State == "waiting" && v.Reason != nil {
			return false, seen, endedError(v)
		}
		return v.State == "held" && v.Held >= v.Count, seen, nil // an older node says held of what hosts hold in part
	})
	var e *compute.Error
	if errors.As(err, &e) && e.Kind == compute.KindTimeout {
		e.Remedy = "berth reservation show " + string(v.Name) + " says what it waits for; it goes on waiting"
	}
	return v, err
}

// endedError is why a reservation that was waited for has ended, or some placeholders of it.
func endedError(v client.Reservation) error {
	why, code := "it has ended", compute.ReservationEnded
	if v.Reason != nil {
		why, code = v.Reason.Message, compute.ReasonCode(v.Reason.Code)
	}
	e := &compute.Error{
		Op: "reserve", Kind: kindOfReason(code), Field: "reservation", Value: string(v.Name), Message: why,
	}
	if v.State != "ended" {
		e.Remedy = "what is left of it goes on; berth reservation delete " + string(v.Name) + " ends it"
	}
	return e
}

// isAnother says whether a reservation is not the one that was answered before, by their placeholders.
func isAnother(v, before client.Reservation) bool {
	if v.State == "ended" || len(v.Placeholders) == 0 || len(before.Placeholders) == 0 {
		return false
	}
	for _, p := range v.Placeholders {
		if p.ID == before.Placeholders[0].ID {
			return false
		}
	}
	return true
}

func newReservation(s *settings) *cobra.Command {
	cmd := Group("reservation", "Room that hosts hold for boots to come")
	cmd.AddCommand(
		newListing(s, "List a project's reservations that have not ended", reservationSheet,
			func(ctx context.Context, c *client.Client) ([]client.Reservation, error) { return c.Reservations(ctx) }),
		newShowing(s, "show NAME", "Show a reservation, and who has its room", reservationSheet, reservationDetails,
			func(ctx context.Context, c *client.Client, name string) (client.Reservation, error) {
				return c.Reservation(ctx, compute.ReservationName(name))
			}),
		newReservationDelete(s),
	)
	return cmd
}

func newReservationDelete(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "End a reservation",
		Long: `End a reservation: its room is free again, but for what was booted into it, which goes
on. What waits for its room and never ran ends in error.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			v, err := c.DeleteReservation(cmd.Context(), compute.ReservationName(args[0]))
			if err != nil {
				return err
			}
			return reservationSheet().did(cmd.OutOrStdout(), out, v, endsSaid(v))
		},
	}
}

// endsSaid is what becomes of what was booted into a reservation that ends.
func endsSaid(v client.Reservation) string {
	said := fmt.Sprintf("reservation %s ends; %d that were booted into it go on", v.Name, v.Started)
	if waits := v.Taken - v.Started; waits > 0 {
		said += fmt.Sprintf(", %d that wait for its room end with it", waits)
	}
	return said
}

func reservationSheet() Sheet[client.Reservation] {
	number := func(n func(client.Reservation) int) func(client.Reservation) string {
		return func(v client.Reservation) string { return fmt.Sprint(n(v)) }
	}
	return Sheet[client.Reservation]{
		Name: func(v client.Reservation) string { return string(v.Name) },
		none: "No reservations.",
		Columns: []Column[client.Reservation]{
			{Title: "RESERVATION", Cell: func(v client.Reservation) string { return string(v.Name) }},
			{Title: "QUEUE", Cell: func(v client.Reservation) string { return string(v.Queue) }},
			{Title: "STATE", Cell: func(v client.Reservation) string { return v.State }},
			{Title: "COUNT", Right: true, Cell: number(func(v client.Reservation) int { return v.Count })},
			{Title: "HELD", Right: true, Cell: number(func(v client.Reservation) int { return v.Held })},
			{Title: "TAKEN", Right: true, Cell: number(func(v client.Reservation) int { return v.Taken })},
			{Title: "FROM", Cell: func(v client.Reservation) string { return ShownTime(v.From) }},
			{Title: "UNTIL", Cell: func(v client.Reservation) string { return ShownTime(v.Until) }},
		},
	}
}

func reservationDetails(v client.Reservation) []detail {
	var each []string
	for _, p := range v.Placeholders {
		line := fmt.Sprintf("%s: %s", p.ID, p.State)
		if p.Host != "" {
			line += " on " + string(p.Host)
		}
		if p.Taker != "" {
			line += ", taken by " + string(p.Taker)
		}
		if p.Waiting != nil {
			line += ": " + p.Waiting.Message
		}
		each = append(each, line)
	}
	why := ""
	if v.Reason != nil {
		why = ": " + v.Reason.Message
	}
	var refused []string
	for _, x := range v.Refused {
		refused = append(refused, fmt.Sprintf("%d of %s until %s, asked for at %s: another request had the name first",
			x.Count, compute.NameQueue(x.Flavor, x.With), ShownTime(x.Until), ShownTime(x.At)))
	}
	return []detail{
		{"Reservation", string(v.Name)}, {"Project", string(v.Project)}, {"State", v.State + why}, {"Queue", string(v.Queue)},
		{"Each", v.Resources.String()},
		{"Machines", fmt.Sprintf("%d of %d held, %d taken, %d started", v.Held, v.Count, v.Taken, v.Started)},
		{"From", ShownTime(v.From)}, {"Until", ShownTime(v.Until)}, {"Placeholders", strings.Join(each, "\n")},
		{"Refused", strings.Join(refused, "\n")},
	}
}

func reservationNames(ctx context.Context, c *client.Client, _ string) ([]string, error) {
	all, err := c.Reservations(ctx)
	var out []string
	for _, v := range all {
		out = append(out, string(v.Name))
	}
	return out, err
}
