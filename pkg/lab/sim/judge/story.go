// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// Story tells what happened to the instances that something is wrong with: which process did what
// and when, in the schedule's seconds.
func (r *Recording) Story(wrong []Violation) string {
	about := map[compute.InstanceID]bool{}
	for _, v := range wrong {
		about[v.Instance] = v.Instance != ""
	}
	type line struct {
		at  time.Time
		who string
		say string
	}
	var lines []line
	add := func(at time.Time, who, format string, args ...any) {
		lines = append(lines, line{at, who, fmt.Sprintf(format, args...)})
	}
	names := map[compute.InstanceID]string{}
	for _, w := range r.Log {
		names[w.Instance.ID] = w.Instance.Boot.Name
	}
	all := true
	for id, is := range about {
		all = all && (!is || id == "")
	}
	for _, n := range r.Notes {
		add(n.At, n.Who, "%s", n.What)
	}
	for _, a := range r.Asks {
		if !all && !about[a.ID] && a.Op != schedule.LoadQuota && a.Op != schedule.LoadHost &&
			a.Op != schedule.LoadDropFlavor &&
			a.Op != schedule.LoadAddFlavor && a.Op != schedule.LoadResize {
			continue
		}
		add(
			a.Began,
			"client",
			"asks: %s%s%s %s",
			a.Op,
			named(" ", a.Name),
			named(" ", a.Power+string(a.Host)+" "+a.Wish),
			a.Limits,
		)
		switch {
		case a.OK && a.Answered.Sub(a.Began) > 100*time.Millisecond:
			add(a.Answered, "client", "is told that %s %s is safe", a.Op, a.Name)
		case !a.OK:
			add(max2(a.Answered, a.Began), "client", "%s %s: %s", a.Op, a.Name, a.Err)
		}
	}
	for _, w := range r.Log {
		if i := w.Instance; all || about[i.ID] {
			add(
				w.Seen,
				"log",
				"%s v%d %s attempt %d%s%s%s",
				i.Boot.Name,
				i.Version,
				i.State,
				i.Attempt,
				named(" on ", string(i.Host)),
				named(" claim ", string(i.Claim)),
				named(" ", i.Reason.String()),
			)
		}
	}
	for _, e := range r.Machines {
		if all || about[e.Instance] {
			add(e.At, string(e.Host), "%s %s attempt %d", e.Kind, names[e.Instance], e.Attempt)
		}
	}
	add(r.Calm, "", "from here on nothing goes wrong")
	if !r.Settled.IsZero() {
		add(r.Settled, "", "all is settled; everything is deleted now")
	}
	for _, v := range wrong {
		add(v.At, "WRONG", "%s", v)
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%10s  %-12s %s\n", r.At(l.at), l.who, l.say)
	}
	return b.String()
}

func named(before, what string) string {
	if strings.TrimSpace(what) == "" {
		return ""
	}
	return before + what
}

func max2(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
