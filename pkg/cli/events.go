// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/terminal"
)

// MaxShown is the most that a command with --limit shows: it keeps up to twice as many in memory.
const MaxShown = 100_000

func newEvents(s *settings) *cobra.Command {
	var f client.Follow
	var follow bool
	var host, since string
	var states, reasons []string
	var limit int
	cmd := &cobra.Command{
		Use:   "events [NAME|ID|PREFIX] [-f]",
		Short: "Show what has changed, and with -f what changes",
		Long: `Show the recent changes of the project's instances, or of one, oldest first, as the API node knows them: a node
keeps the newest 50,000 of all projects. With -f it begins with what comes from now on, or with --since, and goes on,
over lost connections too, until it is stopped. What may be missing is said.`,
		Example: "  berth events\n  berth events -f\n  berth events web-1 -f --since 10m\n" +
			"  berth events -f --all-projects --state error -o json",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			if f.States, err = eventStates(states); err != nil {
				return err
			}
			for _, r := range reasons {
				f.Reasons = append(f.Reasons, compute.ReasonCode(r))
			}
			if f.Since, err = begin(time.Now(), since, follow && !cmd.Flag("since").Changed); err != nil {
				return err
			}
			if limit < 1 || limit > MaxShown {
				return compute.Invalid("limit", fmt.Sprint(limit), fmt.Sprintf("give 1 to %d", MaxShown))
			}
			if len(args) > 0 {
				i, err := resolve(cmd.Context(), c, cmd.ErrOrStderr(), args[0])
				if err != nil {
					return err
				}
				f.Instance = i.ID
			}
			f.Host, f.Once = compute.HostID(host), !follow
			lines := newEventLines(cmd, out, f.AllProjects)
			f.Lost = lines.lost
			if follow {
				return followEvents(cmd.Context(), c, f, lines.told)
			}
			return recentEvents(cmd.Context(), c, f, limit, lines)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&follow, "follow", "f", false, "go on with what comes")
	flags.StringVar(&since, "since", "1h", "no older than this, as in 10m or 7d; with -f from now on, if it is not given")
	flags.StringVar(&host, "host", "", "only of what this host has, or had before the change")
	flags.StringSliceVar(&states, "state", nil,
		"only changes to these states: queued, starting, active, deleting, deleted, error")
	flags.StringSliceVar(&reasons, "reason", nil, "only changes for these reasons, as in BuildFailed")
	selectorFlag(cmd, &f.Labels,
		"only of instances that have such labels, as berth list takes them, or had before the change")
	flags.BoolVarP(&f.AllProjects, "all-projects", "A", false, "of all projects; for operators")
	flags.IntVar(&limit, "limit", 1000, "without -f: the last of them, at most so many")
	return cmd
}

// begin is the time of the oldest event that is wanted; zero: those that come from now on.
func begin(now time.Time, since string, fromNow bool) (time.Time, error) {
	if fromNow {
		return time.Time{}, nil
	}
	d, err := ParseLife("since", since)
	if err != nil || d <= 0 {
		return time.Time{}, compute.Invalid("since", since, "give a time as in 10m, 1h or 7d")
	}
	return now.Add(-d), nil
}

// eventStates are the states that events can be about.
func eventStates(names []string) (all []compute.State, err error) {
	for _, name := range names {
		state, err := compute.ParseState(name)
		if err != nil || state == compute.StateAccepted || state == compute.StateUnknown {
			return nil, compute.Invalid("state", name,
				"give queued, starting, active, deleting, deleted or error: no change is told of others")
		}
		all = append(all, state)
	}
	return all, nil
}

