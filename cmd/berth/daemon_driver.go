// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/exec"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/libvirt"
	"github.com/berth-project/berth/compute-agent/hypervisor/qemu"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
)

// execConfig is this host with machines that a command of the operator's runs.
type execConfig struct {
	Command []string      `yaml:"command"`
	Timeout time.Duration `yaml:"timeout"`
	Marks   string        `yaml:"marks"`
}

func defaultExec() execConfig { return execConfig{Timeout: exec.DefaultTimeout} }

func (e execConfig) options() exec.Options {
	return exec.Options{Command: e.Command, Timeout: e.Timeout}
}

func (e execConfig) check() error {
	err := cell.ExecErrors(e.options().Check())
	if e.Marks != "" && !filepath.IsAbs(e.Marks) {
		const remedy = "give the full path of a folder, or nothing"
		err = errors.Join(err, compute.Invalid("driver.exec.marks", e.Marks, remedy))
	}
	return err
}

// qemuConfig is this host with machines on QEMU.
type qemuConfig struct {
	Dir           string            `yaml:"dir"`
	Images        string            `yaml:"images"`
	ImagesTrusted bool              `yaml:"images_trusted"`
	Binary        string            `yaml:"binary"`
	ImageBinary   string            `yaml:"image_binary"`
	Machine       string            `yaml:"machine"`
	Accel         string            `yaml:"accel"`
	Network       string            `yaml:"network"`
	Users         string            `yaml:"users"`
	Totals        compute.Resources `yaml:"totals"`
	Reserved      compute.Resources `yaml:"reserved"`
	Traits        []compute.Trait   `yaml:"traits"`
	ConsoleBytes  int64             `yaml:"console_bytes"`
	MinFree       int64             `yaml:"min_free"`
}

func defaultQEMU() qemuConfig {
	return qemuConfig{
		Dir: "/var/lib/berth/qemu", Images: "/var/lib/berth/images", Binary: "qemu-system-x86_64",
		ImageBinary: "qemu-img", Machine: "q35", Accel: "auto", Network: "user",
		ConsoleBytes: 1 << 20, MinFree: 256 << 20,
	}
}

func (q qemuConfig) options() qemu.Options {
	return qemu.Options{Users: q.Users, Options: host.Options{
		Dir: q.Dir, Images: q.Images, ImagesTrusted: q.ImagesTrusted, Binary: q.Binary, ImageBin: q.ImageBinary,
		Machine: q.Machine, Accel: q.Accel, Network: q.Network,
		Totals: q.Totals, Reserved: q.Reserved, Traits: q.Traits, ConsoleBytes: q.ConsoleBytes, MinFree: q.MinFree,
	}}
}

func (q qemuConfig) check() error {
	return realHost("driver.qemu", q.options(), q.Totals, q.Reserved, q.Traits)
}

// realHost says what is wrong with a real host's settings below a key. The driver
// looks at its own options.
func realHost(
	key string,
	driver interface{ Check() error },
	totals, reserved compute.Resources,
	traits []compute.Trait,
) error {
	var errs []error
	for _, err := range config.All(driver.Check()) {
		var e *compute.Error
		if errors.As(err, &e) {
			err = config.At(key+"."+e.Field, err)
		}
		errs = append(errs, err)
	}
	errs = append(errs, config.At(key+".totals", totals.Check()))
	for _, class := range reserved.Classes() { // nothing of a class is allowed here
		errs = append(
			errs,
			config.At(key+".reserved", class.Check()),
			config.Between(key+".reserved", int(reserved[class]), 0, compute.MaxAmount),
		)
	}
	for _, t := range traits {
		errs = append(errs, config.At(key+".traits", t.Check()))
	}
	return errors.Join(errs...)
}

// libvirtConfig is this host with machines on libvirt.
type libvirtConfig struct {
	URI           string            `yaml:"uri"`
	Socket        string            `yaml:"socket"`
	Dir           string            `yaml:"dir"`
	Images        string            `yaml:"images"`
	ImagesTrusted bool              `yaml:"images_trusted"`
	Binary        string            `yaml:"binary"`
	ImageBinary   string            `yaml:"image_binary"`
	Machine       string            `yaml:"machine"`
	Accel         string            `yaml:"accel"`
	Network       string            `yaml:"network"`
	Totals        compute.Resources `yaml:"totals"`
	Reserved      compute.Resources `yaml:"reserved"`
	Traits        []compute.Trait   `yaml:"traits"`
	ConsoleBytes  int64             `yaml:"console_bytes"`
	MinFree       int64             `yaml:"min_free"`
}

func defaultLibvirt() libvirtConfig {
	q := defaultQEMU()
	return libvirtConfig{
		URI: "qemu:///system", Dir: "/var/lib/berth/libvirt", Images: q.Images, Binary: q.Binary,
		ImageBinary: q.ImageBinary, Machine: q.Machine, Accel: q.Accel, Network: q.Network,
		ConsoleBytes: q.ConsoleBytes, MinFree: q.MinFree,
	}
}

func (l libvirtConfig) options() libvirt.Options {
	return libvirt.Options{URI: l.URI, Socket: l.Socket, Options: host.Options{
		Dir: l.Dir, Images: l.Images, ImagesTrusted: l.ImagesTrusted, Binary: l.Binary, ImageBin: l.ImageBinary,
		Machine: l.Machine, Accel: l.Accel, Network: l.Network,
		Totals: l.Totals, Reserved: l.Reserved, Traits: l.Traits, ConsoleBytes: l.ConsoleBytes, MinFree: l.MinFree,
	}}
}

func (l libvirtConfig) check() error {
	return realHost("driver.libvirt", l.options(), l.Totals, l.Reserved, l.Traits)
}
