// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/berth-project/berth/compute-agent/hypervisor"
)

// image is what the hypervisor says of the image that a machine is to be made of. A machine
// of a broken one cannot be prepared.
func (d *driver) image(s hypervisor.Spec) error {
	b := d.rec.Schedule.World.Broken(d.host, s.Image)
	if b == nil {
		return nil
	}
	d.rec.CountFelt(b.Kind())
	return hypervisor.RefuseImage("image file %s is broken: simulated", s.Image)
}
