// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// addBuild takes a record of a queue: of a set that is offered whole the work of each part, and the whole.
func (r *Recording) addBuild(to *[]Published, b compute.Build) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range b.Each() {
		*to = append(*to, Published{time.Now(), one})
	}
	if to != &r.Builds {
		return
	}
	r.Effects = append(r.Effects, Effect{b.Project, b.Instance, b.At})
	if len(b.Parts) > 0 {
		r.Wholes = append(r.Wholes, Published{time.Now(), b})
	}
}

// lineOf is the queue in which the work of an instance waits; own says that its record is there, and not that of
// another of its set.
func lineOf(i compute.Instance) (q compute.QueueName, own bool) {
	if whole := i.Whole(); whole != "" {
		return whole, i.Leads()
	}
	return i.Queue, true
}

// checkWholes: what is offered as one is all of one set as it was asked for, no more than the machine of the queue in
// which it lies, and runs on one host.
func checkWholes(r *Recording) (wrong []Violation) {
	if len(r.Wholes) == 0 {
		return nil
	}
	asked, sets := r.wanted(), r.sets()
	for _, b := range r.Wholes {
		sum, set := compute.Resources{}, ""
		for _, part := range b.Parts {
			sum, set = sum.Plus(part.Resources), asked[part.Name].Set
		}
		switch {
		case len(b.Parts) != len(sets[set]):
			wrong = append(wrong, broken("whole", b.Instance, b.Seen, "%d of the %d of %s are offered as one in %s",
				len(b.Parts), len(sets[set]), set, b.Queue)...)
		case !sum.Equal(b.Resources):
			wrong = append(wrong, broken("whole", b.Instance, b.Seen, "%s needs %s, and is offered in %s as %s",
				set, sum, b.Queue, b.Resources)...)
		case !r.covers(b):
			wrong = append(wrong, broken("whole", b.Instance, b.Seen, "%s needs %s, which a machine of %s has not", set, sum, b.Queue)...)
		}
	}
	return append(append(wrong, r.runApart(sets)...), r.claimedLate()...)
}

// claimsApart is how long after the first claim of a set that one host has taken the last one comes at most: less than it
// takes until what is not claimed is offered again.
const claimsApart = 20 * time.Second

// claimedLate finds parts that were claimed long after the first of their set, or not, where nothing goes wrong.
func (r *Recording) claimedLate() (wrong []Violation) {
	if len(r.Schedule.Faults) > 0 {
		return nil
	}
	first, ended := map[work]time.Time{}, map[compute.InstanceID]time.Time{}
	for _, c := range slices.Backward(r.Claims) {
		first[work{c.Instance, c.Attempt}] = c.Seen
	}
	for _, w := range slices.Backward(r.Log) {
		if w.Instance.State.Ended() || w.Instance.Whole() == "" && w.Instance.State == compute.StateQueued {
			ended[w.Instance.ID] = w.Seen
		}
	}
	for _, b := range r.Wholes {
		from := time.Time{}
		for _, part := range b.Parts {
			if at := first[work{part.Instance, part.Attempt}]; !at.IsZero() && (from.IsZero() || at.Before(from)) {
				from = at
			}
		}
		due := from.Add(claimsApart + 60*r.Schedule.World.Latency.Duration())
		for _, part := range b.Parts {
			at, over := first[work{part.Instance, part.Attempt}], ended[part.Instance]
			early := !over.IsZero() && over.Before(due) || latest(r.Calm, r.Settled).Before(due)
			if !from.IsZero() && !early && (at.IsZero() || at.After(due)) {
				wrong = append(wrong, broken("whole", part.Instance, due, "%s is claimed at %s, and another of its set was at %s",
					part.Name, r.At(at), r.At(from))...)
			}
		}
	}
	return wrong
}

// covers says whether a machine of the queue in which a set lies is as large as the set, as far as that is known: flavors
// may come later, or become others.
func (r *Recording) covers(b Published) bool {
	for _, q := range r.Schedule.World.Permutations() {
		if q.Name == b.Queue && !r.Schedule.Resizes(q.Flavor) {
			return b.Resources.FitsIn(q.Resources)
		}
	}
	return true
}

// runApart finds sets that were offered whole and run on several hosts at a time. Where the rule of their group becomes
// another one they may.
func (r *Recording) runApart(sets map[string][]Ask) (wrong []Violation) {
	name := map[compute.InstanceID]string{}
	for _, b := range r.Wholes {
		for set, parts := range sets {
			for _, a := range parts {
				if a.ID == b.Instance && !r.Schedule.Regroups(compute.GroupKey{Project: a.Project, Name: a.Boot.Group()}) {
					for _, a := range parts {
						name[a.ID] = set
					}
				}
			}
		}
	}
	runs := r.runs()
	for _, a := range runs {
		for _, b := range runs {
			if name[a.instance] != "" && name[a.instance] == name[b.instance] && a.host != b.host && b.at(a.from) {
				wrong = append(wrong, broken("whole", a.instance, a.from, "%s runs on %s and on %s",
					name[a.instance], a.host, b.host)...)
			}
		}
	}
	return wrong
}

// countWholes counts the sets that were offered whole, and those of them that were granted.
func (r *Recording) countWholes() (offered, granted int) {
	seen, started := map[compute.InstanceID]bool{}, map[compute.InstanceID]bool{}
	for _, w := range r.Log {
		started[w.Instance.ID] = started[w.Instance.ID] || w.Instance.State == compute.StateStarting
	}
	for _, b := range r.Wholes {
		if !seen[b.Instance] && started[b.Instance] {
			granted++
		}
		seen[b.Instance] = true
	}
	return len(seen), granted
}

// packed says whether an instance leads a set that is offered whole in a group that has no other members: a host with
// room takes it. Of one of which a part has failed, it is left to other hosts first.
func (r *Recording) packed(i compute.Instance) bool {
	if i.Whole() == "" || !i.Leads() || !strings.HasPrefix(string(i.Boot.Group()), schedule.Packed) {
		return false
	}
	for _, w := range r.Log {
		if w.Instance.Boot.Set().ID == i.ID && len(w.Instance.Failures) > 0 {
			return false
		}
	}
	return true
}

// WaitsWhole is what waits of an instance that leads a set which is offered whole, where nothing but room decides
// about it.
func (r *Recording) WaitsWhole(i compute.Instance) (whole compute.Instance, is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.packed(i) {
		return i, false
	}
	return r.asWhole(i)
}

// asWhole is an instance that leads a set which is offered whole as what waits: a machine of the queue that covers
// the set.
func (r *Recording) asWhole(i compute.Instance) (whole compute.Instance, known bool) {
	for _, q := range r.Schedule.World.Permutations() {
		if q.Name == i.Whole() {
			i.Queue, i.Boot.Flavor = q.Name, q.Flavor
			i.Resources, i.Required, i.Forbidden = q.Resources, q.Required, q.Forbidden
			return i, true
		}
	}
	return i, false
}

// claimedOf is when one of a set was first claimed from a moment on; zero: none was.
func (r *Recording) claimedOf(i compute.Instance, from time.Time) time.Time {
	of := map[compute.InstanceID]bool{}
	for _, w := range r.Log {
		of[w.Instance.ID] = of[w.Instance.ID] || w.Instance.Boot.Set().ID == i.ID
	}
	for _, c := range r.Claims {
		if of[c.Instance] && !c.Seen.Before(from) {
			return c.Seen
		}
	}
	return time.Time{}
}
