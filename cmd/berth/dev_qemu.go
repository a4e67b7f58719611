package main

import (
	"fmt"
	"path/filepath"

	"github.com/berth-project/berth/compute-agent/hypervisor/qemu"
	"github.com/berth-project/berth/pkg/compute"
)

// devDriver is what `berth dev` was told of its hosts.
type devDriver struct{ kind, images string }

// choose makes this machine the only host if QEMU is asked for. Its machines
// outlive this process, so they need a folder that stays.
func (d devDriver) choose(o *devOptions) error {
	switch d.kind {
	case "fake":
		return nil
	case "qemu":
	default:
		return compute.Invalid("driver", d.kind, "give fake or qemu")
	}
	if o.Data == "" {
		return compute.Invalid("data", "", "name a folder: machines on QEMU outlive this process, and what is known of them has to as well")
	}
	if d.images == "" {
		return compute.Invalid("images", "", "name the folder with the images; docs/HYPERVISORS.md says what is in it")
	}
	data, err := filepath.Abs(o.Data)
	if err != nil {
		return err
	}
	images, err := filepath.Abs(d.images)
	if err != nil {
		return err
	}
	o.Data, o.Hosts = data, nil
	o.QEMU = &qemu.Options{Dir: filepath.Join(data, "qemu"), Images: images, ImagesTrusted: true} // whose it is has just named it
	return o.QEMU.Check()
}

func (d devDriver) what(hosts int) string {
	if d.kind == "qemu" {
		return "one real host"
	}
	return fmt.Sprintf("%d simulated hosts", hosts)
}
