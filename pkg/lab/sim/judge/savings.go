// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// saves are the times in which a host may save room for other work than that of a queue, by what it was told. It may be
// told to end that, and need not have heard.
func (r *Recording) saves(h compute.HostID, q compute.QueueName) (times []span) {
	for _, x := range r.Rings {
		if x.Host == h && x.Save > 0 && x.Queue != q {
			times = append(times, span{x.Seen, x.Seen.Add(x.Save + savingHeard)})
		}
	}
	return times
}

// saved is how long other work may wait for what hosts save; then they have done so in vain, and the queue pauses.
func (r *Recording) saved() time.Duration {
	if !r.Schedule.World.Saves {
		return 0
	}
	return schedule.SavesFor + savingHeard
}

// savingHeard is how long it takes until a host reads what it is told.
const savingHeard = 2 * time.Second

// without adds that a host offers nothing in some times.
func (l hostLife) without(times []span) hostLife {
	out := l[:len(l):len(l)]
	for _, t := range times {
		out = append(out, change{at: t.from, busy: 1}, change{at: t.to, busy: -1})
	}
	return out.sorted()
}
