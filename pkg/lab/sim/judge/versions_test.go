// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
)

// A host is told nothing in a schema that its agent does not read.
func TestCheckSchema(t *testing.T) {
	rec := wire.EncodeCommand(compute.Command{
		Op: compute.CommandHost, Desired: &compute.HostDesired{State: compute.HostEnabled, Version: 1},
	}).To("host.host-1", 0)
	for _, c := range []struct {
		world schedule.World
		rec   wire.Record
		wrong int
	}{
		{schedule.World{}, rec, 0},
		{schedule.World{}, rec.InSchema(schedule.LaterSchema), 1},
		{schedule.World{Later: true}, rec.InSchema(schedule.LaterSchema), 0},
		{schedule.World{Later: true}, rec.InSchema(schedule.LaterSchema + 1), 2}, // and nobody can read it
		{schedule.World{Later: true, Older: true}, rec, 0},
		{schedule.World{Later: true, Older: true}, rec.InSchema(schedule.LaterSchema), 1},
	} {
		r := NewRecording(schedule.Schedule{World: c.world})
		r.AddRing("host-1", c.rec)
		if len(r.Wrong) != c.wrong {
			t.Errorf("%+v, told in schema %s: %v", c.world, c.rec.Header(wire.HeaderSchema), r.Wrong)
		}
	}
}
