package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/qemu"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
)

// devDriver is what `berth dev` was told of its hosts.
type devDriver struct{ kind, images string }

// choose makes this machine the only host if QEMU is asked for. Its machines
// outlive this process, so they need a folder that stays.
func (d devDriver) choose(o *cell.EverythingOptions) error {
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
	o.QEMU = &qemu.Options{Options: host.Options{
		Dir: filepath.Join(data, "qemu"), Images: images, ImagesTrusted: true, // whose it is has just named it
	}}
	return o.QEMU.Check()
}

// banner is what is said once Berth is up. What it says to type works as it stands
// there.
func (d devDriver) banner(address string, hosts int) string {
	what, note := fmt.Sprintf("%d simulated hosts", hosts), ""
	lines := []string{
		"berth flavor add m1.small --vcpus 1 --memory 2GiB --disk 20GiB",
		"berth boot --flavor m1.small --name web --wait",
	}
	if d.kind == "qemu" {
		what = "one real host"
		image := anImage(d.images)
		if image == "" {
			image, note = "IMAGE", "with the name of an image that you put into "+d.images+"\n"
		}
		lines = []string{
			"berth flavor add small --vcpus 1 --memory 1GiB --disk 10GiB",
			"berth boot --flavor small --name web --image " + image + " --wait",
		}
	}
	return fmt.Sprintf("Berth is up: %s, API on http://%s, its documentation on http://%[2]s/docs,\n"+
		"metrics of every part on http://%[2]s/metrics\n"+
		"  export BERTH_API=http://%[2]s\n  %s\n%sCtrl-C stops it.\n", what, address, strings.Join(lines, "\n  "), note)
}

// anImage is the name of some image in a folder; empty if there is none.
func anImage(dir string) string {
	for _, pattern := range []string{"*.qcow2", "*.raw", "*/kernel"} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err == nil && len(found) > 0 {
			file, _ := filepath.Rel(dir, found[0]) // it is in the folder
			if file, kernel := strings.CutSuffix(file, string(filepath.Separator)+"kernel"); kernel {
				return file
			}
			return strings.TrimSuffix(file, filepath.Ext(file))
		}
	}
	return ""
}
