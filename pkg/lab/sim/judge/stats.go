// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// Stats counts what many schedules had in them. It may be used by several at once.
type Stats struct {
	mu        sync.Mutex
	began     time.Time
	Schedules int
	Failed    int
	Virtual   time.Duration
	Boots     int
	Wholes    int // sets that were offered whole
	Noticed   int // machines whose places were taken
	Again     int // of them: those that were queued again
	Packed    int // of them: those that one host had all of
	Wide      int // schedules with many queues
	Fewest    int // queues in one of them
	Most      int
	Several   int            // schedules with several brokers
	Looks     int            // rings that hosts were sent
	Holds     int            // of them: to wait
	Savings   int            // of them: to save room
	Planned   map[string]int // faults of schedules, by kind, and what there is to tell of it
	Came      map[string]int // those that took place
	PlannedIn map[string]int // schedules in which a sort of fault was planned
	CameIn    map[string]int // … and took place
	States    map[string]int // from one state to the next, with the reason
	Slow      []Slow         // those that took longest to settle once everything was well
}

// Slow is a schedule in which something took long.
type Slow struct {
	Seed uint64
	Took time.Duration
	Last string // what was waited for at the end
}

// NewStats begins to count now.
func NewStats() *Stats {
	s := &Stats{began: time.Now(), Planned: map[string]int{}, Came: map[string]int{}, States: map[string]int{}}
	s.PlannedIn, s.CameIn = map[string]int{}, map[string]int{}
	return s
}

// Add counts a schedule that was played.
func (s *Stats) Add(r *Recording, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Schedules++
	if failed {
		s.Failed++
	}
	if n := len(r.Schedule.World.Queues(r.Schedule.World.Flavors)); n >= schedule.ManyQueues {
		if s.Wide++; s.Wide == 1 {
			s.Fewest = n
		}
		s.Fewest, s.Most = min(s.Fewest, n), max(s.Most, n)
	}
	if r.Schedule.World.Brokers > 1 {
		s.Several++
	}
	for _, f := range r.Schedule.Faults {
		s.Planned[schedule.KindOf(f)]++
	}
	for _, x := range r.Rings {
		if s.Looks++; x.Hold > 0 {
			s.Holds++
		}
		if x.Save > 0 {
			s.Savings++
		}
	}
	for k, n := range r.Came {
		s.Came[k] += n
	}
	offered, packed := r.countWholes()
	s.Wholes, s.Packed = s.Wholes+offered, s.Packed+packed
	s.share(r)
	if !r.Settled.IsZero() {
		s.Slow = append(s.Slow, Slow{r.Schedule.Seed, r.Placed.Sub(r.Calm), r.Awaited})
		slices.SortFunc(s.Slow, func(a, b Slow) int { return int(b.Took - a.Took) })
		s.Slow = s.Slow[:min(len(s.Slow), 5)]
	}
	last := map[compute.InstanceID]compute.State{}
	var end time.Time
	for _, w := range r.Log {
		i := w.Instance
		if last[i.ID] == compute.StateNone {
			s.Boots++
		}
		why := ""
		if i.State == compute.StateError && i.Reason != nil {
			why = " " + string(i.Reason.Code)
		}
		if i.State != last[i.ID] || i.State == compute.StateQueued {
			s.States[last[i.ID].String()+" → "+i.State.String()+why]++
		}
		if n := i.Notice(); n != nil && n.At.Equal(i.ChangedAt) && !n.Going {
			s.Noticed++
		}
		if i.State == compute.StateQueued && last[i.ID].OnHost() && i.Reason != nil && i.Reason.Code == compute.Preempted {
			s.Again++
		}
		last[i.ID] = i.State
		end = w.Seen
	}
	s.Virtual += max(0, end.Sub(r.Start))
}

