// SPDX-License-Identifier: Apache-2.0

package compute

import "slices"

// Weigher says which hosts look for work, and are rung for it, more often: the emptier or the fuller
// ones. Each host has its own.
type Weigher uint8

// The weighers. Spread is the default, and what agents of older versions do.
const (
	Spread Weigher = iota // the emptier the host, the more often
	Pack                  // the fuller the host, the more often
)

var weigherNames = [...]string{"spread", "pack"}

// String is the weigher's name in settings and APIs.
func (w Weigher) String() string { return name(weigherNames[:], w, "weigher") }

// ParseWeigher reads a name.
func ParseWeigher(name string) (Weigher, error) {
	i := slices.Index(weigherNames[:], name)
	if i < 0 {
		return Spread, Invalid("weigher", name, "give spread or pack")
	}
	return Weigher(i), nil
}
