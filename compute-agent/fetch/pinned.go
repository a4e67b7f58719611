// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// Pin takes work that was offered to this host alone. What it needs is kept from fetches until it is taken or over,
// unless it waits for machines to end. Offered again it is there once.
func (f *Fetcher) Pin(b compute.Build) {
	for i, old := range f.pinned {
		if old.Instance == b.Instance && old.Project == b.Project {
			f.pinned[i] = b
			return
		}
	}
	f.pinned = append(f.pinned, b)
}

// Pinned calls done with each such work, the oldest first, and drops what it is done with.
func (f *Fetcher) Pinned(done func(compute.Build) bool) { f.pinned = slices.DeleteFunc(f.pinned, done) }
