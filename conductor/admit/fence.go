// SPDX-License-Identifier: Apache-2.0

package admit

import "github.com/berth-project/berth/pkg/compute"

// The epoch of a fence is one more than an offset in the host's stream, and
// nobody checks what a claim, or a fence, says. One that no stream has reached
// would make what it was claimed under immune to every evacuation, or every
// claim of the host void: from a host whose topic was made anew, or from any
// publisher. So what such an epoch decided is looked at again: whatever is
// written into the stream now lies behind all that this epoch can mean.
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
