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

// checkBeside: while one partition has no leader, what is of the others is answered, started and deleted.
func checkBeside(r *Recording) (wrong []Violation) {
	if len(r.Leaderless) == 0 || len(r.Leaderless) != len(r.Schedule.Faults) || r.Schedule.World.Deaf {
		return nil // other things go wrong too
	}
	during := func(p compute.Project, from time.Time, longest time.Duration) bool {
		return slices.ContainsFunc(r.Leaderless, func(l Leaderless) bool {
			return l.Partition != wire.Partition(p, r.Schedule.World.Partitions) &&
				!from.Before(l.From) && from.Add(longest).Before(l.To)
		})
	}
	for _, a := range r.Asks {
		if !ofOne(a) || r.comesOrGoes(a.Boot) || !during(a.Project, a.Began, besideTime) {
			continue
		}
		if a.Answered.IsZero() || a.Answered.Sub(a.Began) > besideTime {
			wrong = append(wrong, broken("beside", a.ID, a.Began,
				"%s of %s, asked at %s, is answered at %s in %d tries, though only a partition of other projects has no leader: %v",
				a.Op, a.Name, r.At(a.Began), r.At(a.Answered), a.Tries, a.Why)...)
		}
	}
	for n, w := range r.Log {
		i := w.Instance
		longest := besideTime
		for _, h := range r.Schedule.World.Hosts {
			longest = max(longest, besideTime+h.Prepare.Duration()+h.Launch.Duration()+h.Destroy.Duration())
		}
		if r.takenLately(w) {
			longest += listens
		}
		if w.Removed || i.State != compute.StateStarting && i.State != compute.StateDeleting ||
			!during(i.Project, w.Seen, longest) {
			continue
		}
		goesOn := slices.ContainsFunc(r.Log[n+1:], func(next Written) bool {
			return next.Instance.ID == i.ID && next.Instance.State != i.State && next.Seen.Sub(w.Seen) <= longest
		})
		if !goesOn {
			wrong = append(wrong, broken("beside", i.ID, w.Seen,
				"%s is %s since %s, and %s later still, though only a partition of other projects has no leader",
				i.Boot.Name, i.State, r.At(w.Seen), longest)...)
		}
	}
	return wrong
}

// comesOrGoes says whether the flavor of a boot is added or removed meanwhile: its queue is made by a queue manager that
// has read all instances, and a partition of those may have no leader.
func (r *Recording) comesOrGoes(b *compute.Boot) bool {
	return b != nil && slices.ContainsFunc(r.Schedule.Load, func(l schedule.Load) bool {
		return l.Flavor != nil && l.Flavor.Name == b.Flavor
	})
}

// listens is for how long a new owner of a partition does not believe hosts that what was there is gone.
const listens = compute.SilentAfter / 2

// takenLately says whether the partition of a record was taken over in the time before in which its owner listens.
func (r *Recording) takenLately(w Written) bool {
	return slices.ContainsFunc(r.Owners, func(o Owned) bool {
		return o.Partition == w.Partition && !o.Seen.After(w.Seen) && w.Seen.Sub(o.Seen) < listens
	})
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