// followEvents hands over what is told, until take fails or ctx ends.
func followEvents(ctx context.Context, c *client.Client, f client.Follow, take func(client.Told) error) error {
	for told, err := range c.Events(ctx, f) {
		if err == nil {
			err = take(told)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// recentEvents prints the last of what is told, at most so many.
func recentEvents(ctx context.Context, c *client.Client, f client.Follow, most int, to *eventLines) error {
	var last []client.Told
	err := followEvents(ctx, c, f, func(t client.Told) error {
		if last = append(last, t); len(last) >= 2*most {
			last = append(last[:0], last[len(last)-most:]...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	last = last[max(0, len(last)-most):]
	if len(last) == 0 && to.format != FormatJSON && to.format != FormatYAML && to.format != formatName {
		_, err := fmt.Fprintln(to.w, "No events. With -f they show as they come.")
		return err
	}
	to.fit(last)
	for _, t := range last {
		if err := to.told(t); err != nil {
			return err
		}
	}
	return nil
}

// eventLines prints what is told, in columns that become wider where they must.
type eventLines struct {
	w, notes io.Writer
	format   Format
	columns  []Column[client.Told]
	widths   []int
	begun    bool
	apart    bool // an empty line comes first
	trouble  bool // the connection is lost, and that was said
}

func newEventLines(cmd *cobra.Command, f Format, projects bool) *eventLines {
	of := func(cell func(client.Event) string) func(client.Told) string {
		return func(t client.Told) string { return cell(t.Event) }
	}
	does := func(e client.Event) string { return doing(client.Instance{State: e.State, Power: e.Power}) }
	l := &eventLines{w: cmd.OutOrStdout(), notes: cmd.ErrOrStderr(), format: f, columns: []Column[client.Told]{
		{Title: "TIME", Cell: of(func(e client.Event) string { return ShownTime(e.At) })},
		{Title: "ID", Cell: of(func(e client.Event) string { return shortID(e.Instance) })},
		{Title: "NAME", Cell: of(func(e client.Event) string { return e.Name })},
		{Title: "STATE", Cell: of(does), tone: func(t client.Told) terminal.Tone { return ToneOf(does(t.Event)) }},
		{Title: "HOST", Cell: of(func(e client.Event) string { return string(e.Host) })},
		{Title: "WHAT", Cell: happened},
	}}
	if projects {
		project := Column[client.Told]{Title: "PROJECT", Cell: of(func(e client.Event) string { return string(e.Project) })}
		l.columns = slices.Insert(l.columns, 1, project)
	}
	l.widths = make([]int, len(l.columns))
	l.widen(l.titles())
	l.widths[len(l.columns)-3] = len("active, stopped") // which comes later, mostly
	return l
}

func (l *eventLines) titles() []string {
	var titles []string
	for _, c := range l.columns {
		titles = append(titles, c.Title)
	}
	return titles
}

func (l *eventLines) cells(t client.Told) []string {
	var cells []string
	for _, c := range l.columns {
		cells = append(cells, OrDash(Printable(c.Cell(t))))
	}
	return cells
}

// fit makes the columns as wide as these need.
func (l *eventLines) fit(all []client.Told) {
	for _, t := range all {
		l.widen(l.cells(t))
	}
}

func (l *eventLines) widen(cells []string) { l.widths = terminal.Widen(l.widths, cells) }

// told prints one thing.
func (l *eventLines) told(t client.Told) error {
	l.trouble = false
	switch l.format {
	case FormatJSON:
		return json.NewEncoder(l.w).Encode(eventLineOf(t))
	case FormatYAML:
		if _, err := fmt.Fprintln(l.w, "---"); err != nil {
			return err
		}
		return PrintData(l.w, FormatYAML, eventLineOf(t))
	}
	switch {
	case t.Kind == client.ToldPresented:
		return nil
	case t.Kind == client.ToldGap:
		_, err := fmt.Fprintf(l.notes, "berth: a gap: %s; it goes on at %s\n", Printable(t.Gap.Message), Printable(t.Gap.ID))
		return err
	case l.format == formatName:
		_, err := fmt.Fprintln(l.w, t.Event.Instance)
		return err
	case !l.begun:
		l.begun = true
		l.widen(l.cells(t))
		if l.apart {
			fmt.Fprintln(l.w)
		}
		if err := l.line(l.titles()); err != nil {
			return err
		}
	}
	return l.line(l.cells(t), l.tones(t)...)
}

func (l *eventLines) line(cells []string, tones ...terminal.Tone) error {
	l.widen(cells)
	row := Grid{tones: [][]terminal.Tone{tones}}
	_, err := io.WriteString(l.w, row.line(terminal.Of(l.w), l.widths, 0, cells))
	return err
}

// tones are how the cells of one are to be seen.
func (l *eventLines) tones(t client.Told) []terminal.Tone {
	tones := make([]terminal.Tone, len(l.columns))
	for i, c := range l.columns {
		if c.tone != nil {
			tones[i] = c.tone(t)
		}
	}
	return tones
}

// lost says once that the connection is lost.
func (l *eventLines) lost(err error) {
	if !l.trouble {
		l.trouble = true
		fmt.Fprintln(l.notes, "berth: "+Printable(err.Error())+"; trying again")
	}
}

// eventLineOf is what is told, as data.
func eventLineOf(t client.Told) any {
	if t.Kind == client.ToldGap || t.Kind == client.ToldPresented {
		return struct {
			Kind string `json:"kind"`
			client.EventsGap
		}{t.Kind, t.Gap}
	}
	return struct {
		Kind string `json:"kind"`
		client.Event
	}{t.Kind, t.Event}
}

// happened is what a change was, in plain words, and why.
func happened(t client.Told) string {
	e := t.Event
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	switch {
	case t.Kind == client.ToldRemoved:
		return "its record is gone, long after it ended"
	case t.Kind == client.ToldPresent:
	case e.State != e.StateBefore:
		add(moved(e))
	}
	if n := e.Notice; n != nil && n.Over.IsZero() {
		add(fmt.Sprintf("notice: its place is taken for work of priority %s in queue %s; its guest may run until %s",
			n.Priority, n.Queue, ShownTime(n.Until)))
	}
	if c := e.Command; c != nil {
		add(c.Op + " asked for")
	}
	if a := e.Answer; a != nil && a.Failed != "" {
		add(a.Op + " failed: " + a.Failed)
	} else if a != nil {
		add(a.Op + " done")
	}
	switch {
	case e.Renamed && e.NameBefore != "":
		add("renamed, from " + e.NameBefore)
	case e.Renamed:
		add("named")
	}
	if e.Relabelled {
		add("labels now " + cmp.Or(labels(e.Metadata, " "), "none"))
	}
	if e.Delete && e.State != "deleting" && e.State != "deleted" {
		add("delete asked for")
	}
	if e.PowerBefore != "" && e.Power != "" && e.Answer == nil {
		add("now " + e.Power)
	}
	if r := e.Reason; r != nil && r.Code == compute.StoppedByCommand && e.Answer != nil {
		add(r.Detail) // by which command is said
	} else if r != nil {
		add(r.Message)
	}
	if len(parts) == 0 && t.Kind != client.ToldPresent {
		add("its record changed")
	}
	return strings.Join(parts, "; ")
}

// moved is how it came to its state.
func moved(e client.Event) string {
	switch {
	case e.State == "queued" && e.StateBefore == "":
		return "admitted"
	case e.State == "queued":
		return "queued again"
	case e.State == "starting":
		return fmt.Sprintf("attempt %d granted", e.Attempt)
	case e.State == "active":
		return "it runs"
	case e.State == "deleting":
		return "delete asked for"
	case e.State == "deleted":
		return "it is gone"
	case e.State == "error" && e.StateBefore == "":
		return "refused"
	}
	return "it has failed"
}
