package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/seed"
)

// Prepare makes the domain, the folder, the disk and the seed, and starts it
// paused.
func (d *Driver) Prepare(ctx context.Context, s hypervisor.Spec) error {
	what := "prepare " + string(s.Instance)
	if ctx.Err() != nil {
		return hypervisor.Classed(ctx, what, ctx.Err())
	}
	if err := s.Check(); err != nil {
		return err
	}
	done, err := d.prepared(ctx, s)
	if err != nil || done {
		return hypervisor.Classed(ctx, what, err)
	}
	if err = d.make(ctx, s); err == nil || errors.Is(err, errCrash) {
		return err
	}
	return hypervisor.Undone(what, hypervisor.Classed(ctx, what, err), func(ctx context.Context) error { return d.destroy(ctx, s.Instance) })
}

// prepared says whether there is nothing to do, and clears away what another
// attempt, or half a Prepare, has left.
func (d *Driver) prepared(ctx context.Context, s hypervisor.Spec) (bool, error) {
	f, whose, err := d.find(ctx, s.Instance)
	switch {
	case err != nil:
		return false, err
	case whose == others:
		return false, hypervisor.Refuse("domain %s has the id of %s and is not this agent's: undefine it, or boot another instance", f.domain.Name, s.Instance)
	case whose == ours && f.stamp.Launched:
		return false, hypervisor.Refuse("attempt %d of %s was launched here: destroy it first", f.stamp.Attempt, s.Instance)
	case whose == ours && f.stamp.Ready && f.stamp.Attempt == s.Attempt && f.stamp.Claim == s.Claim:
		return true, nil
	}
	return false, d.destroy(ctx, s.Instance)
}

// make does the work. What it leaves after an error is the caller's to undo.
func (d *Driver) make(ctx context.Context, s hypervisor.Spec) error {
	img, err := d.images.Find(ctx, s.Image)
	if err != nil {
		return err
	}
	if err := d.host.Enough(d.share(), s.Resources, s.Place); err != nil {
		return err
	}
	f := found{stamp: stampOf(s, d.o.Dir)}
	text, err := d.describe(f.stamp, img)
	if err != nil {
		return err
	}
	if err := d.short(ctx, func(c conn) error { f.domain, err = c.DomainDefineXMLFlags(text, 0); return err }); err != nil {
		return err
	}
	if err := d.crash("recorded"); err != nil {
		return err
	}
	dir := d.dir(s.Instance)
	if err := os.Mkdir(dir, 0o711); err != nil { // QEMU has another user in most places
		return err
	}
	if err := d.images.Make(ctx, filepath.Join(dir, diskFile), s.Image, img, s.Resources); err != nil {
		return err
	}
	if err := seed.Write(filepath.Join(dir, seedFile), s); err != nil {
		return fmt.Errorf("cloud-init seed: %w", err)
	}
	if err := d.crash("made"); err != nil {
		return err
	}
	if err := d.create(ctx, f, libvirt.DomainStartPaused); err != nil {
		return err
	}
	if err := d.crash("spawned"); err != nil {
		return err
	}
	f.stamp.Ready, f.stamp.Boot = true, d.host.BootID()
	if err := d.save(ctx, f); err != nil {
		return err
	}
	return d.crash("prepared")
}

func (d *Driver) share() host.Share {
	return host.Share{Dir: d.o.Dir, MinFree: d.o.MinFree, Totals: d.o.Totals, Reserved: d.o.Reserved, Traits: d.o.Traits, Accel: d.accel}
}
