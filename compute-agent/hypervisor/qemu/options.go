package qemu

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
	Dir    string // the machines' folders; survives a reboot. Required.
	Images string // see package image. Required.
	// ImagesTrusted takes images without a checksum beside them.
	ImagesTrusted bool

	Binary   string // default "qemu-system-x86_64"
	ImageBin string // default "qemu-img"
	Machine  string // "q35" (default) or "pc"
	Accel    string // "auto" (default), "kvm" or "tcg"
	Network  string // "user" (default), "user:open", "none" or "bridge:<name>"

	// Users is a range of user ids that nobody else on the host has, as in
	// "900000-900999": each machine runs as one of them. The agent has to be root.
	// Empty (default): machines run as the agent's user.
	Users string

	// Totals replace, class by class, what is found on the host.
	Totals   compute.Resources
	Reserved compute.Resources // for the host itself
	Traits   []compute.Trait   // besides those found

	ConsoleBytes int64         // how much of each console is kept; default 1 MiB
	MinFree      int64         // bytes that stay free in Dir, or nothing is prepared; default 256 MiB
	ProbeTime    time.Duration // how long auto waits for KVM to boot its probe; default 10 s
}

func (o Options) defaults() Options {
	set := func(s *string, d string) {
		if *s == "" {
			*s = d
		}
	}
	if o.Dir != "" {
		o.Dir = filepath.Clean(o.Dir) // processes are known by it
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

var networkPattern = regexp.MustCompile(`^(user|user:open|none|bridge:[a-zA-Z0-9._-]{1,15})$`)

// Check refuses what cannot work, with all reasons at once.
func (o Options) Check() error {
	o = o.defaults()
	var errs []error
	bad := func(field, value, remedy string) { errs = append(errs, compute.Invalid(field, value, remedy)) }
	if !filepath.IsAbs(o.Dir) {
		bad("dir", o.Dir, "give the full path of a folder for the machines' disks and sockets, one that survives a reboot")
	}
	if n := len(filepath.Join(o.Dir, string(make([]byte, 36)), socketFile)); n > longestPath {
		bad("dir", o.Dir, fmt.Sprintf("give a path shorter by %d letters: a socket's name may have %d in all", n-longestPath, longestPath))
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
		bad("network", o.Network, "give user, user:open, none or bridge:<name of the bridge>")
	}
	if _, err := usersOf(o.Users); err != nil {
		bad("users", o.Users, fmt.Sprintf("give a range of user ids from %d on that nobody has, as in "+
			"900000-900999, or nothing", leastUser))
	}
	if o.ConsoleBytes < 1<<10 {
		bad("console_bytes", fmt.Sprint(o.ConsoleBytes), "give at least 1024")
	}
	if o.MinFree < 0 {
		bad("min_free", fmt.Sprint(o.MinFree), "give a number of bytes")
	}
	return errors.Join(errs...)
}
