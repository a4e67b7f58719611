// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/accel"
	"github.com/berth-project/berth/compute-agent/hypervisor/console"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/image"
	"github.com/berth-project/berth/compute-agent/hypervisor/prepare"
	"github.com/berth-project/berth/pkg/compute"
)

// Driver runs machines on this host. It keeps nothing in memory that matters:
// the next one finds all with libvirt.
type Driver struct {
	o        Options
	accel    string // "kvm" or "tcg"
	kind     string // what libvirt calls it: "kvm" or "qemu"
	about    string // versions
	warnings []string
	qemuUser string // and group, where it is another than this process's
	images   *image.Store
	host     host.Host
	consoles console.Logs
	home     host.Folder
	crash    hypervisor.CrashPoint
	open     atomic.Int64 // machines with open user networking, as last listed
	saving   sync.Mutex   // held while a stamp or a copy is written, and from where one is read that is to be written
}

var (
	_ hypervisor.Driver  = (*Driver)(nil)
	_ hypervisor.Console = (*Driver)(nil)
	_ hypervisor.Events  = (*Driver)(nil)
)

// Open looks at the host and boots a probe if accel is auto. It takes as long as a
// probe may. libvirt has to be there.
func Open(ctx context.Context, o Options) (*Driver, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	d := &Driver{o: o.defaults(), kind: "qemu", host: host.This(), crash: hypervisor.NoCrash}
	if err := os.MkdirAll(d.o.Dir, 0o711); err != nil { // #nosec G301 -- QEMU's user goes through it
		return nil, &compute.Error{
			Op:      "libvirt",
			Kind:    compute.KindInvalid,
			Field:   "dir",
			Value:   o.Dir,
			Message: "cannot be used",
			Cause:   err,
		}
	}
	var err error
	if d.home, err = host.OpenFolder(d.o.Dir); err != nil {
		return nil, err
	}
	if err := d.host.OwnDescriptors(); err != nil {
		return nil, err
	}
	d.consoles.Keep = d.o.ConsoleBytes
	if d.images, err = prepare.OpenImages(d.host, d.o.Options); err != nil {
		return nil, err
	}
	programs := map[string]string{"image_binary": d.o.ImageBin}
	if d.o.Accel == "auto" {
		programs["binary"] = d.o.Binary
	}
	for field, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			return nil, compute.Invalid(
				field, program, "install QEMU (Debian: qemu-system-x86 and qemu-utils), or name the program",
			)
		}
	}
	if err := d.short(ctx, d.meet); err != nil {
		return nil, err
	}
	probe := accel.Probe{
		Binary:  d.o.Binary,
		Machine: d.o.Machine,
		Time:    d.o.ProbeTime,
	}
	var missed []string
	if d.accel, missed, err = probe.Choose(ctx, accel.Device, d.o.Accel); err != nil {
		return nil, err
	}
	if d.accel == "kvm" {
		d.kind = "kvm"
	}
	if err := d.long(ctx, d.learn); errors.Is(err, errLost) {
		return nil, fmt.Errorf("libvirt does not say what its QEMU can do: it tries that with KVM, which hangs on some "+
			"hosts; keep libvirt from /dev/kvm (docs/REAL-HOST.md says how) and set accel to tcg: %w", err)
	} else if err != nil {
		return nil, fmt.Errorf("libvirt cannot run x86_64 machines of type %s on %s; see that its driver for QEMU is "+
			"installed: %w", d.o.Machine, d.kind, err)
	}
	d.warnings = append(d.warnings, missed...)
	return d, d.mend(ctx)
}

// mend writes down what an agent had done and did not live to write: that a guest
// was let go. If it stands still later, somebody has suspended it.
func (d *Driver) mend(ctx context.Context) error {
	all, err := d.ours(ctx)
	for _, f := range all {
		if f.state == libvirt.DomainRunning && f.stamp.Launched && !f.stamp.Released {
			f.stamp.Released = true
			if err := d.save(ctx, f); err != nil {
				return err
			}
		}
	}
	return err
}

// meet sees that libvirt answers. It is asked nothing for which it has to run QEMU.
func (d *Driver) meet(c conn) error {
	its, err := c.ConnectGetLibVersion()
	d.about = "libvirt " + version(its)
	return err
}

// learn asks libvirt about its QEMU and its host. It runs QEMU for each of the answers the first time, which takes
// long: later calls are to be short.
func (d *Driver) learn(c conn) error {
	qemus, err := c.ConnectGetVersion()
	if err != nil {
		return err
	}
	d.about += ", QEMU " + version(qemus)
	text, err := c.ConnectGetCapabilities()
	if err != nil {
		return err
	}
	models, err := securityModels(text)
	if err != nil {
		return err
	}
	d.warnings = warnings(models, d.o.URI)
	if !readsAll() {
		d.qemuUser = otherUser(models, os.Geteuid())
	}
	_, err = c.ConnectGetDomainCapabilities(
		nil, libvirt.OptString{"x86_64"}, libvirt.OptString{d.o.Machine}, libvirt.OptString{d.kind}, 0,
	)
	return err
}

func version(v uint64) string { return fmt.Sprintf("%d.%d.%d", v/1_000_000, v/1000%1000, v%1000) }

// Capabilities says what this driver can do.
func (d *Driver) Capabilities() hypervisor.Capabilities {
	return hypervisor.Capabilities{
		Driver: "libvirt", Home: strings.TrimSpace(d.o.Socket + " " + d.o.Dir), SoftStop: true, Console: true,
		Events: true, Foreign: true, Devices: d.accel == "kvm", Nodes: true,
		Detail: d.about + ", " + d.accel + ", " + d.o.Machine,
		Warnings: slices.Concat(
			d.warnings, host.WarnOfOpen(d.o.Network, d.open.Load(), "boot others in their place, and delete them"),
		),
	}
}

// dir is a machine's folder.
func (d *Driver) dir(id compute.InstanceID) string { return filepath.Join(d.o.Dir, string(id)) }

// create starts a domain, and is content if it runs already.
func (d *Driver) create(ctx context.Context, f found, flags libvirt.DomainCreateFlags) error {
	return d.long(ctx, func(c conn) error {
		_, err := c.DomainCreateWithFlags(f.domain, uint32(flags))
		if is(err, libvirt.ErrOperationInvalid) {
			if active, no := c.DomainIsActive(f.domain); no == nil && active == 1 {
				return nil
			}
		}
		return err
	})
}

// cut ends what runs of a domain as if power were cut, and is content if nothing
// does.
func (d *Driver) cut(ctx context.Context, f found) error {
	return d.long(ctx, func(c conn) error {
		err := c.DomainDestroyFlags(f.domain, libvirt.DomainDestroyDefault)
		if is(err, libvirt.ErrOperationInvalid, libvirt.ErrNoDomain) {
			return nil
		}
		return err
	})
}
