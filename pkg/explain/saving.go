// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	"github.com/berth-project/berth/pkg/compute"
)

// Savers are the hosts that save room for work of one queue.
type Savers struct {
	For    uint32            // for that of the machine
	First  compute.HostID    // of those the one that lacks least
	Short  compute.Resources // what it lacks
	Saving *compute.Saving   // what it says
	Others uint32            // for other queues, so that the machine does not fit
}

// note counts a host.
func (s *Savers) note(w Wanted, v Verdict) {
	switch {
	case v.Standing != Full || v.Saving == nil:
	case w.keepsFor(v.Saving):
		s.Others++
	default:
		if s.For++; s.First == "" || share(w.Resources, v.Short) < share(w.Resources, s.Short) {
			s.First, s.Short, s.Saving = v.Host, v.Short, v.Saving
		}
	}
}

func (w Wanted) keepsFor(s *compute.Saving) bool { return w.Queue == "" || s.Queue != w.Queue }

// saved is what hosts save for the instance, and for others, behind "; ".
func (f Facts) saved() (out string) {
	s := f.Hosts.Savers
	if s.For > 0 {
		out = fmt.Sprintf("; host %s saves room for it since %s, for %s at most",
			f.host(s.First), span(s.Saving.Age), span(s.Saving.Left))
		if s.Saving.Preempt {
			out += ", and has preemptible machines taken away for it"
		}
		if f.Amounts && len(s.Short) > 0 {
			out += ": " + Amounts(s.Short) + " short"
		}
	}
	if s.Others > 0 {
		out += fmt.Sprintf("; %s room for other work that has waited for long", saves(s.Others))
	}
	return out
}

func saves(hosts uint32) string {
	if hosts == 1 {
		return "1 of those that are full saves"
	}
	return fmt.Sprintf("%d of those that are full save", hosts)
}
