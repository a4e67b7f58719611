// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"path/filepath"

	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/image"
)

// OpenImages opens a driver's folder of images. Their copies are in the folder of the machines, for as long as there is
// room for them; those that no machine needs any more are removed.
func OpenImages(h host.Host, o host.Options) (*image.Store, error) {
	images := image.NewStore(o.Images, filepath.Join(o.Dir, image.Kept), o.ImageBin, o.ImagesTrusted)
	images.Spare = func(bytes int64) error { return h.Spare(o.Share(""), bytes) }
	return images, images.Sweep()
}