// String is the report; all says every kind by itself.
func (s *Stats) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := time.Since(s.began)
	came, injected := firsts(s.Came)
	planned, plans := firsts(s.Planned)
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"%d schedules in %s, %.1f a second; %d failed; %s of virtual time, %d boots, %d faults of %d planned\n",
		s.Schedules,
		took.Round(time.Second),
		float64(s.Schedules)/took.Seconds(),
		s.Failed,
		s.Virtual.Round(time.Minute),
		s.Boots,
		injected,
		plans,
	)
	fmt.Fprintf(&b,
		"many queues: in %d schedules (%.0f %%), %d to %d of them; %d rings, of them %d holds, %d to save room\n",
		s.Wide, 100*float64(s.Wide)/float64(max(s.Schedules, 1)), s.Fewest, s.Most, s.Looks, s.Holds, s.Savings)
	fmt.Fprintf(
		&b,
		"several brokers: in %d schedules (%.0f %%)\n",
		s.Several,
		100*float64(s.Several)/float64(max(s.Schedules, 1)),
	)
	fmt.Fprintf(&b, "preemptible machines that went: %d, of them %d were queued again\n", s.Noticed, s.Again)
	fmt.Fprintf(&b, "sets offered whole: %d, of them %d were started by one host\n", s.Wholes, s.Packed)
	fmt.Fprintf(&b, "faults that took place: %s\n", counts(came))
	fmt.Fprintf(&b, "of %d kinds: %s\n", len(s.Came), counts(s.Came))
	fmt.Fprintf(&b, "faults that were planned: %s\n", counts(planned))
	b.WriteString(s.shares())
	fmt.Fprintf(&b, "states: %s\n", counts(s.States))
	for _, x := range s.Slow {
		fmt.Fprintf(&b, "seed %d took %s to settle: %s\n", x.Seed, x.Took.Round(time.Second), x.Last)
	}
	return b.String()
}

// firsts adds up what has the same first word, and all of it.
func firsts(by map[string]int) (kinds map[string]int, all int) {
	kinds = map[string]int{}
	for k, n := range by {
		first, _, _ := strings.Cut(k, " ")
		kinds[first] += n
		all += n
	}
	return kinds, all
}

func counts(m map[string]int) string {
	keys := slices.Sorted(maps.Keys(m))
	slices.SortStableFunc(keys, func(a, b string) int { return m[b] - m[a] })
	var parts []string
	for _, k := range keys {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}

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
		planned[sortOf(schedule.KindOf(f))] = true
	}
	for _, kind := range r.Schedule.Kinds() {
		planned[kind] = true
	}
	for kind, n := range r.Came {
		came[sortOf(kind)] = came[sortOf(kind)] || n > 0
	}
	for _, kind := range r.Schedule.Always() {
		came[kind] = true
	}
	if of, _ := firsts(r.Came); planned[schedule.UnreadHosts] && of[schedule.FaultLink] > 0 && of[schedule.FaultWord] > 0 {
		came[schedule.UnreadHosts] = true
	}
	if w := r.Schedule.World; w.Later {
		if planned[w.Versions()] = true; r.Later > 0 {
			came[w.Versions()] = true
		}
	}
	for sort := range planned {
		s.PlannedIn[sort]++
	}
	for sort := range came {
		s.CameIn[sort]++
	}
}

// enoughPlans is in how many schedules of a run a sort of fault has to be planned for it to take place in one of them
// at least: some wait for what does not always come.
const enoughPlans = 15

// Absent are the sorts of faults that were planned often enough and took place in no schedule: a fault that is never
// applied finds nothing, however often it is planned.
func (s *Stats) Absent() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sort := range slices.Sorted(maps.Keys(s.PlannedIn)) {
		if s.PlannedIn[sort] >= enoughPlans && s.CameIn[sort] == 0 {
			all = append(all, sort)
		}
	}
	return all
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
	text := fmt.Sprintf(
		"of 100 schedules, in how many each sort took place (was planned): %s\n",
		strings.Join(all, ", "),
	)
	if len(rare) > 0 {
		text += fmt.Sprintf("in less than %.0f of 100: %s\n", 100*leastShare, strings.Join(rare, ", "))
	}
	return text
}
