// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"path/filepath"
	"regexp"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Options say how a host runs machines that are QEMUs; each driver has some more of its own.
// Zero values are the defaults.
type Options struct {
	Dir    string // the machines' folders; survives a reboot. Required.
	Images string // see package image. Required.
	// ImagesTrusted takes images without a checksum beside them.
	ImagesTrusted bool

	Binary   string // default "qemu-system-x86_64"
	ImageBin string // default "qemu-img"
	Machine  string // "q35" (default) or "pc"
	Accel    string // "auto" (default), "kvm" or "tcg"
	Network  string // "user" (default), "user:open", "none", "bridge:<name>", or what the driver has besides

	// Totals replace, class by class, what is found on the host.
	Totals   compute.Resources
	Reserved compute.Resources // for the host itself
	Traits   []compute.Trait   // besides those found

	ConsoleBytes int64         // how much of each console is kept; default 1 MiB
	MinFree      int64         // bytes that stay free in Dir, or nothing is prepared; default 256 MiB
	ProbeTime    time.Duration // how long auto waits for KVM to boot its probe; default 10 s
}

// QEMU's user networking: closed, or with a way to the host, its loopback included,
// and beyond.
const (
	NetworkUser = "user"
	NetworkOpen = "user:open"
)

// WarnOfOpen warns of so many machines with open user networking, where machines get none such any more.
func WarnOfOpen(network string, machines int64, remedy string) []string {
	if network == NetworkOpen || machines == 0 {
		return nil
	}
	return []string{fmt.Sprintf("machines from before user networking was closed let their guests reach whatever listens "+
		"on this host's loopback: %d of them; %s", machines, remedy)}
}

// LongestPath is what fits a unix socket's address.
const LongestPath = 107

// WithDefaults fills in what is not given.
func (o Options) WithDefaults() Options {
	set := func(s *string, d string) {
		if *s == "" {
			*s = d
		}
	}
	if o.Dir != "" {
		o.Dir = filepath.Clean(o.Dir) // processes and stamps are known by it
	}
	set(&o.Binary, "qemu-system-x86_64")
	set(&o.ImageBin, "qemu-img")
	set(&o.Machine, "q35")
	set(&o.Accel, "auto")
	set(&o.Network, NetworkUser)
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

var networkPattern = regexp.MustCompile(`^(user|user:open|none|bridge:[a-zA-Z0-9._-]{1,15})$`)

// Check refuses what cannot work, with all reasons, once the defaults are filled in. A driver may have
// networks besides those that all have: more matches them, and such says how to write one; nil: none.
func (o Options) Check(more *regexp.Regexp, such string) (errs []error) {
	bad := func(field, value, remedy string) { errs = append(errs, compute.Invalid(field, value, remedy)) }
	if !filepath.IsAbs(o.Dir) {
		bad("dir", o.Dir, "give the full path of a folder for the machines' disks, one that survives a reboot")
	}
	if !filepath.IsAbs(o.Images) {
		bad("images", o.Images, "give the full path of the folder with the images")
	}
	if !isQEMU([]string{o.Binary}) {
		bad("binary", o.Binary, "name a program called qemu-system-…, qemu-kvm or kvm: machines are known by that")
	}
	if o.Machine != "q35" && o.Machine != "pc" {
		bad("machine", o.Machine, "give q35 or pc")
	}
	if o.Accel != "auto" && o.Accel != "kvm" && o.Accel != "tcg" {
		bad("accel", o.Accel, "give auto, kvm or tcg")
	}
	if !networkPattern.MatchString(o.Network) && (more == nil || !more.MatchString(o.Network)) {
		remedy := "give user, user:open, none or bridge:<name of the bridge>"
		if more != nil {
			remedy += ", or " + such
		}
		bad("network", o.Network, remedy)
	}
	if o.ConsoleBytes < 1<<10 {
		bad("console_bytes", fmt.Sprint(o.ConsoleBytes), "give at least 1024")
	}
	if o.MinFree < 0 {
		bad("min_free", fmt.Sprint(o.MinFree), "give a number of bytes")
	}
	return errs
}

// Share is what these options say of the host's inventory, its machines running on this accelerator.
func (o Options) Share(accel string) Share {
	return Share{Dir: o.Dir, MinFree: o.MinFree, Totals: o.Totals, Reserved: o.Reserved, Traits: o.Traits, Accel: accel}
}
