// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// BadImage is an image that is broken as it lies on one host, or on all, for good.
type BadImage struct {
	Image string         `json:"image"`
	Host  compute.HostID `json:"host,omitempty"` // empty: every host
}

// Kind is what the report of a run counts it as.
func (b BadImage) Kind() string {
	if b.Host == "" {
		return "image everywhere"
	}
	return "image here"
}

// Broken is the entry that says that an image is broken on a host; nil: it is not.
func (w World) Broken(h compute.HostID, image string) *BadImage {
	for n, b := range w.Bad {
		if b.Image == image && (b.Host == "" || b.Host == h) {
			return &w.Bad[n]
		}
	}
	return nil
}

// Spoils says whether an image is broken on a host: one that found out leaves its work to others.
func (w World) Spoils(image string) bool {
	return slices.ContainsFunc(w.Bad, func(b BadImage) bool { return b.Image == image })
}

// SmallTurns is what a world is counted as in which a turn of a few changes is too large to be written at once.
const SmallTurns = "small turns"

// Kinds are what is counted as faults are: what is wrong with the world from the beginning, and
// flavors that become others.
func (s Schedule) Kinds() []string {
	all := s.World.Kinds()
	for _, l := range s.Load {
		if l.Op == LoadResize {
			all = append(all, l.ResizeKind())
		}
	}
	return all
}

// Kinds are what is wrong with the world from the beginning, as faults are counted.
func (w World) Kinds() (all []string) {
	for _, b := range w.Bad {
		all = append(all, b.Kind())
	}
	for _, c := range w.Clocks {
		all = append(all, c.Kind())
	}
	if w.TurnBytes > 0 {
		all = append(all, SmallTurns)
	}
	return all
}
