// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/judge"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// A hypervisor refuses what is to be made of a broken image, where it is broken.
func TestBrokenImages(t *testing.T) {
	r := judge.NewRecording(schedule.Schedule{})
	r.Schedule.World.Bad = []schedule.BadImage{{Image: "a"}, {Image: "b", Host: "host-1"}}
	for _, c := range []struct {
		host  compute.HostID
		image string
		well  bool
	}{
		{"host-1", "a", false}, {"host-2", "a", false}, {"host-1", "b", false}, {"host-2", "b", true},
		{"host-1", "c", true}, {"host-1", "", true},
	} {
		err := (&driver{host: c.host, rec: r}).image(hypervisor.Spec{Image: c.image})
		if (err == nil) != c.well || err != nil && !hypervisor.OfImage(err) {
			t.Errorf("image %q on %s: %v", c.image, c.host, err)
		}
	}
	if r.Came["image everywhere"] != 2 || r.Came["image here"] != 1 {
		t.Errorf("counted as %v", r.Came)
	}
}
