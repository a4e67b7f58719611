package libvirt

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Options say how a host runs its machines. Zero values are the defaults.
type Options struct {
	URI    string // "qemu:///system" (default) or "qemu:///session"
	Socket string // libvirtd's; default "/run/libvirt/libvirt-sock", none for a session
	Dir    string // the machines' folders; survives a reboot. Required.
	Images string // see package image. Required.
	// ImagesTrusted takes images without a checksum beside them.
	ImagesTrusted bool

	Binary   string // QEMU, for the probe alone; default "qemu-system-x86_64"
	ImageBin string // default "qemu-img"
	Machine  string // "q35" (default) or "pc"
	Accel    string // "auto" (default), "kvm" or "tcg"
	Network  string // "user" (default), "user:open", "none", "bridge:<name>" or "network:<name>"

	// Totals replace, class by class, what is found on the host.
	Totals   compute.Resources
	Reserved compute.Resources // for the host itself
	Traits   []compute.Trait   // besides those found

	ConsoleBytes int64         // how much of each console is kept; default 1 MiB
	MinFree      int64         // bytes that stay free in Dir, or nothing is prepared; default 256 MiB
	ProbeTime    time.Duration // how long auto waits for KVM to boot its probe; default 10 s
}

const (
	system  = "qemu:///system"
	session = "qemu:///session"
)

func (o Options) defaults() Options {
	set := func(s *string, d string) {
		if *s == "" {
			*s = d
		}
	}
	if o.Dir != "" {
		o.Dir = filepath.Clean(o.Dir) // the stamps name it
	}
	set(&o.URI, system)
	if o.URI == system {
		set(&o.Socket, "/run/libvirt/libvirt-sock")
	}
	set(&o.Binary, "qemu-system-x86_64")
	set(&o.ImageBin, "qemu-img")
	set(&o.Machine, "q35")
	set(&o.Accel, "auto")
	set(&o.Network, networkUser)
	if o.ConsoleBytes == 0 {
		o.ConsoleBytes = 1 << 20
	}
	if o.MinFree == 0 {
		o.MinFree = 256 << 20
	}
	if o.ProbeTime == 0 {
		o.ProbeTime = 10 * time.Second
	}
	return o
}

// longestPath is what fits a unix socket's address.
const longestPath = 107

// QEMU's user networking: closed, or with a way to the host, its loopback included,
// and beyond.
const (
	networkUser = "user"
	networkOpen = "user:open"
)

var networkPattern = regexp.MustCompile(`^(user|user:open|none|bridge:[a-zA-Z0-9._-]{1,15}|network:[a-zA-Z0-9._-]{1,50})$`)

// Check refuses what cannot work, with all reasons at once.
func (o Options) Check() error {
	o = o.defaults()
	var errs []error
	bad := func(field, value, remedy string) { errs = append(errs, compute.Invalid(field, value, remedy)) }
	known := o.URI == system || o.URI == session
	if !known {
		bad("uri", o.URI, "give qemu:///system or qemu:///session: the agent runs on the host itself")
	}
	if (known || o.Socket != "") && (!filepath.IsAbs(o.Socket) || len(o.Socket) > longestPath) {
		bad("socket", o.Socket, fmt.Sprintf("give the full path of libvirt's socket, at most %d letters; that of a session is libvirt/libvirt-sock in its XDG_RUNTIME_DIR", longestPath))
	}
	if !filepath.IsAbs(o.Dir) {
		bad("dir", o.Dir, "give the full path of a folder for the machines' disks, one that survives a reboot")
	}
	if !filepath.IsAbs(o.Images) {
		bad("images", o.Images, "give the full path of the folder with the images")
	}
	if o.Machine != "q35" && o.Machine != "pc" {
		bad("machine", o.Machine, "give q35 or pc")
	}
	if o.Accel != "auto" && o.Accel != "kvm" && o.Accel != "tcg" {
		bad("accel", o.Accel, "give auto, kvm or tcg")
	}
	if !networkPattern.MatchString(o.Network) {
		bad("network", o.Network, "give user, user:open, none, bridge:<name of the bridge> or network:<name of "+
			"libvirt's network>")
	}
	if o.ConsoleBytes < 1<<10 {
		bad("console_bytes", fmt.Sprint(o.ConsoleBytes), "give at least 1024")
	}
	if o.MinFree < 0 {
		bad("min_free", fmt.Sprint(o.MinFree), "give a number of bytes")
	}
	return errors.Join(errs...)
}
