// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// BadImage is an image that is broken as it lies on one host, or on all, for good.
type BadImage struct {
	Image string         `json:"image"`
	Host  compute.HostID `json:"host,omitempty"` // empty: every host
}

// kind is what the report of a run counts it as.
func (b BadImage) kind() string {
	if b.Host == "" {
		return "image everywhere"
	}
	return "image here"
}

// broken is the entry that says that an image is broken on a host; nil: it is not.
func (w World) broken(h compute.HostID, image string) *BadImage {
	for n, b := range w.Bad {
		if b.Image == image && (b.Host == "" || b.Host == h) {
			return &w.Bad[n]
		}
	}
	return nil
}

// image is what the hypervisor says of the image that a machine is to be made of. A machine
// of a broken one cannot be prepared.
func (d *driver) image(s hypervisor.Spec) error {
	b := d.rec.Schedule.World.broken(d.host, s.Image)
	if b == nil {
		return nil
	}
	d.rec.met(b.kind())
	return hypervisor.RefuseImage("image file %s is broken: simulated", s.Image)
}

// met counts something of the world that makes itself felt.
func (r *Recording) met(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Came[kind]++
}

// kinds are what is wrong with the world from the beginning, as faults are counted.
func (w World) kinds() (all []string) {
	for _, b := range w.Bad {
		all = append(all, b.kind())
	}
	for _, c := range w.Clocks {
		all = append(all, c.kind())
	}
	return all
}
