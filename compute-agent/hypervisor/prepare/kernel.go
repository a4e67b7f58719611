// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"errors"
	"os"
	"strings"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/image"
	"github.com/berth-project/berth/pkg/compute"
)

// holds refuses memory that does not hold the kernel and the initrd of an image: QEMU would end over it on every host.
func holds(name string, img image.Image, r compute.Resources) error {
	var bytes int64
	for _, file := range []string{img.Kernel, img.Initrd} {
		if file == "" {
			continue
		}
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		bytes += info.Size()
	}
	if mb, need := r[compute.MemoryMB], (bytes+1<<20-1)>>20; mb <= need && need > 0 {
		return hypervisor.Reject("MEMORY_MB %d: the kernel and the initrd of image %q alone have %d: choose a larger flavor",
			mb, name, need)
	}
	return nil
}

// ofKernel is why QEMU ended as a machine began: whose fault it is that it does not boot an image's kernel. That is no
// sign that anything is wrong with the host, and whoever can choose an image could have any host quarantined by it.
func ofKernel(name string, img image.Image, why error) error {
	if why == nil || img.Kernel == "" || errors.As(why, new(*hypervisor.Error)) {
		return why
	}
	said := strings.ToLower(why.Error())
	names := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(said, w) {
				return true
			}
		}
		return false
	}
	switch {
	case names("initrd is too large"):
		return hypervisor.Reject("image %q: its initrd does not fit into the flavor's memory: choose a larger one: %v", name, why)
	case names("kernel", "initrd", "ram disk"):
		return hypervisor.RefuseImage("image %q: QEMU does not boot its kernel, or not with its initrd: %v", name, why)
	}
	return why
}
