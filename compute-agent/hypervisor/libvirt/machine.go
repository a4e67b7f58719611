// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// Launch writes down that the machine runs from now on, and lets it go.
func (d *Driver) Launch(ctx context.Context, id compute.InstanceID, a compute.Attempt, c compute.ClaimID) error {
	return classed(ctx, "launch "+string(id), d.launch(ctx, id, a, c))
}

func (d *Driver) launch(ctx context.Context, id compute.InstanceID, a compute.Attempt, c compute.ClaimID) error {
	f, whose, err := d.find(ctx, id)
	switch {
	case err != nil:
		return err
	case whose != ours || !f.stamp.Ready:
		return hypervisor.Refuse("%s is not prepared here", id)
	case f.stamp.Attempt != a || f.stamp.Claim != c:
		return hypervisor.Refuse(
			"%s is prepared for attempt %d claim %s, not attempt %d claim %s",
			id, f.stamp.Attempt, f.stamp.Claim, a, c,
		)
	case f.stamp.Launched:
		return d.release(ctx, f)
	}
	if !f.active() { // the host was restarted since
		if err := d.create(ctx, f, libvirt.DomainStartPaused); err != nil {
			return err
		}
		if err := d.crash("started"); err != nil {
			return err
		}
	}
	f.stamp.Launched, f.stamp.Boot, f.state = true, d.host.BootID(), libvirt.DomainPaused
	if err := d.save(ctx, f); err != nil {
		return err
	}
	if err := d.crash("launched"); err != nil {
		return err
	}
	return d.release(ctx, f)
}

// release lets go of what waits for it, where an earlier call got no further. It
// starts nothing.
func (d *Driver) release(ctx context.Context, f found) error {
	if !f.stamp.Launched || f.stamp.Released || f.stamp.Stopped || !f.active() {
		return nil
	}
	if f.state == libvirt.DomainPaused {
		err := d.short(ctx, func(c conn) error { return c.DomainResume(f.domain) })
		if err != nil && !is(err, libvirt.ErrOperationInvalid) { // it runs, or has ended
			return err
		}
	}
	if err := d.crash("let go"); err != nil {
		return err
	}
	f.stamp.Released = true
	return d.save(ctx, f)
}

// Destroy ends what runs as if power were cut and removes folder and domain.
func (d *Driver) Destroy(ctx context.Context, id compute.InstanceID) error {
	return classed(ctx, "destroy "+string(id), d.destroy(ctx, id))
}

func (d *Driver) destroy(ctx context.Context, id compute.InstanceID) error {
	if err := id.Check(); err != nil {
		return hypervisor.Reject("%v", err)
	}
	if err := d.home.There(); err != nil {
		return err
	}
	// A call that was broken off may start it again until it is undefined, and
	// what is undefined while it runs goes on: so it is looked at until it is gone.
	for range 5 {
		d.saving.Lock()
		text, kept := d.takeCopy(id)
		d.saving.Unlock()
		f, whose, err := d.find(ctx, id)
		if err != nil {
			return err
		}
		if whose != ours {
			if err := cmp.Or(kept, d.crash("lost")); err != nil {
				return err
			}
			return d.forget(ctx, id, f, text)
		}
		if f.active() {
			if err := d.cut(ctx, f); err != nil {
				return err
			}
		}
		if err := cmp.Or(kept, d.crash("cut")); err != nil {
			return err
		}
		if err := os.RemoveAll(d.dir(id)); err != nil {
			return err
		}
		err = d.short(ctx, func(c conn) error {
			err := c.DomainUndefineFlags(f.domain, 0)
			if is(err, libvirt.ErrOperationInvalid) { // somebody has saved it, or made snapshots
				err = c.DomainUndefineFlags(f.domain, libvirt.DomainUndefineManagedSave|
					libvirt.DomainUndefineSnapshotsMetadata|libvirt.DomainUndefineCheckpointsMetadata)
			}
			return err
		})
		// transient, since somebody undefined it
		if err != nil && !is(err, libvirt.ErrNoDomain, libvirt.ErrOperationInvalid) {
			return err
		}
	}
	return errors.New("it is there again and again: somebody else defines it")
}

// forget removes the folder of a machine that has no domain, as where somebody undefined it by hand. It refuses where a
// domain has the machine's id and name, runs, and has nothing of Berth's in its metadata: it was defined anew by hand,
// and may use the machine's disk. It refuses, too, where QEMU runs the machine and libvirt has lost it.
func (d *Driver) forget(ctx context.Context, id compute.InstanceID, f found, definition []byte) error {
	if f.stamp.V == 0 && f.domain.Name == "berth-"+string(id) {
		var active int32
		err := d.short(ctx, func(c conn) (err error) { active, err = c.DomainIsActive(f.domain); return err })
		if err != nil && !is(err, libvirt.ErrNoDomain) {
			return err
		}
		if active == 1 {
			return hypervisor.Refuse("domain %s runs, and Berth's part of its metadata is gone: whose it is cannot be "+
				"said; end it (virsh destroy %[1]s), or define it with that part", f.domain.Name)
		}
	}
	if f.domain.Name == "" {
		if err := d.unknownToLibvirt(id); err != nil {
			d.saving.Lock()
			defer d.saving.Unlock()
			return errors.Join(err, d.putBack(id, definition)) // so that List gives it
		}
	}
	return os.RemoveAll(d.dir(id))
}

// classed gives an error of a call its class. After a connection that ended in the middle of a call nobody knows.
func classed(ctx context.Context, what string, err error) error {
	if errors.Is(err, errLost) && ctx.Err() == nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return hypervisor.Classed(ctx, what, err)
}
