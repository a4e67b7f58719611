// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// leastShare is of how many schedules each sort of fault is to be a part, at least: what
// hardly ever takes place finds nothing.
const leastShare = 0.02

// sortOf is what a kind of fault is counted as, where it is about how often something goes
// wrong at all: at which point a process is killed, and with which error a request is
// answered, is left out.
func sortOf(kind string) string {
	words := strings.Fields(kind)
	return strings.Join(words[:min(len(words), 2)], " ")
}

// share counts the sorts of faults of one schedule, each once: those that were planned, and
// those that took place.
func (s *Stats) share(r *Recording) {
	planned, came := map[string]bool{}, map[string]bool{}
	for _, f := range r.Schedule.Faults {
		if f.Who == "" {
			f.Who = "host" // it is aimed at one
		}
		planned[sortOf(kindOf(f))] = true
	}
	for _, kind := range r.Schedule.World.kinds() {
		planned[kind] = true
	}
	for kind, n := range r.Came {
		came[sortOf(kind)] = came[sortOf(kind)] || n > 0
	}
	if w := r.Schedule.World; w.Later {
		if planned[w.versions()] = true; r.Later > 0 {
			came[w.versions()] = true
		}
	}
	for sort := range planned {
		s.PlannedIn[sort]++
	}
	for sort := range came {
		s.CameIn[sort]++
	}
}

// shares says of how many of all schedules each sort was a part, and which were of too few.
func (s *Stats) shares() string {
	of := func(in map[string]int, sort string) float64 { return float64(in[sort]) / float64(max(s.Schedules, 1)) }
	sorts := slices.Sorted(maps.Keys(s.PlannedIn))
	for sort := range s.CameIn {
		if s.PlannedIn[sort] == 0 {
			sorts = append(sorts, sort)
		}
	}
	slices.Sort(sorts)
	slices.SortStableFunc(sorts, func(a, b string) int { return s.CameIn[a] - s.CameIn[b] })
	var all, rare []string
	for _, sort := range sorts {
		all = append(all, fmt.Sprintf("%s %.1f (%.1f)", sort, 100*of(s.CameIn, sort), 100*of(s.PlannedIn, sort)))
		if of(s.CameIn, sort) < leastShare {
			rare = append(rare, sort)
		}
	}
	text := fmt.Sprintf("of 100 schedules, in how many each sort took place (was planned): %s\n", strings.Join(all, ", "))
	if len(rare) > 0 {
		text += fmt.Sprintf("in less than %.0f of 100: %s\n", 100*leastShare, strings.Join(rare, ", "))
	}
	return text
}
