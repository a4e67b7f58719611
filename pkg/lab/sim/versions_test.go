// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// A host is told nothing in a schema that its agent does not read.
func TestCheckSchema(t *testing.T) {
	rec := wire.EncodeCommand(compute.Command{
		Op: compute.CommandHost, Desired: &compute.HostDesired{State: compute.HostEnabled, Version: 1},
	}).To("host.host-1", 0)
	for _, c := range []struct {
		world World
		rec   wire.Record
		wrong int
	}{
		{World{}, rec, 0},
		{World{}, rec.InSchema(laterSchema), 1},
		{World{Later: true}, rec.InSchema(laterSchema), 0},
		{World{Later: true}, rec.InSchema(laterSchema + 1), 2}, // and nobody can read it
		{World{Later: true, Older: true}, rec, 0},
		{World{Later: true, Older: true}, rec.InSchema(laterSchema), 1},
	} {
		r := newRecording(Schedule{World: c.world})
		r.rung("host-1", c.rec)
		if len(r.Wrong) != c.wrong {
			t.Errorf("%+v, told in schema %s: %v", c.world, c.rec.Header(wire.HeaderSchema), r.Wrong)
		}
	}
}
