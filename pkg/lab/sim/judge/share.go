// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// crowded is until when, while record n of the log was the newest of its instance, as many others of its project waited
// in its queue as may keep it in the conductor; zero: at no time.
func (r *Recording) crowded(n int) (last time.Time) {
	its, most := r.Log[n].Instance, r.Schedule.World.Share
	if most == 0 {
		most = compute.UsualShare
	}
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
