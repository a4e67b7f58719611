// SPDX-License-Identifier: Apache-2.0

package judge

import (
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

// window is how many builds of a project conductors put into a queue at least.
func (r *Recording) window() int {
	if most := r.Schedule.World.Share; most > 0 {
		return most
	}
	return compute.UsualShare
}

// passed is how long others of its project that no host may have can keep an instance in the conductor where hosts have
// room: as many more are published each time as were before, after 5 s, 10 s and so on up to a minute.
func (r *Recording) passed(id compute.InstanceID) (long time.Duration) {
	most, others := 0, map[compute.InstanceID]bool{}
	its := r.last()[id]
	for _, w := range r.Log {
		i := w.Instance
		if delete(others, i.ID); !w.Removed && i.ID != id && i.State == compute.StateQueued && i.Boot.Host == "" &&
			i.Project == its.Project && i.Queue == its.Queue {
			others[i.ID] = true
		}
		most = max(most, len(others))
	}
	wait := 5 * time.Second
	for n := r.window(); n <= most; wait = min(2*wait, time.Minute) {
		n += max(r.window(), n-r.window())
		long += wait
	}
	return long
}
