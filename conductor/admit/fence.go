// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// A fence epoch is the offset of a "fenced" in the host's stream, and one more. Claims and
// fences state it, and nothing checks what they state. An epoch beyond the end of the stream
// is none: the topic was made anew since, or a publisher invented it. Believed, it would make
// an instance immune to every evacuation, or every claim of the host void. So when an epoch has
// decided something, a command that changes nothing is written into the stream (Tell.WantOffset),
// and CommandWritten takes the decision back if the epoch lies beyond it. One that could not be
// written is written again later.
//
//	fence or claim ──▶ decided by the epoch ──▶ Tell{WantOffset} ──▶ CommandWritten:
//	                                                an epoch beyond that is none

// fences has the highest epoch that was heard of for each host. Nothing checks that there
// is such a host, so of those that have nothing here not more than some are kept, the last
// heard of. A claim under an older epoch of one that was dropped is granted, as it is by a
// new owner of the partition: that is safe, see decision 0022. And so it is under one that was heard of long ago: the
// stream of a host that was away for longer than that is kept has no "fenced" any more, so the host would claim under
// an older epoch for ever.
type fences struct {
	of    map[compute.HostID]fenceHeard
	heard uint64 // fences so far
	most  int
}

type fenceHeard struct {
	epoch compute.FenceEpoch
	last  uint64 // the number of the fence that said so last
	at    time.Time
}

// fenceCounts is for how long an epoch counts: half as long as streams are kept.
const fenceCounts = 7 * 24 * time.Hour

func newFences(most int) fences { return fences{of: map[compute.HostID]fenceHeard{}, most: most} }

// note notes an epoch. kept are the hosts that are never dropped.
func (f *fences) note(id compute.HostID, epoch compute.FenceEpoch, now time.Time, kept func(compute.HostID) bool) {
	f.heard++
	f.of[id] = fenceHeard{max(f.of[id].epoch, epoch), f.heard, now}
	if len(f.of) <= f.most {
		return
	}
	var droppable []compute.HostID
	for other := range f.of {
		if other != id && !kept(other) {
			droppable = append(droppable, other)
		}
	}
	slices.SortFunc(droppable, func(a, b compute.HostID) int { return cmp.Compare(f.of[a].last, f.of[b].last) })
	for _, other := range droppable[:(len(droppable)+1)/2] { // half, so that not every fence has to look for one
		delete(f.of, other)
	}
}

// epoch is the highest heard of for a host; 0: none was, or long ago.
func (f *fences) epoch(id compute.HostID, now time.Time) compute.FenceEpoch {
	if h := f.of[id]; now.Sub(h.at) < fenceCounts {
		return h.epoch
	}
	return 0
}

// askStreamEnd finds out how long the stream of an instance's host is: by saying to it
// what changes nothing there.
func (s *step) askStreamEnd(e *entry) {
	op := compute.CommandDelete
	if running(e.inst) {
		op = compute.CommandConfirm
	}
	about := tell(e.inst, op, s.at())
	about.WantOffset = true
	s.emit(about)
}

// streamEnd hears how long a host's stream is, and takes back what epochs behind
// its end have decided.
func (s *step) streamEnd(in CommandWritten) {
	last := compute.FenceEpoch(max(in.Offset, 0))
	if s.fences.epoch(in.Host, s.now) > last {
		delete(s.fences.of, in.Host)
	}
	h := s.hosts[in.Host]
	if h == nil {
		return
	}
	h.askEndAt = time.Time{}
	for _, e := range sorted(h.instances) {
		op := e.sparedFrom
		if e.sparedFrom = compute.OpNone; op != compute.OpNone && e.inst.Fence > last {
			s.loseInstance(e, in.Host, op)
		}
	}
}
