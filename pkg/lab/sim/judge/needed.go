// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

const (
	// needKnown is how long after the last work of a queue found a host, or ended, notice may still be given for it: beacons
	// are up to 5 s old, and a host is told, and asks, a moment later.
	needKnown = 10 * time.Second
	// needHindered is how much later that may be where anything goes wrong: a conductor grants what a host asked for within
	// the last minute, and what a host is told may be as late as rings are.
	needHindered = 90 * time.Second
)

// checkNeeded: no machine is given notice for work of a queue in which nothing has waited for a while, and none where hosts make
// no room. Work waits as long as it is queued and due, and no host prepares it or has claimed it. Placeholders of reservations
// do not count, nor does what is for their room.
func checkNeeded(r *Recording) (wrong []Violation) {
	var waits []inQueue
	for _, v := range r.versions() {
		i, n := v.Instance, v.Instance.Notice()
		if n == nil || v.old.Notice() != nil {
			continue
		}
		if waits == nil {
			waits = r.allInQueues()
		}
		if !r.Schedule.World.Saves || !r.neededFor(waits, n, v.Seen) {
			wrong = append(wrong, broken("needed", i.ID, v.Seen, "%s has notice for work of %s, where nothing has waited for a while",
				i.Boot.Name, n.Queue)...)
		}
	}
	return wrong
}

// inQueue is a time in which work waited in a queue, and when that was asked for.
type inQueue struct {
	span
	queue compute.QueueName
	asked time.Time
}

// neededFor says whether something waited for which notice was given that was seen in the log at a time.
func (r *Recording) neededFor(waits []inQueue, n *compute.Notice, seen time.Time) bool {
	long := needKnown + r.Schedule.Slack() + r.Schedule.World.Drifts()
	decided := seen
	if len(r.Schedule.Faults) > 0 {
		long += needHindered
	}
	if r.Schedule.Has(schedule.FaultLeaderless) {
		decided = earliest(n.At, seen) // its partition may have no leader, so that it is seen much later
	}
	after := r.Schedule.World.Savings().After
	for _, w := range waits {
		if w.queue == n.Queue && w.from.Before(seen) && w.to.After(decided.Add(-long)) &&
			!w.asked.After(seen.Add(-after)) {
			return true
		}
	}
	return false
}

// allInQueues are the times in which each work waited. Where a partition may have no leader its first record is seen
// late, so it waits from when it was asked for.
func (r *Recording) allInQueues() (all []inQueue) {
	asked, known := r.wanted(), map[compute.InstanceID]bool{}
	for at, w := range r.Log {
		i, from := w.Instance, w.Seen
		if !known[i.ID] && r.Schedule.Has(schedule.FaultLeaderless) {
			from = earliest(from, asked[i.Boot.Name].Began)
		}
		known[i.ID] = true
		if w.Removed || i.State != compute.StateQueued || i.IsPlaceholder() || i.Boot.Reservation() != "" {
			continue
		}
		q, _ := lineOf(i)
		for _, free := range r.unclaimed(i, span{latest(from, i.PublishAt), r.over(at)}) {
			all = append(all, inQueue{free, q, asked[i.Boot.Name].Began})
		}
	}
	return all
}

// claimedInVain says whether a claim was denied, or is one of a set that led to nothing: such a claim is kept until
// each of the set has one, and is forgotten without a denial if its host is lost meanwhile.
func (r *Recording) claimedInVain(i compute.Instance, c Claimed) bool {
	return r.denied(c.Claim) || i.Boot.Set().ID != "" && !slices.ContainsFunc(r.Log, func(w Written) bool {
		return w.Instance.ID == i.ID && w.Instance.State == compute.StateStarting && w.Instance.Claim == c.Claim
	})
}

// unclaimed is when, in a time in which the work of an instance lies in its queue, no host prepares it or has claimed it.
func (r *Recording) unclaimed(i compute.Instance, in span) (free []span) {
	for _, c := range r.Claims {
		if c.Instance == i.ID && c.Attempt == i.Attempt && c.Seen.Before(in.to) && !r.claimedInVain(i, c) {
			in.to = c.Seen
		}
	}
	from := in.from
	for _, w := range r.Works {
		if w.Instance != i.ID || w.Method != "Prepare" || !w.From.Before(in.to) || !w.To.IsZero() && w.To.Before(from) {
			continue
		}
		if from.Before(w.From) {
			free = append(free, span{from, w.From})
		}
		if from = w.To; from.IsZero() {
			return free
		}
	}
	if from.Before(in.to) {
		free = append(free, span{from, in.to})
	}
	return free
}
