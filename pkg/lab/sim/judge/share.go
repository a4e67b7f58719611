// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// crowded is until when, while record n of the log was the newest of its instance, as many others of its project waited
// in its queue as may keep it in the conductor; zero: at no time.
func (r *Recording) crowded(n int) (last time.Time) {
	its, most := r.Log[n].Instance, r.window()
	others := map[compute.InstanceID]bool{}
	for m, w := range r.Log {
		i := w.Instance
		if len(others) >= most && m > n {
			last = w.Seen
		}
		if m > n && i.ID == its.ID {
			return last
		}
		if delete(others, i.ID); !w.Removed && i.ID != its.ID && i.State == compute.StateQueued && i.Boot.Host == "" &&
			i.Project == its.Project && i.Queue == its.Queue {
			others[i.ID] = true
		}
	}
	if len(others) >= most {
		return r.over(n)
	}
	return last
}

// letGo is when the last moment was in which others of its project may have kept an instance in the conductor that
// waits for its first host; zero: they did at no time.
func (r *Recording) letGo(id compute.InstanceID) time.Time {
	n := slices.IndexFunc(r.Log, func(w Written) bool {
		return w.Instance.ID == id && w.Instance.State == compute.StateQueued
	})
	if n < 0 {
		return time.Time{}
	}
	return r.crowded(n)
}

// window is how many builds of a project conductors put into a queue at least.
func (r *Recording) window() int {
	if most := r.Schedule.World.Share; most > 0 {
		return most
	}
	return compute.UsualShare
}

// passed is how long others of its project that no host takes can keep an instance in the conductor where hosts have
// room: so many more of them are published as were beyond the window before, at least the window and at most four of it,
// after 5 s, 10 s and so on up to a minute. What is not offered to all hosts in a queue of its own does not wait behind others.
func (r *Recording) passed(id compute.InstanceID) (long time.Duration) {
	its := r.last()[id]
	if its.Boot.Host != "" || its.Whole() != "" || its.Boot.Reservation() != "" {
		return 0
	}
	others, w, wait := r.mostBeside(its, span{r.well(), r.Placed}), r.window(), 5*time.Second
	for n := w; n <= others; wait = min(2*wait, time.Minute) {
		n += min(max(w, n-w), 4*w)
		long += wait
	}
	return long
}

// mostBeside is how many others of its project lay in the queue of an instance at one moment of a time at most.
func (r *Recording) mostBeside(its compute.Instance, in span) (most int) {
	others := map[compute.InstanceID]bool{}
	for _, w := range r.Log {
		i := w.Instance
		if i.Project != its.Project || w.Seen.After(in.to) {
			continue
		}
		if !w.Seen.Before(in.from) {
			most = max(most, len(others)) // as it was until then
		}
		if delete(others, i.ID); !w.Removed && i.ID != its.ID && i.State == compute.StateQueued && i.Queue == its.Queue &&
			i.Boot.Host == "" && i.Boot.Reservation() == "" && !i.IsPlaceholder() {
			others[i.ID] = true
		}
	}
	return max(most, len(others))
}
