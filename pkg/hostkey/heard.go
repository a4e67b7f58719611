// SPDX-License-Identifier: Apache-2.0

package hostkey

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Heard is what was heard of signed records in one log: a partition, or a topic whose hosts
// each have their own partition. It belongs to a reader that reads the log once and in order,
// and is made anew when the reader begins again. The zero value is ready. It is not safe for
// concurrent use.
//
// A process signs what it sends anew each time, one batch after the other, so in a log the
// counters of what counts only rise. What comes with a lower one was there before, or is a
// first try that comes after its second.
type Heard struct{ hosts map[compute.HostID][]process }

// process is one that signed: the one heard last is last.
type process struct {
	compute.Voice
	last  uint64  // counter
	marks [2]mark // the older one first
}

// mark is a moment of the log by which a counter was reached; none: zero.
type mark struct {
	counter uint64
	at      time.Time
}

const (
	// mostProcesses of a host are remembered. Nobody without its key adds one.
	mostProcesses = 32
	// Late is more than a record may need from when it is signed until it is in the log:
	// a request is tried for less than a minute (kafka.Config.RequestTimeout) and then signed anew.
	Late = 5 * time.Minute
)

// Observe notes a record, and says why it does not count: nil if it is above all that its
// process said before. at is when it was written, by the time of the log; zero: not known.
func (h *Heard) Observe(host compute.HostID, by compute.Voice, c Proved, at time.Time) *compute.Reason {
	if !c.Signed {
		return nil
	}
	if h.hosts == nil {
		h.hosts = map[compute.HostID][]process{}
	}
	all := h.hosts[host]
	i := slices.IndexFunc(all, func(p process) bool { return p.Same(by) })
	if i >= 0 && c.Counter <= all[i].last {
		return replayed(host,
			fmt.Sprintf("its counter is %d, and %d was heard of that process before", c.Counter, all[i].last))
	}
	p := process{Voice: by}
	if i >= 0 {
		p = all[i]
		all = slices.Delete(all, i, i+1)
	} else if len(all) >= mostProcesses {
		all = slices.Delete(all, 0, 1)
	}
	p.last = c.Counter
	p.mark(at)
	h.hosts[host] = append(all, p)
	return nil
}

// mark keeps two moments that are at least Late apart, of which the older is not much older.
func (p *process) mark(at time.Time) {
	is := mark{p.last, at}
	switch {
	case at.IsZero():
	case p.marks[0].at.IsZero():
		p.marks[0] = is
	case p.marks[1].at.IsZero():
		if at.Sub(p.marks[0].at) >= Late {
			p.marks[1] = is
		}
	case at.Sub(p.marks[1].at) >= Late:
		p.marks[0], p.marks[1] = p.marks[1], is
	}
}

// Stale says why a record of another log does not count, for one that has not read that log
// from its beginning: its process had said more here more than Late before it was written.
func (h *Heard) Stale(host compute.HostID, by compute.Voice, c Proved, at time.Time) *compute.Reason {
	if !c.Signed || at.IsZero() {
		return nil
	}
	for _, p := range h.hosts[host] {
		if !p.Same(by) {
			continue
		}
		for _, m := range p.marks {
			if c.Counter < m.counter && at.Sub(m.at) > Late { // no mark has the counter 0
				return replayed(host, fmt.Sprintf("its counter is %d, and its process had reached %d at %s", c.Counter,
					m.counter, m.at.UTC().Format(time.RFC3339)))
			}
		}
	}
	return nil
}

func replayed(host compute.HostID, why string) *compute.Reason {
	return &compute.Reason{Code: compute.Replayed, Host: host, Detail: why}
}
