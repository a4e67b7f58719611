// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
)

// Denied is one answer to a claim that a host was sent: no.
type Denied struct {
	Seen time.Time
	Host compute.HostID
	compute.Command
}

// Effect is what a conductor told a host about an instance, or put into a queue, but for denials.
type Effect struct {
	compute.Project
	Instance compute.InstanceID
	At       time.Time // when it was decided, by the conductor's clock
}

// denied says whether a claim was denied.
func (r *Recording) denied(c compute.ClaimID) bool {
	return slices.ContainsFunc(r.Denials, func(d Denied) bool { return d.Claim == c })
}

// checkDenied: a claim is answered in one way: a claim that the log grants is not denied, before
// that or for as long as the grant holds. A conductor that denies it does not own its project any
// more. Of twins neither is granted anything for as long as both are heard of.
func checkDenied(r *Recording) (wrong []Violation) {
	if r.Schedule.Clones() || r.Schedule.Has(schedule.FaultRename) {
		return nil
	}
	for _, d := range r.Denials {
		for n, w := range r.Log {
			i := w.Instance
			granted := i.State == compute.StateStarting && i.ID == d.Instance && i.Claim == d.Claim && i.Host == d.Host
			if !granted || r.overBefore(n, d) {
				continue
			}
			// The next owner decides anew. What was decided before may come late, over a link that was cut meanwhile: a
			// host whose claim is granted heeds it no more.
			if r.mayForget(d) && r.owned(w.Partition, w.Seen).After(earliest(d.At, d.Seen)) {
				break
			}
			wrong = append(wrong, broken("denied", i.ID, d.Seen,
				"the claim of attempt %d of %s by %s is denied at %s, and was granted at %s (%s)",
				d.Attempt, i.Boot.Name, d.Host, r.At(d.Seen), r.At(i.StartingAt), d.Reason)...)
			break
		}
	}
	return wrong
}

// mayForget says whether the next owner of a partition may decide a claim otherwise that was denied (decision 0074): by
// the rule of a group, as work is published again with such a denial; for a fence, which is in memory alone; or beside
// a kept claim of a set, where it is repeated, or where an effect that no change led to was sent before it and is not
// answered yet, so that no position is written with it (decision 0085), as while a fault holds that up and for a while
// after. Where such an effect was decided a moment before, the claim may be decided otherwise until its position is
// committed.
func (r *Recording) mayForget(d Denied) bool {
	times := 0
	for _, c := range r.Claims {
		if c.Claim == d.Claim {
			times++
		}
	}
	byRule := d.Reason != nil && d.Reason.Code == compute.GroupRule
	byFence := d.Reason != nil && strings.Contains(d.Reason.Detail, "declared dead")
	i := r.last()[d.Instance]
	ofSet := i.Boot.Set().ID != ""
	seen := d.Seen.Sub(r.Start)
	until := seen
	if r.besideEffect(i.Project, d.At) {
		until += committed
	}
	return byRule || byFence || ofSet && (times > 1 || r.Schedule.DelaysEffects(seen-recovers, until))
}

// committed is how long after a host was told the position of what no record carries is committed at the latest.
const committed = 2 * time.Second

// besideEffect says whether an effect of a partition that no change led to may not have been answered when a claim was
// denied: if it is lost with its conductor, its input has to be read again, and with it what was decided since.
func (r *Recording) besideEffect(p compute.Project, at time.Time) bool {
	partitions := r.Schedule.World.Partitions
	from := at.Add(-100*time.Millisecond - 10*r.Schedule.World.Latency.Duration())
	return slices.ContainsFunc(r.Effects, func(e Effect) bool {
		same := wire.Partition(e.Project, partitions) == wire.Partition(p, partitions)
		return same && !e.At.After(at) && e.At.After(from) && !r.changedAt(e)
	})
}

// changedAt says whether an effect follows from a change: the log has a record of its instance of that moment.
func (r *Recording) changedAt(e Effect) bool {
	return slices.ContainsFunc(r.Log, func(w Written) bool {
		return w.Instance.ID == e.Instance && w.Instance.ChangedAt.Equal(e.At)
	})
}

// overBefore says whether a grant of the log was over when a claim was denied: by what was
// seen, or by what the conductors say, whose clocks may differ.
func (r *Recording) overBefore(n int, d Denied) bool {
	granted := r.Log[n].Instance
	for _, w := range r.Log[n+1:] {
		i := w.Instance
		if i.ID == granted.ID && (i.Claim != granted.Claim || !i.State.OnHost() || i.State == compute.StateDeleting) {
			return !w.Seen.After(d.Seen) || !i.ChangedAt.After(d.At)
		}
	}
	return false
}

// twinsThatWon are the names of which the log has the second request, not the first.
func (r *Recording) twinsThatWon() map[string]bool {
	won := map[string]bool{}
	for _, w := range slices.Backward(r.Log) {
		if name := w.Instance.Boot.Name; !w.Removed && name != "" {
			won[name] = schedule.TwinOf(w.Instance.Boot)
		}
	}
	return won
}

// checkKeys: a boot under an id or a key that was answered with 202 is the one in the
// log: of two with different bodies one was refused, whichever nodes they came to.
func checkKeys(r *Recording) (wrong []Violation) {
	first := map[compute.InstanceID]compute.Instance{}
	for _, w := range r.Log {
		if _, known := first[w.Instance.ID]; !known && !w.Removed {
			first[w.Instance.ID] = w.Instance
		}
	}
	for _, a := range r.Accepted() {
		i, ok := first[a.ID]
		if a.Op != schedule.LoadBoot || a.Own == "" || !ok || i.Boot.Flavor == "" { // deleted before its boot came
			continue
		}
		if !maps.Equal(a.Boot.Metadata, i.Boot.Metadata) {
			wrong = append(wrong, broken(
				"key",
				a.ID,
				a.Answered,
				"%s was accepted with %v, and it is another request's, with %v",
				a.Name,
				a.Boot.Metadata,
				i.Boot.Metadata,
			)...)
		}
	}
	return wrong
}
