// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
)

// Leaderless is a time in which a partition had no leader.
type Leaderless struct {
	Topic     string
	Partition int32
	From, To  time.Time
}

// AddLeaderless notes that a partition has a leader again.
func (r *Recording) AddLeaderless(l Leaderless) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Leaderless = append(r.Leaderless, l)
}

// besideTime is how long what is asked about a project, and what a host does for it, may take while a partition of
// other projects has no leader, beyond what the machine itself takes. A node that hears from nobody else needs some
// seconds to learn that it is the partition alone.
const besideTime = 15 * time.Second

// besideTime is that with a network in between.
func (r *Recording) besideTime() time.Duration { return besideTime + r.Schedule.Slack() }

// crawls says whether processes may be behind with what hosts report, which they read one by one, for longer than that.
func (r *Recording) crawls() bool {
	return r.Schedule.World.Sips && r.Schedule.World.Latency > 0.02
}

// crawled is how far conductors may be behind then: of each instance they read a request, a claim and that it runs, and
// each costs them the way there and back twice, to read it and to write what follows. A message takes half of the
// world's latency on average.
func (r *Recording) crawled() time.Duration {
	if !r.crawls() {
		return 0
	}
	return time.Duration(3*2*len(r.last())) * r.Schedule.World.Latency.Duration()
}

// checkBeside: while one partition has no leader, what is of the others is answered, started and deleted, and ends by
// its deadline.
func checkBeside(r *Recording) (wrong []Violation) {
	if len(r.Leaderless) == 0 || len(r.Leaderless) != len(r.Schedule.Faults) || r.Schedule.World.Deaf {
		return nil // other things go wrong too
	}
	during := func(p compute.Project, from, due time.Time) bool {
		return slices.ContainsFunc(r.Leaderless, func(l Leaderless) bool {
			return l.Partition != wire.Partition(p, r.Schedule.World.Partitions) &&
				!from.Before(l.From) && due.Before(l.To)
		})
	}
	for _, a := range r.Asks {
		due := a.Began.Add(r.besideTime())
		if !ofOne(a) || r.comesOrGoes(a.Boot) || !during(a.Project, a.Began, due) {
			continue
		}
		if a.Answered.IsZero() || a.Answered.After(due) {
			wrong = append(wrong, broken("beside", a.ID, a.Began,
				"%s of %s, asked at %s, is answered at %s in %d tries, though only a partition of other projects has no leader: %v",
				a.Op, a.Name, r.At(a.Began), r.At(a.Answered), a.Tries, a.Why)...)
		}
	}
	if r.crawls() {
		return wrong
	}
	for n, v := range r.versions() {
		w, i := v.Written, v.Instance
		if i.State != compute.StateQueued {
			continue
		}
		due, what := r.waitsUntil(i, w.Seen, v.asked)
		late := r.orTakenOver(w.Partition, due, r.besideTime())
		if !due.Before(w.Seen) && during(i.Project, due, late) && r.over(n).After(late) {
			wrong = append(wrong, broken("beside", i.ID, due,
				"%s waits until %s, and its %s was over at %s, though only a partition of other projects has no leader",
				i.Boot.Name, r.At(r.over(n)), what, r.At(due))...)
		}
	}
	for n, w := range r.Log {
		i, due := w.Instance, r.goesOnBy(w)
		if w.Removed || i.State != compute.StateStarting && i.State != compute.StateDeleting ||
			!during(i.Project, w.Seen, due) {
			continue
		}
		goesOn := slices.ContainsFunc(r.Log[n+1:], func(next Written) bool {
			return next.Instance.ID == i.ID && next.Instance.State != i.State && !next.Seen.After(due)
		})
		if !goesOn {
			wrong = append(wrong, broken("beside", i.ID, w.Seen,
				"%s is %s since %s, and %s later still, though only a partition of other projects has no leader",
				i.Boot.Name, i.State, r.At(w.Seen), due.Sub(w.Seen))...)
		}
	}
	return wrong
}

// comesOrGoes says whether the flavor of a boot is added or removed meanwhile: its queue is made by a queue manager
// that has read all instances, and a partition of those may have no leader.
func (r *Recording) comesOrGoes(b *compute.Boot) bool {
	return b != nil && slices.ContainsFunc(r.Schedule.Load, func(l schedule.Load) bool {
		return l.Flavor != nil && l.Flavor.Name == b.Flavor
	})
}

// listens is for how long a new owner of a partition does not believe hosts that what was there is gone.
const listens = compute.SilentAfter / 2

// goesOnBy is until when what starts or is deleted has to go on.
func (r *Recording) goesOnBy(w Written) time.Time {
	longest := r.besideTime()
	for _, h := range r.Schedule.World.Hosts {
		longest = max(longest, r.besideTime()+h.Prepare.Duration()+h.Launch.Duration()+h.Destroy.Duration())
	}
	return r.orTakenOver(w.Partition, w.Seen, longest)
}

// orTakenOver is when what may take so long from a time on is over. A takeover of its partition before that makes it
// later, and so does one in the half a minute before that time: the new owner believes only then what hosts say of what
// is gone.
func (r *Recording) orTakenOver(partition int32, from time.Time, longest time.Duration) time.Time {
	due := from.Add(longest)
	for _, o := range r.Owners {
		if o.Partition == partition && o.Seen.After(from.Add(-listens)) && !o.Seen.After(due) {
			due = latest(due, o.Seen.Add(listens+longest))
		}
	}
	return due
}

// ofOne says whether a request is about one instance alone, and is repeated until it is answered.
func ofOne(a Ask) bool {
	switch a.Op {
	case schedule.LoadBoot:
		return a.Own != ""
	case schedule.LoadDelete, schedule.LoadPower, schedule.LoadLabel:
		return true
	}
	return false
}
