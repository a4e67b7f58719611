// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

const (
	// given is how long after a host holds a placeholder it may be free while something waits in vain for its own.
	given = 5 * time.Second
	// heardOf is how long after a host said that it holds a placeholder it counts as heard, whatever else it says.
	heardOf = compute.SilentAfter - 5*time.Second
)

// inVain finds what waits for a placeholder that no host holds, while a host has said that it holds one of the same
// reservation that nobody has taken. Whoever decides gives it that in the same batch, so what the project has written next
// after a while shows that it was not.
func (r *Recording) inVain() (wrong []Violation) {
	v := vain{last: map[compute.InstanceID]compute.Instance{}, held: map[compute.InstanceID]time.Time{},
		since: map[compute.InstanceID]time.Time{}}
	for _, w := range r.Log {
		if w.Removed || w.Instance.Project != schedule.Reserving {
			continue
		}
		for id, since := range v.since {
			if p, free := v.freeFor(v.last[id], w.Seen); !free {
				delete(v.since, id)
			} else if w.Seen.Sub(since) > given {
				delete(v.since, id)
				wrong = append(wrong, broken("reserved", id, w.Seen, "%s waits for a placeholder that is not held, and %s on %s is free since %s",
					v.last[id].Boot.Name, p.Boot.Name, p.Host, r.At(v.held[p.ID]))...)
			}
		}
		v.note(w)
	}
	return wrong
}

// vain is what is known of a project's reservations at a time.
type vain struct {
	last  map[compute.InstanceID]compute.Instance
	held  map[compute.InstanceID]time.Time // when the host of a placeholder said so
	since map[compute.InstanceID]time.Time // from when on something waits in vain
}

func (v *vain) note(w Written) {
	i, old := w.Instance, v.last[w.Instance.ID]
	v.last[i.ID] = i
	if i.IsPlaceholder() && i.State == compute.StateActive && old.State != compute.StateActive {
		v.held[i.ID] = w.Seen
	}
	for id, t := range v.last {
		if _, free := v.freeFor(t, w.Seen); !free {
			delete(v.since, id)
		} else if v.since[id].IsZero() {
			v.since[id] = w.Seen
		}
	}
}

// freeFor is a free placeholder for what waits for one that is not held; false: it does not, or there is none.
func (v *vain) freeFor(t compute.Instance, now time.Time) (compute.Instance, bool) {
	if t.State != compute.StateQueued || t.Boot.In().ID == "" || v.last[t.Boot.In().ID].State == compute.StateActive {
		return compute.Instance{}, false
	}
	for id, p := range v.last {
		of := p.Boot.Placeholder()
		if of.Of == t.Boot.Reservation() && of.Taker == "" && p.State == compute.StateActive && now.Sub(v.held[id]) < heardOf {
			return p, true
		}
	}
	return compute.Instance{}, false
}
