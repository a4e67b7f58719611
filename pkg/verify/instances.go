// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Time-outs after which somebody should have acted. They are those of the
// protocol with much patience on top: a difference should be one.
const (
	overdue = 2 * time.Minute  // a timer of the conductor
	stuck   = 15 * time.Minute // a launch has 10 minutes; a destroy, hardly one
)

// record takes in what the log says of one instance; false if it says nothing
// that can be read.
func (c *comparison) record(r Record) bool {
	i := r.Instance
	if r.Err != nil {
		c.find(Difference{
			Level: Fail, About: fmt.Sprintf("partition %d", r.Partition),
			Says: fmt.Sprintf("key %q: %v", r.Key, r.Err), Want: "a readable record",
			Why: "the conductor does not know this instance: its quota and its machine are forgotten",
			Fix: "read it with a Berth of the version that wrote it; report it",
		})
		return false
	}
	if key := string(i.Project) + "/" + string(i.ID); key != r.Key || c.Home(i.Project) != r.Partition {
		c.find(Difference{
			Level: Fail, About: aboutInstance(i),
			Says: fmt.Sprintf("under key %q in partition %d", r.Key, r.Partition),
			Want: fmt.Sprintf("under key %q in partition %d", key, c.Home(i.Project)),
			Why:  "no conductor that decides about this project reads it",
			Fix:  "find out who writes to the instances topic beside the conductors",
		})
		return false
	}
	if i.Counts() {
		c.used[i.Project] = c.used[i.Project].Plus(i.Resources).Plus(compute.Resources{compute.Instances: 1})
	}
	if i.State.OnHost() && i.Host != "" {
		c.host(i.Host).take(i, c.isTaken(i))
	}
	c.whole(i)
	c.late(i)
	return true
}

// whole finds what is missing of a record, or too much in it.
func (c *comparison) whole(i compute.Instance) {
	var lacks []string
	if i.State.OnHost() && (i.Host == "" || i.Claim == "") {
		lacks = append(lacks, "a host and its claim")
	}
	if i.State.Counts() && i.Attempt < 1 {
		lacks = append(lacks, "an attempt")
	}
	if i.State == compute.StateError && i.Reason == nil {
		lacks = append(lacks, "a reason")
	}
	if len(lacks) > 0 {
		c.find(Difference{
			Level: Fail, About: aboutInstance(i),
			Says: i.State.String() + " without " + strings.Join(lacks, " and "), Want: "a whole record",
			Why: "a conductor never writes such a record", Fix: "report it; delete the instance",
		})
	}
	if i.State == compute.StateQueued && i.Boot.Host == "" && !c.queues[i.Queue] {
		c.find(Difference{
			Level: Warn, About: aboutInstance(i), Says: "queued in " + string(i.Queue), Want: "a queue that is listed",
			Why: "its flavor or capability was removed, or the queue manager has not made the queue yet",
			Fix: "it ends by itself as QueueClosed, or at its deadline; is a queue manager running?",
		})
	}
}

// late finds what should have happened by now.
func (c *comparison) late(i compute.Instance) {
	since := c.Now.Sub(i.ChangedAt)
	switch {
	case i.State == compute.StateQueued && !i.Deadline.IsZero() && c.Now.Sub(i.Deadline) > overdue:
		c.find(Difference{
			Level: Fail, About: aboutInstance(i), Says: "queued until " + i.Deadline.Format(time.RFC3339),
			Want: "an end since then",
			Why:  fmt.Sprintf("no conductor acts for partition %d", c.Home(i.Project)),
			Fix: "start a conductor; berth doctor says which partitions have none, or a position that is gone; " +
				"/readyz of the conductors says which else are set aside, and why",
		})
	case (i.State == compute.StateStarting || i.State == compute.StateDeleting) && since > stuck && !c.silent(i.Host):
		c.find(Difference{
			Level: Fail, About: aboutInstance(i), Host: i.Host,
			Says: fmt.Sprintf("%s for %s on %s, which is heard", i.State, since.Round(time.Second), i.Host),
			Want: "an answer of the host",
			Why:  "the host takes part but does not answer for this machine",
			Fix:  fmt.Sprintf("look at the agent's log on %s: does its hypervisor hang?", i.Host),
		})
	}
}
