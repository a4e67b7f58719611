// SPDX-License-Identifier: Apache-2.0

package admit

import "github.com/berth-project/berth/pkg/compute"

// A fence epoch is the offset of a "fenced" in the host's stream, and one more. Claims and
// fences state it, and nothing checks what they state. An epoch beyond the end of the stream
// is none: the topic was made anew since, or a publisher invented it. Believed, it would make
// an instance immune to every evacuation, or every claim of the host void. So when an epoch has
// decided something, a command that changes nothing is written into the stream (Tell.WantOffset),
// and CommandWritten takes the decision back if the epoch lies beyond it.
//
//	fence or claim ──▶ decided by the epoch ──▶ Tell{WantOffset} ──▶ CommandWritten:
//	                                                an epoch beyond that is none

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
	if s.fences[in.Host] > last {
		delete(s.fences, in.Host)
	}
	h := s.hosts[in.Host]
	if h == nil {
		return
	}
	for _, e := range sorted(h.instances) {
		op := e.sparedFrom
		if e.sparedFrom = compute.OpNone; op != compute.OpNone && e.inst.Fence > last {
			s.loseInstance(e, in.Host, op)
		}
	}
}
