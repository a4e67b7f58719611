// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"context"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// Console reads what the guest printed.
func (d *Driver) Console(ctx context.Context, id compute.InstanceID, offset int64, limit int) (hypervisor.Part, error) {
	part, err := d.console(ctx, id, offset, limit)
	return part, classed(ctx, "console "+string(id), err)
}

func (d *Driver) console(ctx context.Context, id compute.InstanceID, offset int64, limit int) (hypervisor.Part, error) {
	_, whose, err := d.find(ctx, id)
	if err == nil && whose != ours {
		err = hypervisor.Refuse("%s is not here", id)
	}
	if err != nil {
		return hypervisor.Part{}, err
	}
	return d.consoles.Read(d.dir(id), offset, limit)
}
