// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/lab/size"
)

// printSized shows a person what a simulation of size says.
func printSized(w io.Writer, s sized) error {
	r := s.One
	due := "all queued at once"
	if r.Rate > 0 {
		due = fmt.Sprintf("%v/s", r.Rate)
	}
	fmt.Fprintf(w, "%d hosts, %d requests, %s, %d queues; a cell is %d brokers of %v processors, %d conductors\n\n",
		r.Hosts, r.Requests, due, r.Queues, s.Options.Brokers, s.Options.Processors, s.Options.Conductors)
	fmt.Fprintln(w, "One cell for all of it")
	if err := cellFacts(r).Print(w); err != nil || s.Cells == nil {
		return err
	}
	c := *s.Cells
	fmt.Fprintf(
		w,
		"\nCells for %.0f boots/s together, brokers and conductors at most %.0f %% busy\n",
		c.Rate,
		100*s.Options.Limits.Busy,
	)
	var g cli.Grid
	add := func(name, format string, args ...any) {
		g.Rows = append(g.Rows, []string{name, fmt.Sprintf(format, args...)})
	}
	add("needed:", "%s", orNone(c.Needed))
	add("  for processors:", "%s", orNone(c.Processors))
	add("  for handles:", "%s (%d a broker)", orNone(c.Handles), s.Options.Limits.Handles)
	add("  for partitions:", "%s (%d replicas a broker)", orNone(c.Partitions), s.Options.Limits.Partitions)
	if err := g.Print(w); err != nil || c.Each == nil {
		return err
	}
	fmt.Fprintf(w, "\nEach of them: %d hosts, %.0f boots/s\n", c.Each.Hosts, c.Each.Rate)
	return cellFacts(*c.Each).Print(w)
}

func orNone(n int) string {
	if n == 0 {
		return "no number is enough with such brokers"
	}
	return fmt.Sprint(n)
}

// cellFacts are what one cell does and uses.
func cellFacts(r size.Result) cli.Grid {
	var g cli.Grid
	add := func(name, format string, args ...any) {
		g.Rows = append(g.Rows, []string{name, fmt.Sprintf(format, args...)})
	}
	add("granted:", "%d in %.1f s, %.0f boots/s", r.Granted, r.Seconds, r.BootsPerS)
	if r.Left > 0 {
		add("left:", "%d that had no room", r.Left)
	}
	q := r.GrantedMS
	add("accepted→granted:", "p50 %s, p90 %s, p99 %s, max %s ms", ms(q.P50), ms(q.P90), ms(q.P99), ms(q.Max))
	add("hosts:", "%.1f %% used, %d empty; room for %s", 100*r.Used, r.Empty, byRoom(r.Room))
	if r.Fill > 0 {
		add("steady:", "%.1f %% used, %.1f hosts save room", 100*r.Fill, r.Saving)
	}
	for _, s := range r.Waits {
		add(fmt.Sprintf("  with %d processors:", s.Size), "%d boots, %d still wait; p50 %s, p90 %s, p99 %s, max %s ms",
			s.Boots, s.Left, ms(s.MS.P50), ms(s.MS.P90), ms(s.MS.P99), ms(s.MS.Max))
	}
	add("nearest its limit:", "%s", r.Busiest)
	for i, b := range r.Brokers {
		if i < 1 || i == len(r.Brokers)-1 {
			add(
				fmt.Sprintf("broker %d:", i+1),
				"%.0f %% busy, %.0f %% before the first request; %d connections, %d partitions, %d handles",
				100*b.Busy,
				100*b.Idle,
				b.Connections,
				b.Partitions,
				b.Handles,
			)
		}
	}
	most := size.Conductor{}
	for _, c := range r.Conductors {
		most.Busy, most.Turns = max(most.Busy, c.Busy), max(most.Turns, c.Turns)
	}
	add("conductors:", "%.0f %% of a processor, %.0f %% of the time in turns", 100*most.Busy, 100*most.Turns)
	add("requests a boot:", "%.1f: %s", r.AllPerBoot, byWhat(r.PerBoot))
	add("idle requests/s:", "%s", byWhat(r.Idle))
	add("CPU a boot:", "%.1f ms of what is simulated", r.CPUPerBoot)
	return g
}

// byRoom says how many machines of each size still fit, and of how many for which all
// that is free would be enough.
func byRoom(rooms []size.Room) string {
	var parts []string
	for _, r := range rooms {
		parts = append(parts, fmt.Sprintf("%d of %d with %d", r.Fits, r.Enough, r.Size))
	}
	return strings.Join(parts, ", ") + " processors"
}

func byWhat(m map[string]float64) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %s", ms(m[k]), k))
	}
	return strings.Join(parts, ", ")
}
