// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/pkg/compute"
)

// Options say how a host runs its machines. Zero values are the defaults. Network may be
// "network:<name>" too, one of libvirt's; Binary is for the probe alone.
type Options struct {
	URI    string // "qemu:///system" (default) or "qemu:///session"
	Socket string // libvirtd's; default "/run/libvirt/libvirt-sock", none for a session
	host.Options
}

const (
	system  = "qemu:///system"
	session = "qemu:///session"
)

func (o Options) defaults() Options {
	o.Options = o.WithDefaults()
	if o.URI == "" {
		o.URI = system
	}
	if o.Socket == "" && o.URI == system {
		o.Socket = "/run/libvirt/libvirt-sock"
	}
	return o
}

var networkPattern = regexp.MustCompile(`^network:[a-zA-Z0-9._-]{1,50}$`)

// Check refuses what cannot work, with all reasons at once.
func (o Options) Check() error {
	o = o.defaults()
	var errs []error
	bad := func(field, value, remedy string) { errs = append(errs, compute.Invalid(field, value, remedy)) }
	known := o.URI == system || o.URI == session
	if !known {
		bad("uri", o.URI, "give qemu:///system or qemu:///session: the agent runs on the host itself")
	}
	if (known || o.Socket != "") && (!filepath.IsAbs(o.Socket) || len(o.Socket) > host.LongestPath) {
		bad(
			"socket",
			o.Socket,
			fmt.Sprintf("give the full path of libvirt's socket, at most %d letters; that of a session "+
				"is libvirt/libvirt-sock in its XDG_RUNTIME_DIR", host.LongestPath),
		)
	}
	return errors.Join(append(errs, o.Options.Check(networkPattern, "network:<name of libvirt's network>")...)...)
}
