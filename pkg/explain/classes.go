// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	"github.com/berth-project/berth/pkg/compute"
)

// class adds what the class of work that any host may take has to do with when it is served: its rule, what of higher classes
// waits for the same, and from when on it is served before new work of the class above it.
func (f Facts) class(out *Told) {
	i := f.Instance
	p := i.Boot.Priority()
	if i.Boot.Host != "" {
		return // its host alone serves it
	}
	if p != compute.PriorityNormal {
		out.Summary += fmt.Sprintf("; of priority %s: %s", p, p.Rule())
	}
	if f.Unmade {
		out.Summary += "; the queue for this class is made, since it is the first that needs it"
		out.Next = append(out.Next, Event{What: "its queue is made within seconds, and it is offered there"})
	}
	if f.Higher > 0 {
		out.Summary += fmt.Sprintf("; of higher priority %s for the same", waits(f.Higher))
	}
	if above := i.UnclaimedSince().Add(compute.PriorityShift); p == compute.PriorityLow && !f.Before && above.After(f.Now) {
		out.Next = append(out.Next, Event{At: above, What: "from then on it is served before normal work that comes later"})
	}
}

func waits(n uint64) string {
	if n == 1 {
		return "1 waits"
	}
	return fmt.Sprintf("%d wait", n)
}
