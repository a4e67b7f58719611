// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckTaken(t *testing.T) {
	again := func(r *Recording) {
		b := r.Builds[0]
		b.Seen, b.Avoid, b.Image = moment(128), nil, "image-1"
		r.Builds[0] = b
		r.Builds[0].Seen = moment(8)
		r.Builds = append(r.Builds, b)
	}
	sees(t, checkTaken, map[string]func(*Recording){
		"attempt 1 of vm-1 is in m1.small since 8.000s, and is put there again": again,
		"and is put there again": func(r *Recording) {
			again(r)
			r.Schedule.World.Bad = []schedule.BadImage{{Image: "image-2", Host: "host-1"}}
		},
		"right: a host where its image failed leaves it to others": func(r *Recording) {
			again(r)
			r.Schedule.World.Bad = []schedule.BadImage{{Image: "image-1", Host: "host-1"}}
		},
		"right: it avoids a host": func(r *Recording) {
			again(r)
			r.Builds[0].Avoid = []compute.HostID{"host-2"}
			r.Builds[1].Avoid = r.Builds[0].Avoid
		},
	})
}
