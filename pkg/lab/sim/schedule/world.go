// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"
	"strings"

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

// Sorts of schedules that have to take place by themselves.
const (
	LateGroups = "late groups" // groups are made while a conductor cannot read the catalog
	// UnreadHosts are hosts of which somebody says that they are dead while no conductor can read about hosts.
	UnreadHosts = "hosts unread"
)

// always are sorts of schedules that are so from the beginning to the end, whatever happens.
var always = []string{
	"brokers", "many", "calm", "orphaned", "sets", "groups", "regrouped", "zoned", "wholes", "spread", "reserved",
	"ranked",
	"preempts", "deaf guests", "said again", "sips", "saves", "keys",
}

// Always are the sorts that a schedule is of, whatever happens.
func (s Schedule) Always() (all []string) {
	for _, sort := range always {
		if s.Has(sort) {
			all = append(all, sort)
		}
	}
	return all
}

// Kinds are what is counted as faults are: what is wrong with the world from the beginning, and
// flavors that become others.
func (s Schedule) Kinds() []string {
	all := s.begunWith()
	for _, sort := range []string{LateGroups, UnreadHosts} {
		if s.Has(sort) {
			all = append(all, sort)
		}
	}
	return append(all, s.Always()...)
}

// begunWith are what is wrong with the world from the beginning, and flavors that become others.
func (s Schedule) begunWith() []string {
	all := s.World.Kinds()
	for _, l := range s.Load {
		if l.Op == LoadResize {
			all = append(all, l.ResizeKind())
		}
	}
	return all
}

// unreadHosts says whether somebody says of a host that it is dead while every conductor is cut off from the broker
// that leads the topic of hosts.
func (s Schedule) unreadHosts() bool {
	cut := map[string]Fault{}
	for _, f := range s.Faults {
		if f.Kind == FaultLink && f.Broker == AtHosts && strings.HasPrefix(f.Who, "conductor-") {
			cut[f.Who] = f
		}
	}
	return len(cut) == s.World.Conductors && slices.ContainsFunc(s.Faults, func(word Fault) bool {
		for _, f := range cut {
			if word.Kind != FaultWord || word.At < f.At || word.At > f.At+f.For {
				return false
			}
		}
		return true
	})
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
