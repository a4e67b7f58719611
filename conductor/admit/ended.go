// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// The record of an instance that has ended stays, so that a late repeat of its
// request changes nothing: for Options.KeepEnded, unless newer ones of its project
// are Options.MaxEnded already. Then the oldest goes: a project that is refused a
// million boots takes no more memory than one that is refused ten thousand.

// endings are the ended instances of one project, the oldest first.
type endings struct {
	heap[*entry]
}

// maxTrimmed is how many records one step takes away at most. What is more
// than that goes with the next ones.
const maxTrimmed = 1000

// addEnded notes that an entry has ended.
func (s *State) addEnded(e *entry) {
	p := e.inst.Project
	x := s.endings[p]
	if x == nil {
		x = &endings{heap[*entry]{less: endedBefore, index: func(e *entry) *int32 { return &e.endingIndex }}}
		s.endings[p] = x
	}
	if x.fix(e); len(x.items) > s.opts.MaxEnded {
		s.overLimit[p] = true
	}
}

// removeEnded takes an entry out again, before its record changes or goes.
func (s *State) removeEnded(e *entry) {
	p := e.inst.Project
	x := s.endings[p]
	if x.remove(e); len(x.items) == 0 {
		delete(s.endings, p)
	}
	if len(x.items) <= s.opts.MaxEnded {
		delete(s.overLimit, p)
	}
}

// trim takes away the oldest of what is too much.
func (s *step) trim() {
	for _, p := range slices.Sorted(maps.Keys(s.overLimit)) {
		for s.overLimit[p] && len(s.out.Removed) < maxTrimmed {
			s.forget(s.endings[p].top())
		}
	}
}

// forget takes away the record of what has ended.
func (s *step) forget(e *entry) {
	s.out.Removed = append(s.out.Removed, e.inst)
	s.replace(e, nil, s.now)
}

func endedBefore(a, b *entry) bool {
	if c := endedAt(a.inst).Compare(endedAt(b.inst)); c != 0 {
		return c < 0
	}
	return a.made < b.made
}

// endedAt is when a record became deleted or error.
func endedAt(inst *compute.Instance) time.Time {
	if inst.EndedAt.IsZero() {
		return inst.ChangedAt
	}
	return inst.EndedAt
}
