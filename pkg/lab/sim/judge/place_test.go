// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func TestPlaceDiffers(t *testing.T) {
	r, logged := &Recording{}, map[compute.InstanceID]compute.Instance{}
	for id, at := range map[compute.InstanceID]schedule.Seconds{"a": 1, "b": 5, "c": 5.5, "d": 9} {
		i := compute.Instance{ID: id, State: compute.StateQueued, Queue: "q"}
		logged[id] = i
		r.Log = append(r.Log, Written{Seen: moment(at), Instance: i})
	}
	logged["other"] = compute.Instance{ID: "other", State: compute.StateQueued, Queue: "q2"}
	logged["pinned"] = compute.Instance{
		ID:    "pinned",
		State: compute.StateQueued,
		Queue: "q",
		Boot:  compute.Boot{Host: "h"},
	}
	kept := compute.Instance{ID: "kept", State: compute.StateQueued, Queue: "q"}
	kept.Boot.AsPlaceholder(compute.Placeholder{Of: "room", Taker: "taker", Kept: true})
	logged["kept"] = kept
	logged["active"] = compute.Instance{ID: "active", State: compute.StateActive, Queue: "q"}
	for _, c := range []struct {
		id              compute.InstanceID
		position, depth uint64
		well            bool
	}{
		{"a", 0, 4, true}, {"a", 1, 4, false}, {"a", 0, 5, false}, {"a", 0, 3, false},
		{"b", 1, 4, true}, {"b", 2, 4, true}, {"b", 0, 4, false}, {"b", 3, 4, false},
		{"d", 3, 4, true}, {"d", 2, 4, false},
	} {
		g := rest.Instance{
			ID:      c.id,
			Queue:   "q",
			Waiting: &rest.Reason{Place: &rest.Place{Position: c.position, Depth: c.depth}},
		}
		if wrong := r.placeDiffers(g, logged, r.firstSeen()); (wrong == "") != c.well {
			t.Errorf("%s at %d of %d: %q", c.id, c.position, c.depth, wrong)
		}
	}
}
