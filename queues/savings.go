// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/queues/advise"
	"github.com/berth-project/berth/queues/ring"
	"github.com/berth-project/berth/queues/save"
)

// savings is what the view knows, in the words of package save. Its lock is held.
type savings struct {
	*advise.Advisor
	view *view
}

// Waiting are the queues with published work that no host has.
func (s savings) Waiting(now time.Time, each func(compute.QueueName, []save.Build, int)) {
	v, at := s.view, s.view.logTime(now)
	v.ringer.EachWaiting(func(q compute.QueueName) {
		l := v.loads[q]
		if l == nil {
			return
		}
		var first []save.Build
		taken := s.Taken(q)
		for w := range l.waiting.From(nil) {
			if len(first) == save.MostBuilds+taken || w.due.After(at) {
				break
			}
			if v.groups.told(v.groups.members[w.key].group) {
				continue // it is offered to one host, and lies in no queue
			}
			first = append(first, save.Build{
				Key: w.key, Class: v.listed[q].Priority, Not: v.keptFrom(w.key), Placeholder: v.need[w.key].holds,
			})
		}
		if len(first) > 0 {
			each(q, first, taken)
		}
	})
}

// keptFrom says where an instance must not run: hosts that it avoids, and those that the rule of its group keeps it
// from; nil: nowhere.
func (v *view) keptFrom(key string) func(compute.HostID) bool {
	avoid, member := v.need[key].avoid, v.groups.members[key]
	if avoid == "" && member == (groupMember{}) {
		return nil
	}
	avoided := hostsOf(avoid) // once, and not for each host that is asked about
	return func(h compute.HostID) bool {
		return slices.Contains(avoided, h) || v.groups.keeps(member.group, h)
	}
}

// tellSavers is what hosts are to be told of savings now.
func (v *view) tellSavers(now time.Time) (out []ring.Ring) {
	at := v.logTime(now)
	for _, t := range v.saver.Tell(now) {
		t.Look.Oldest = v.oldest(t.Look.Queue, at)
		out = append(out, ring.Ring{Host: t.Host, Look: t.Look})
		v.advisor.MarkDirty(t.Look.Queue)
	}
	return out
}

// saySavings says for how many queues hosts save, and how many hosts do.
func (v *view) saySavings(which func(queues, hosts int) int) func(telemetry.Say) {
	return func(say telemetry.Say) {
		v.mu.Lock()
		defer v.mu.Unlock()
		say(float64(which(v.saver.Saved())))
	}
}
