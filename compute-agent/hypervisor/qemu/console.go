// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// Console reads what the guest printed.
func (d *Driver) Console(ctx context.Context, id compute.InstanceID, offset int64, limit int) (hypervisor.Part, error) {
	part, err := d.console(ctx, id, offset, limit)
	return part, hypervisor.Classed(ctx, "console "+string(id), err)
}

func (d *Driver) console(ctx context.Context, id compute.InstanceID, offset int64, limit int) (hypervisor.Part, error) {
	if ctx.Err() != nil {
		return hypervisor.Part{}, ctx.Err()
	}
	switch _, there, err := d.load(id); {
	case err != nil:
		return hypervisor.Part{}, err
	case !there:
		return hypervisor.Part{}, hypervisor.Refuse("%s is not here", id)
	}
	return d.consoles.Read(d.dir(id), offset, limit)
}
