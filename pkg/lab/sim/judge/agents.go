// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Agent is one life of an agent, which spoke for a host.
type Agent struct {
	Host         compute.HostID // that it had the name of
	Process      string
	Began, Ended time.Time
	GaveWay      bool // it ended itself, as it was told that another agent of its name began earlier
}

// AddAgent notes that an agent has ended.
func (r *Recording) AddAgent(a Agent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Agents = append(r.Agents, a)
}

// toldLate is how much later than it began an agent may say so for the first time, in records that are on their way for
// long.
const toldLate = time.Minute

// checkGaveWay: of two agents of one name the one that began later ends, whatever the clocks of their hosts say.
func checkGaveWay(r *Recording) (wrong []Violation) {
	for i, a := range r.Agents {
		earlier := func(b Agent) bool {
			return b.Host == a.Host && b.Began.Before(a.Began.Add(toldLate)) && b.Ended.After(a.Began.Add(-compute.SilentAfter))
		}
		if a.GaveWay && !slices.ContainsFunc(slices.Delete(slices.Clone(r.Agents), i, i+1), earlier) {
			wrong = append(wrong, broken("gave way", "", a.Ended,
				"%s, the agent of %s that began at %s, ended for another one, and none had begun before it",
				a.Process, a.Host, r.At(a.Began))...)
		}
	}
	return wrong
}
