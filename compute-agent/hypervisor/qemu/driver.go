// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/accel"
	"github.com/berth-project/berth/compute-agent/hypervisor/console"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/image"
	"github.com/berth-project/berth/compute-agent/hypervisor/prepare"
	"github.com/berth-project/berth/compute-agent/hypervisor/qemu/qmp"
	"github.com/berth-project/berth/pkg/compute"
)

// Driver runs machines on this host. It keeps nothing in memory that matters:
// the next one finds all in the folder and among the processes.
type Driver struct {
	o        Options
	accel    string // "kvm" or "tcg"
	version  string
	warnings []string
	images   *image.Store
	host     host.Host
	consoles console.Logs
	home     host.Folder
	users    users
	choosing sync.Mutex // held from when a user is chosen until its record is written
	odd      counts     // as last listed
	cutting  sync.Mutex // held while a qemu.log is cut

	crash hypervisor.CrashPoint
}

var (
	_ hypervisor.Driver  = (*Driver)(nil)
	_ hypervisor.Console = (*Driver)(nil)
	_ hypervisor.Events  = (*Driver)(nil)
)

// Open looks at the host and boots a probe if accel is auto. It takes as long as a
// probe may.
func Open(ctx context.Context, o Options) (*Driver, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	d := &Driver{o: o.defaults(), host: host.This(), crash: hypervisor.NoCrash}
	d.users, _ = usersOf(d.o.Users) // it was checked
	d.warnings = append(d.users.warnings(os.Geteuid()), unlimited(d.host.MemoryLimit())...)
	mode := fs.FileMode(0o700)
	if !d.users.none() {
		mode = 0o711
	}
	if err := os.MkdirAll(d.o.Dir, mode); err != nil {
		return nil, &compute.Error{
			Op:      "qemu",
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
	if err := d.users.usable(map[string]string{"dir": d.o.Dir, "images": d.o.Images}); err != nil {
		return nil, err
	}
	if err := d.host.OwnDescriptors(); err != nil {
		return nil, err
	}
	d.consoles.Keep = d.o.ConsoleBytes
	if d.images, err = prepare.OpenImages(d.host, d.o.Options); err != nil {
		return nil, err
	}
	for field, binary := range map[string]string{"binary": d.o.Binary, "image_binary": d.o.ImageBin} {
		if _, err := exec.LookPath(binary); err != nil {
			return nil, compute.Invalid(
				field, binary, "install QEMU (Debian: qemu-system-x86 and qemu-utils), or name the program",
			)
		}
	}
	out, err := exec.CommandContext(ctx, d.o.Binary, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w", d.o.Binary, err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	d.version = hypervisor.Printable(first[:min(len(first), lineBytes)])
	probe := accel.Probe{
		Binary:  d.o.Binary,
		Machine: d.o.Machine,
		Time:    d.o.ProbeTime,
	}
	if !d.users.none() {
		probe.As = credential(d.users.first)
	}
	var missed []string
	if d.accel, missed, err = probe.Choose(ctx, accel.Device, d.o.Accel); err != nil {
		return nil, err
	}
	d.warnings = append(d.warnings, missed...)
	return d, d.sweep()
}

// Capabilities says what this driver can do.
func (d *Driver) Capabilities() hypervisor.Capabilities {
	return hypervisor.Capabilities{
		Driver: "qemu", Home: d.o.Dir, SoftStop: true, Console: true, Events: true, Foreign: true,
		Devices: d.accel == "kvm" && d.users.none(), Nodes: true,
		Detail: d.version + ", " + d.accel + ", " + d.o.Machine + ", " + d.whom(),
		Warnings: slices.Concat(
			d.warnings, d.users.before(d.odd.userless.Load(), os.Geteuid()),
			host.WarnOfOpen(d.o.Network, d.odd.open.Load(), d.closes()),
		),
	}
}

// How long QEMU may take to answer. List asks all machines and must be quick. Launch, Start, Stop and Reboot decide by
// the answer, and wait for it.
const (
	commandTime = 10 * time.Second
	statusTime  = 2 * time.Second
)

// tell gives a machine's process one QMP command.
func (d *Driver) tell(ctx context.Context, id compute.InstanceID, command string) error {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	return d.ask(ctx, id, command, nil)
}

func (d *Driver) ask(ctx context.Context, id compute.InstanceID, command string, result any) error {
	c, err := qmp.Dial(ctx, filepath.Join(d.dir(id), socketFile))
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Do(ctx, command, nil, result)
}

// status is QMP's word for what a process does; empty if it does not say.
func (d *Driver) status(ctx context.Context, id compute.InstanceID, within time.Duration) string {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var answer struct {
		Status string `json:"status"`
	}
	if d.ask(ctx, id, "query-status", &answer) != nil {
		return ""
	}
	return answer.Status
}
