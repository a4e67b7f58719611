// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// pin is what work for this host alone is told apart by, whatever its attempt.
type pin struct {
	project  compute.Project
	instance compute.InstanceID
}

func pinOf(b compute.Build) pin { return pin{b.Project, b.Instance} }

// Pin takes work that was offered to this host alone. What it needs is kept from fetches until it is taken or over,
// unless it waits for machines to end. Offered again it is there once, as its latest attempt.
func (f *Fetcher) Pin(b compute.Build) {
	i, known := f.pinnedAt[pinOf(b)]
	switch {
	case !known:
		f.pinnedAt[pinOf(b)] = len(f.pinned)
		f.pinned = append(f.pinned, b)
	case b.Attempt >= f.pinned[i].Attempt:
		f.pinned[i] = b
	}
}

// Pinned calls done with each such work, the oldest first, and drops what it is done with.
func (f *Fetcher) Pinned(done func(compute.Build) bool) {
	before := len(f.pinned)
	if f.pinned = slices.DeleteFunc(f.pinned, done); len(f.pinned) == before {
		return
	}
	clear(f.pinnedAt)
	for i, b := range f.pinned {
		f.pinnedAt[pinOf(b)] = i
	}
}
