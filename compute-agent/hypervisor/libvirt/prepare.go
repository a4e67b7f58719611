// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"context"
	"os"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/image"
	"github.com/berth-project/berth/compute-agent/hypervisor/prepare"
)

// Prepare makes the domain, the folder, the disk and the seed, and starts it
// paused.
func (d *Driver) Prepare(ctx context.Context, s hypervisor.Spec) error {
	f := found{stamp: stampOf(s, d.o.Dir)}
	return prepare.Machine{
		Spec: s, Dir: d.dir(s.Instance), Host: d.host, Share: d.o.Share(d.accel), Images: d.images, Crash: d.crash,
		Done: func(ctx context.Context) (bool, error) { return d.prepared(ctx, s) },
		Record: func(ctx context.Context, img image.Image) error {
			if d.qemuUser != "" && !img.Public {
				return hypervisor.RefuseImage("image %q: libvirt runs machines as another user (%s), which may not "+
					"read all of its files: chmod o+r them in %s, on every host", s.Image, d.qemuUser, d.o.Images)
			}
			text, err := d.describe(f.stamp, img)
			if err != nil {
				return err
			}
			return d.short(ctx, func(c conn) error { f.domain, err = c.DomainDefineXMLFlags(text, 0); return err })
		},
		Folder: func() error { return os.Mkdir(d.dir(s.Instance), 0o711) }, // #nosec G301 -- QEMU has another user
		Spawn:  func(ctx context.Context) error { return d.create(ctx, f, libvirt.DomainStartPaused) },
		Finish: func(ctx context.Context) error {
			f.stamp.Ready, f.stamp.Boot = true, d.host.BootID()
			return d.save(ctx, f)
		},
		Destroy: func(ctx context.Context) error { return d.destroy(ctx, s.Instance) },
	}.Run(ctx)
}

// prepared says whether there is nothing to do, and clears away what another
// attempt, or half a Prepare, has left.
func (d *Driver) prepared(ctx context.Context, s hypervisor.Spec) (bool, error) {
	if err := d.home.There(); err != nil {
		return false, err
	}
	f, whose, err := d.find(ctx, s.Instance)
	switch {
	case err != nil:
		return false, err
	case whose == others:
		return false, hypervisor.Refuse(
			"domain %s has the id of %s and is not this agent's: undefine it, or boot another instance",
			f.domain.Name, s.Instance,
		)
	case whose == ours && f.stamp.Launched:
		return false, hypervisor.Refuse(
			"attempt %d of %s was launched here: destroy it first",
			f.stamp.Attempt, s.Instance,
		)
	case whose == ours && f.stamp.Ready && f.stamp.Attempt == s.Attempt && f.stamp.Claim == s.Claim:
		return true, nil
	}
	return false, d.destroy(ctx, s.Instance)
}
