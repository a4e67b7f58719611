// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// checkImages: an image that is broken is no fault of its host, which goes on with all other
// work; nothing is launched of it; and an instance of it ends with a reason that names the
// image, after as many attempts as were asked for.
func checkImages(r *Recording) []Violation {
	return slices.Concat(r.blamed(), r.madeOfBroken(), r.triedBroken())
}

// blamed are hosts that say that they are quarantined, and nothing has happened to them that
// quarantines a host.
func (r *Recording) blamed() (wrong []Violation) {
	said := map[compute.HostID]bool{}
	for _, o := range r.Offers {
		_, own := r.Schedule.Host(o.Host) // not one that was renamed
		begun := o.Asks && r.Schedule.Begins(o.Host)
		if o.State != compute.HostQuarantined || !own || said[o.Host] || begun || r.Schedule.MayQuarantine(o.Host) {
			continue
		}
		said[o.Host] = true
		wrong = append(wrong, broken(
			"quarantine",
			"",
			o.Seen,
			"%s says at %s that it is quarantined, and none of its starts failed but by an image",
			o.Host,
			r.At(o.Seen),
		)...)
	}
	return wrong
}

// madeOfBroken are machines that were launched of an image that cannot be one.
func (r *Recording) madeOfBroken() (wrong []Violation) {
	images := map[compute.InstanceID]string{}
	for _, g := range r.Given {
		images[g.Spec.Instance] = g.Spec.Image
	}
	for _, l := range r.Launches {
		if image := images[l.Instance]; r.Schedule.World.Broken(l.Host, image) != nil {
			wrong = append(wrong, broken("image", l.Instance, l.At, "attempt %d is launched on %s, where %s is broken",
				l.Attempt, l.Host, image)...)
		}
	}
	return wrong
}

// triedBroken are instances that were tried with a broken image, or ended by it, otherwise
// than promised.
func (r *Recording) triedBroken() (wrong []Violation) {
	asked, names := r.wanted(), map[compute.InstanceID]string{}
	said := map[compute.InstanceID]bool{}
	for _, w := range r.Log {
		i := w.Instance
		names[i.ID] = i.Boot.Name
		if what := r.unnamed(i); what != "" && !said[i.ID] {
			said[i.ID] = true
			wrong = append(wrong, broken("image", i.ID, w.Seen, "%s %s", i.Boot.Name, what)...)
		}
	}
	if len(r.Schedule.Faults) > 0 {
		return wrong // an attempt may be over before anybody hears how it failed
	}
	type try struct {
		work
		host compute.HostID
	}
	tried, tries := map[try]int{}, map[compute.InstanceID]map[compute.Attempt]bool{}
	for _, b := range r.Broke {
		if !b.Image {
			continue
		}
		if tries[b.Instance] == nil {
			tries[b.Instance] = map[compute.Attempt]bool{}
		}
		tries[b.Instance][b.Attempt] = true
		k := try{work{b.Instance, b.Attempt}, b.Host}
		most := int(asked[names[b.Instance]].Boot.Attempts) * (1 + r.preemptedBefore(b))
		switch n := len(tries[b.Instance]); {
		case tried[k] > 0 && tried[k] >= r.offered(k.work, b.Host, b.At):
			wrong = append(wrong, broken("image", b.Instance, b.At, "attempt %d of %s fails on %s twice, by its image",
				b.Attempt, names[b.Instance], b.Host)...)
		case n > most:
			wrong = append(
				wrong,
				broken("image", b.Instance, b.At, "%s was to be tried %d times, and its image fails in %d attempts",
					names[b.Instance], most, n)...)
		}
		tried[k]++
	}
	return wrong
}

// preemptedBefore is how often what a call was about had been taken away: it waits again with all of its attempts.
func (r *Recording) preemptedBefore(b Broke) (times int) {
	for _, w := range r.Log {
		i := w.Instance
		again := i.State == compute.StateQueued && i.Reason != nil && i.Reason.Code == compute.Preempted
		if i.ID == b.Instance && again && w.Seen.Before(b.At) {
			times++
		}
	}
	return times
}

// offered is how often a host may have begun an attempt: as often as it was in its queue or in the host's stream. A
// member of a group is offered to the host of the group beside its queue, and again once a claim was denied or a
// preference given up; what is over meanwhile a host prepares in vain.
func (r *Recording) offered(w work, h compute.HostID, by time.Time) (times int) {
	is := func(b compute.Build, at time.Time) bool {
		return b.Instance == w.id && b.Attempt == w.attempt && !at.After(by.Add(time.Second))
	}
	for _, b := range r.Builds {
		if is(b.Build, b.Seen) {
			times++
		}
	}
	for _, t := range r.Told {
		if t.Host == h && is(t.Build, t.Seen) {
			times++
		}
	}
	return times
}

// unnamed says how an instance that failed by its image does not say so; empty: it does.
func (r *Recording) unnamed(i compute.Instance) string {
	for _, f := range i.Failures {
		if !r.failedByImage(i.ID, f) {
			continue
		}
		if f.Class != compute.FailureHost || !strings.Contains(f.Message, i.Boot.Image) {
			return "failed on " + string(f.Host) + " by its image " + i.Boot.Image + ", and is said to have by " +
				f.Class.String() + ": " + f.Message
		}
	}
	n := len(i.Failures)
	if i.State != compute.StateError || n == 0 || n < int(i.Boot.Attempts) || !r.failedByImage(i.ID, i.Failures[n-1]) {
		return ""
	}
	if i.Reason == nil || i.Reason.Code != compute.AttemptsExhausted {
		return "failed as often as it was to be tried, and ends with " + i.Reason.String()
	}
	return ""
}

// failedByImage says whether a failure is what a hypervisor said of an image, and nothing
// else of that attempt there went wrong. A host that is started again may not know any more.
func (r *Recording) failedByImage(id compute.InstanceID, f compute.Failure) bool {
	is := false
	if r.Schedule.Touches(f.Host) {
		return false
	}
	for _, b := range r.Broke {
		if b.Instance != id || b.Attempt != f.Attempt || b.Host != f.Host {
			continue
		}
		if !b.Image {
			return false
		}
		is = true
	}
	return is
}

// behindOthers is how much longer work may wait for a host that offers, beside work of a
// broken image, that avoids hosts, or whose flavor was another: each of those is left to others twice, for two seconds.
// So is one member of a group, of which conductors may publish one more than hosts may have.
func (r *Recording) behindOthers(q compute.QueueName) time.Duration {
	n, members := 0, 0
	for _, x := range r.wanted() {
		broken := slices.ContainsFunc(
			r.Schedule.World.Bad,
			func(b schedule.BadImage) bool { return b.Image == x.Boot.Image },
		)
		if x.Queue == q && (broken || len(x.Boot.Avoid) > 0 || r.Schedule.Resizes(x.Boot.Flavor)) {
			n++
		}
		if x.Queue == q && x.Boot.Group() != "" {
			members = 1
		}
	}
	return time.Duration(n+members) * 2 * leftFor
}
