// SPDX-License-Identifier: Apache-2.0

package save

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Rules are the numbers of savings.
type Rules struct {
	After time.Duration // a build has waited so long before a host saves for it; 0: none ever does
	For   time.Duration // a host saves so long at most
	Share int           // one host in so many saves at a time at most
	Each  int           // so many hosts save for one queue at most, one for each build that has waited
}

// DefaultRules are what was measured best (docs/large.md).
func DefaultRules() Rules {
	return Rules{After: 30 * time.Second, For: 10 * time.Minute, Share: 10, Each: MostBuilds}
}

// MostPause bounds how long a queue pauses after savings in vain.
func (r Rules) MostPause() time.Duration { return mostPauses * r.For }

const (
	mostPauses = 8
	// Every is how often savings are looked at while work waits.
	Every = time.Second
	// toldEvery is how often a host is told again that it saves: what it was told may be lost, and an agent that was
	// restarted has forgotten it.
	toldEvery = 15 * time.Second
	// mostUnsaid is how often a host is told that does not say that it saves.
	mostUnsaid = 3
	// lookedEvery is how long a queue is left alone for which no host was found. To look at all hosts for each queue
	// each time would be too much where many queues have work that fits nowhere.
	lookedEvery = 10 * time.Second
	// mostAsked bounds for how many late builds that must not run everywhere all hosts are looked through at once: those
	// of two queues at least.
	mostAsked = 2 * MostBuilds
	// mostLooked bounds for how many queues hosts are looked for at once.
	mostLooked = 8
)

// Build is one that waits in a queue.
type Build struct {
	Key   string
	Class compute.Priority
	Not   func(compute.HostID) bool // it must not run there, or rather should not; nil: it may anywhere
	// Placeholder says that it is room of a reservation, which may stand empty: no machine is taken away for it.
	Placeholder bool
}

// May says whether it may run on a host.
func (b Build) May(h compute.HostID) bool { return b.Not == nil || !b.Not(h) }

// World is what is known of queues and hosts at the moment.
type World interface {
	// Waiting calls each with every queue in which work lies at a moment that no host has, and with the first of its
	// builds in their order: MostBuilds, and as many more as hosts say that they take. Those are taken, too, but nobody
	// has claimed them, and which they are nobody says. The queues come in another order each time.
	Waiting(now time.Time, each func(q compute.QueueName, first []Build, taken int))
	// FitsSome says whether some host, none of which not is true, can take a queue's work now; nil: it is true of none.
	FitsSome(q compute.QueueName, not func(compute.HostID) bool) bool
	// TakesWork is how many hosts there are that take work.
	TakesWork() int
	// Full calls each with every host that can be told to save, would fit the queue's work when emptier, and saves for
	// none; missing is how much of what is needed is not free there, of the class of which most is: from 0 to 1.
	Full(q compute.QueueName, each func(h compute.HostID, missing float64))
	// IsFull says whether a queue's work does not fit a host now, and would when it is emptier.
	IsFull(q compute.QueueName, h compute.HostID) bool
	// MakesRoom says whether a host can be told to have preemptible machines taken away, and the queue's work would fit it
	// then.
	MakesRoom(q compute.QueueName, h compute.HostID) bool
	// Saves is what a host saves for by its last beacon; nil: nothing. There is no such host, or it takes no work, if
	// known is false.
	Saves(h compute.HostID) (s *compute.Saving, known bool)
	// Restarts says whether a host's agent has ended, or has begun and takes no work yet, and was heard of lately.
	Restarts(h compute.HostID) bool
	// EachSaver calls each with every host that says that it saves, and when it was heard.
	EachSaver(each func(h compute.HostID, says compute.Saving, heard time.Time))
}

// MostBuilds is how many builds of a queue are looked at.
const MostBuilds = 32

// Told is what one host is told.
type Told struct {
	Host compute.HostID
	Look compute.Look
}
