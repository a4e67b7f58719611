// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// checkSets: I8: none of a set runs before each was prepared on a host, and none stays of which another ended before it ever
// ran. What is of a set is what clients asked for; what was prepared and runs is what hypervisors did.
func checkSets(r *Recording) (wrong []Violation) {
	sets := r.sets()
	if len(sets) == 0 {
		return nil
	}
	wrong = r.grantedApart(sets)
	prepared, ran, failed := r.preparedFirst(), map[compute.InstanceID]bool{}, r.failedFirst()
	runs := r.runs()
	for _, x := range runs {
		ran[x.instance] = true
	}
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		for _, x := range runs {
			if !slices.ContainsFunc(sets[name], func(a Ask) bool { return a.ID == x.instance }) {
				continue
			}
			for _, part := range sets[name] {
				if at, ok := prepared[part.ID]; !ok || at.After(x.from) {
					wrong = append(wrong, broken("I8", x.instance, x.from, "it runs on %s, and %s of its set was not prepared by then",
						x.host, part.Name)...)
				}
				at, over := failed[part.ID]
				if over && !ran[part.ID] && !r.Settled.IsZero() && at.Before(r.Settled) && x.at(r.Settled) {
					wrong = append(wrong, broken("I8", x.instance, at, "it runs on %s, and %s of its set ended in error and never ran",
						x.host, part.Name)...)
				}
			}
		}
	}
	return wrong
}

// grantedApart finds sets of which the log grants some before others: the grants of all lie one behind the other.
func (r *Recording) grantedApart(sets map[string][]Ask) (wrong []Violation) {
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		in, granted := map[compute.InstanceID]bool{}, map[compute.InstanceID]bool{}
		for _, part := range sets[name] {
			in[part.ID] = true
		}
		for _, w := range r.Log {
			i := w.Instance
			if in[i.ID] && i.State == compute.StateStarting {
				granted[i.ID] = true
			}
			begun := len(granted) > 0 && len(granted) < len(in)
			if begun && w.Partition == wire.Partition(sets[name][0].Project, r.Schedule.World.Partitions) && !granted[i.ID] {
				wrong = append(wrong, broken("I8", i.ID, w.Seen, "%d of %d of %s are granted before this record of %s",
					len(granted), len(in), name, i.Boot.Name)...)
				break
			}
		}
	}
	return wrong
}

// preparedFirst is when each instance was prepared on a host first.
func (r *Recording) preparedFirst() map[compute.InstanceID]time.Time {
	first := map[compute.InstanceID]time.Time{}
	for _, w := range r.Works {
		broke := slices.ContainsFunc(r.Broke, func(b Broke) bool {
			return b.Host == w.Host && b.Instance == w.Instance && b.Method == w.Method && !b.At.Before(w.From) && !b.At.After(w.To)
		})
		if w.Method != "Prepare" || w.To.IsZero() || broke {
			continue
		}
		if at, known := first[w.Instance]; !known || w.To.Before(at) {
			first[w.Instance] = w.To
		}
	}
	return first
}

// failedFirst is when the log has each instance in error first.
func (r *Recording) failedFirst() map[compute.InstanceID]time.Time {
	first := map[compute.InstanceID]time.Time{}
	for _, w := range r.Log {
		if _, known := first[w.Instance.ID]; !known && w.Instance.State == compute.StateError {
			first[w.Instance.ID] = w.Seen
		}
	}
	return first
}

// sets are the boots of each set that was asked for.
func (r *Recording) sets() map[string][]Ask {
	sets := map[string][]Ask{}
	for _, a := range r.Asks {
		if a.Set != "" && a.ID != "" {
			sets[a.Set] = append(sets[a.Set], a)
		}
	}
	return sets
}

// anyAskedWith says whether something is so of a boot, or of another of its set: these are refused together.
func (r *Recording) anyAskedWith(a Ask, is func(compute.Boot) bool) bool {
	if a.Set == "" {
		return is(*a.Load.Boot)
	}
	return slices.ContainsFunc(r.sets()[a.Set], func(b Ask) bool { return is(*b.Load.Boot) })
}

// partNamed says whether a boot of this name was asked for in a set: it waits for others, and is offered again and again.
func (r *Recording) partNamed(name string) bool {
	return slices.ContainsFunc(r.Asks, func(a Ask) bool { return a.Name == name && a.Set != "" })
}

// ruled says whether more than room decides when a boot of this name starts: its group, or its set.
func (r *Recording) ruled(name string) bool { return r.memberNamed(name) || r.partNamed(name) }

// setTry is for how long the work of a set is offered before it is offered anew.
const setTry = 2 * time.Minute

// endsOf is until when the work of a boot may be taken. That of a set is offered for as long as a try lasts.
func endsOf(b Published, x Wanted, reckons time.Duration) field {
	if x.Set != "" && b.Deadline.Sub(b.At) == setTry { // of a later try than the first
		x.Boot.Deadline = min(x.Boot.Deadline, setTry)
	}
	return ends(b.Deadline, b.Seen, x, reckons)
}

// gaveBack says whether a record is one of a set that gave back what it had, and tries again, or of what was offered to a
// host that holds its room no more.
func (r *Recording) gaveBack(old, i compute.Instance) bool {
	return (r.partNamed(i.Boot.Name) || old.Boot.In().ID != "") && old.State == compute.StateQueued && i.State == compute.StateQueued &&
		i.Attempt == old.Attempt+1
}

// setMayFail says whether another of a set ended by the time that this one did because of it.
func (r *Recording) setMayFail(x Wanted, w Written) bool {
	for _, other := range r.sets()[x.Set] {
		for _, o := range r.Log {
			i := o.Instance
			if i.ID == other.ID && i.ID != w.Instance.ID && i.State.Ended() && !o.Seen.After(w.Seen.Add(time.Second)) &&
				(i.Reason == nil || i.Reason.Code != compute.SetFailed) {
				return true
			}
		}
	}
	return false
}
