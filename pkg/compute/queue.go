// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Queue is one flavor with one choice (or none) on each axis: what it needs of
// a host, and where its work waits. Agents decide by it alone.
type Queue struct {
	Name      QueueName
	Flavor    FlavorName
	Choices   Choices
	Priority  Priority  // the class of its work: it is a tier of the queue without it
	Resources Resources // flavor and choices together
	Required  []Trait   // sorted
	Forbidden []Trait   // sorted
	State     QueueState
	Group     string  // the share group its waiters use
	TopicID   TopicID // the incarnation whose share state is initialised
	Error     string  // why it cannot be made or removed; empty if all is well
}

// CannotBeMade says whether a record only tells why its queue cannot be made: it is closed and has no topic. Such a
// queue never was open.
func (q Queue) CannotBeMade() bool { return q.State == QueueClosed && q.TopicID == "" }

// QueueState is where a queue is in its life.
//
//	(none) ─▶ open ◀─▶ closed ─▶ (none)
//
// A queue is listed only once its topic exists and its share state is
// initialised. Closed takes no new requests; its work drains. It opens again, with
// the same topic, if it is wanted again for the same machines. One exception: a
// queue that cannot be made is listed as closed, without a TopicID, for its
// Error to be seen. There is nothing to wait on, and it opens once it is made.
type QueueState uint8

// The states of a queue.
const (
	QueueOpen   QueueState = iota // takes requests, hosts wait on it
	QueueClosed                   // takes no requests, hosts still wait on it
)

var queueStateNames = [...]string{"open", "closed"}

// String is the state's name in APIs.
func (s QueueState) String() string { return name(queueStateNames[:], s, "queue state") }

// NameQueue is the queue of a flavor with these choices.
func NameQueue(f FlavorName, c Choices) QueueName {
	var b strings.Builder
	b.WriteString(string(f))
	for _, axis := range slices.Sorted(maps.Keys(c)) {
		b.WriteString("." + string(axis) + "-" + string(c[axis]))
	}
	return QueueName(b.String())
}

// Accepts says whether a host with these traits may take the queue's work.
func (q Queue) Accepts(traits map[Trait]bool) bool {
	for _, t := range q.Required {
		if !traits[t] {
			return false
		}
	}
	for _, t := range q.Forbidden {
		if traits[t] {
			return false
		}
	}
	return true
}

// Advice is what the queue manager tells once a tick about the queues that
// changed. It is only advice: everything works, slower, without it.
type Advice struct {
	At    time.Time
	Full  bool // names every queue; otherwise only those that changed
	Rings bool // the queue manager rings hosts for the work of every queue
	About []QueueAdvice
}

// QueueAdvice is the news of one queue.
type QueueAdvice struct {
	Queue    QueueName
	Eligible uint32    // W: hosts that would fit its work now and are offering, but those that all of it avoids
	Waiters  uint32    // how many of them should wait on it though no work lies in it; 0: UsualWaiters
	Depth    uint64    // D: records in it that no host has finished
	Stray    uint64    // of them: those that no instance waits for any more; hosts take and drop them
	Oldest   time.Time // when the oldest of them was published; zero if none
	Hosts    HostCounts
	Late     bool   // work of it has waited for long: a host that has room for it takes it before that of other queues
	Savers   uint32 // hosts that save room for its work
}

// Wanted is how many hosts should wait on the queue, those for the work in it included.
func (a QueueAdvice) Wanted() uint64 { return uint64(cmp.Or(a.Waiters, UsualWaiters)) + a.Depth }

// Queued is how much of what lies in the queue an instance waits for.
func (a QueueAdvice) Queued() uint64 { return a.Depth - min(a.Stray, a.Depth) }

// UsualWaiters is how many hosts should wait on a queue without work in it into which
// little comes.
const UsualWaiters = 8

// UsualShare is how many builds of one project are in a queue at least, unless conductors are told otherwise; the rest
// of what waits is kept in the conductor.
const UsualShare = 16

// AdviceBeat is how often the queue manager gives advice at least, so that hosts know
// that it is there.
const AdviceBeat = 5 * time.Second

// RingsLast is how long after the last advice a host counts on being rung. Advice
// comes every AdviceBeat, and an idle host looks at it every forty seconds.
const RingsLast = time.Minute

// SampleHolds is how long a host waits on the queues that it sampled, if it has room.
const SampleHolds = 15 * time.Second

// HostCounts says what became of every host as seen from one queue. Each host
// counts once, under the first that applies from top to bottom.
type HostCounts struct {
	NeverFits   uint32 // too small even when empty, or lacking a trait
	Silent      uint32 // not heard of
	Disabled    uint32 // an operator took it out
	Draining    uint32 // being emptied
	Quarantined uint32 // stopped offering after failed starts
	Full        uint32 // would fit when emptier
	Avoided     uint32 // fits now, but all that waits is never to be built there
	Eligible    uint32 // fits now
}

// Total is the number of hosts there are.
func (c HostCounts) Total() uint32 {
	return c.NeverFits + c.Silent + c.Disabled + c.Draining + c.Quarantined + c.Full + c.Avoided + c.Eligible
}
