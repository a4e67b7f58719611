// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"context"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
)

// follow is the driver of whatever host is current.
type follow struct{ now func() *fake.Driver }

func (f *follow) Prepare(ctx context.Context, s hypervisor.Spec) error {
	return f.now().Prepare(ctx, s)
}
func (f *follow) Launch(ctx context.Context, id compute.InstanceID, a compute.Attempt, c compute.ClaimID) error {
	return f.now().Launch(ctx, id, a, c)
}
func (f *follow) Destroy(ctx context.Context, id compute.InstanceID) error {
	return f.now().Destroy(ctx, id)
}
func (f *follow) List(ctx context.Context) ([]hypervisor.Machine, error) { return f.now().List(ctx) }
func (f *follow) Inventory(ctx context.Context) (hypervisor.Inventory, error) {
	return f.now().Inventory(ctx)
}
func (f *follow) Capabilities() hypervisor.Capabilities { return f.now().Capabilities() }
func (f *follow) Stop(ctx context.Context, id compute.InstanceID, g time.Duration) error {
	return f.now().Stop(ctx, id, g)
}
func (f *follow) Start(ctx context.Context, id compute.InstanceID) error {
	return f.now().Start(ctx, id)
}
func (f *follow) Reboot(ctx context.Context, id compute.InstanceID, g time.Duration) error {
	return f.now().Reboot(ctx, id, g)
}

// Unwrap finds console and events.
func (f *follow) Unwrap() hypervisor.Driver { return f.now() }
