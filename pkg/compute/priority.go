// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"
	"strings"
	"time"
)

// Priority is the class of a request. Where there is not room for all that waits, hosts serve work of a higher class
// first, but for what has waited for long; nothing that runs is taken away for it but what is preemptible.
type Priority uint8

// The classes.
const (
	PriorityNormal Priority = iota // what a request has that names none
	PriorityLow
	PriorityHigh
)

var priorityNames = [...]string{"normal", "low", "high"}

// String is the class's name in APIs, on the command line and in names of queues.
func (p Priority) String() string { return name(priorityNames[:], p, "priority") }

// Priorities are all classes, the highest first.
func Priorities() []Priority { return []Priority{PriorityHigh, PriorityNormal, PriorityLow} }

// ParsePriority reads "low", "normal" or "high"; empty is normal.
func ParsePriority(s string) (Priority, error) {
	for i, n := range priorityNames {
		if n == s {
			return Priority(i), nil
		}
	}
	if s == "" {
		return PriorityNormal, nil
	}
	return PriorityNormal, Invalid("priority", s, `give "low", "normal" or "high"`)
}

// Check refuses a class that this version does not know.
func (p Priority) Check() error {
	if int(p) < len(priorityNames) {
		return nil
	}
	return Invalid("priority", p.String(), `give "low", "normal" or "high"`)
}

// PriorityShift is by how much work of the high class counts as older than it is, and of the low class as younger. The
// oldest counts first, so work of each class waits for that of the one above it only until it is older by so much, and
// nothing waits for ever. It is short beside the deadline of a request that names none (DefaultDeadline, an hour): low
// work behind a steady stream of high work has its turn after twice the shift, before it is given up.
const PriorityShift = 10 * time.Minute

// Rank is since when work of the class counts as waiting that waits since a moment: what ranks earlier is served first.
func (p Priority) Rank(since time.Time) time.Time {
	switch p {
	case PriorityHigh:
		return since.Add(-PriorityShift)
	case PriorityLow:
		return since.Add(PriorityShift)
	}
	return since
}

// Rule is what a host does with work of the class, in words.
func (p Priority) Rule() string {
	switch p {
	case PriorityHigh:
		return fmt.Sprintf("it counts as %s older than it is: where room is short, hosts serve it before normal work that "+
			"has not waited %[1]s longer, and before low work that has not waited %s longer",
			minutes(PriorityShift), minutes(2*PriorityShift))
	case PriorityLow:
		return fmt.Sprintf("it counts as %s younger than it is: where room is short, hosts serve it after normal work, "+
			"unless it has waited %[1]s longer, and after high work, unless it has waited %s longer",
			minutes(PriorityShift), minutes(2*PriorityShift))
	}
	return fmt.Sprintf("where room is short, hosts serve it after high work, unless it has waited %s longer, and before "+
		"low work that has not waited %[1]s longer", minutes(PriorityShift))
}

func minutes(d time.Duration) string { return fmt.Sprintf("%d min", d/time.Minute) }

// PriorityAxis is what a class looks like in the name of a queue: one more choice. No capability may be called so.
const PriorityAxis AxisName = "priority"

// tierSuffix is what the name of a class's tier has behind that of its queue.
func (p Priority) tierSuffix() string { return "." + string(PriorityAxis) + "-" + p.String() }

// TierName is the tier of a queue for a class: the queue in which its work waits. That of the normal class is the queue
// itself.
func TierName(q QueueName, p Priority) QueueName {
	if p == PriorityNormal {
		return q
	}
	return q + QueueName(p.tierSuffix())
}

// SplitTier is the queue and the class that a name would be the tier of. Any queue may have such a name, so it is a
// tier only if that queue is there and none of the catalog has the name.
func SplitTier(name QueueName) (QueueName, Priority) {
	for _, p := range []Priority{PriorityLow, PriorityHigh} {
		if q, is := strings.CutSuffix(string(name), p.tierSuffix()); is && q != "" {
			return QueueName(q), p
		}
	}
	return name, PriorityNormal
}

// Tier is the queue for a class, of the same needs. Where its work lies is not known.
func (q Queue) Tier(p Priority) Queue {
	if p == PriorityNormal {
		return q
	}
	q.Name, q.Priority = TierName(q.Name, p), p
	q.State, q.Group, q.TopicID, q.Error = QueueOpen, "", "", ""
	return q
}

// Priority is the class of the boot.
func (b *Boot) Priority() Priority {
	if b.Rules == nil {
		return PriorityNormal
	}
	return b.Rules.Priority
}

// Queue is where the boot's work waits: the tier of its class.
func (b *Boot) Queue() QueueName { return TierName(b.BaseQueue(), b.Priority()) }

// BaseQueue is the queue that the boot's is a tier of: that of normal work of the same flavor and choices.
func (b *Boot) BaseQueue() QueueName { return NameQueue(b.Flavor, b.With) }
