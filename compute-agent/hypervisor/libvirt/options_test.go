// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/host"
)

func TestOptionsAreChecked(t *testing.T) {
	good := Options{Options: host.Options{Dir: "/var/lib/berth/libvirt", Images: "/var/lib/berth/images"}}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for field, spoil := range map[string]func(*Options){
		"uri":           func(o *Options) { o.URI = "qemu+ssh://elsewhere/system" },
		"socket":        func(o *Options) { o.URI = "qemu:///session" },
		"dir":           func(o *Options) { o.Dir = "relative" },
		"images":        func(o *Options) { o.Images = "" },
		"machine":       func(o *Options) { o.Machine = "microvm" },
		"accel":         func(o *Options) { o.Accel = "hvf" },
		"network":       func(o *Options) { o.Network = "network:" },
		"console_bytes": func(o *Options) { o.ConsoleBytes = 1 },
		"min_free":      func(o *Options) { o.MinFree = -1 },
	} {
		o := good
		spoil(&o)
		if err := o.Check(); err == nil || !strings.Contains(
			err.Error(), field,
		) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", field, err)
		}
	}
}
