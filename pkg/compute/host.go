// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"
	"time"
)

// Inventory is what a host has, as its hypervisor says it.
type Inventory struct {
	Totals    Resources // after over-commit ratios
	Reserved  Resources // the share the host keeps for itself
	Traits    []Trait   // sorted
	Unmanaged Resources // used by machines Berth did not start
	Largest   Resources // the most that one machine may have, where that is less than the host has for machines
}

// Beacon is a record of the hosts topic: what an agent says about its host,
// every 15 s and on change. Nobody places by it; it tells operators and lets
// the queue manager give advice.
type Beacon struct {
	Host        HostID
	Journal     JournalID
	Started     time.Time     // when this agent process began, by its host's clock, which may be wrong
	Age         time.Duration // for how long it has run, by one that nobody sets; 0: an older version
	State       HostState
	Reason      string // why it is disabled, draining or quarantined
	DesiredSeen Version
	Inventory   Inventory
	Free        Resources // totals − reserved − all machines − all claims
	Largest     Resources // the most that one machine may have now, where that is less than Free
	Machines    uint32    // ours, running or not
	Building    uint32    // taken, not yet running
	Waiting     []QueueName
	At          time.Time
	Deadline    time.Time // HostDraining: when its operator wants it to be empty; zero: no hurry
	Rings       bool      // the agent knows CommandLook
	Twins       bool      // the agent knows CommandTwins
	Weigher     Weigher   // which hosts it is one of: that are rung more often when emptier, or when fuller
	Warnings    []string  // what does not keep machines apart, or what user data cannot be opened, and what to do
	Reads       Schema    // the newest schema of builds and commands that the agent reads; 0: it does not say
	Asks        bool      // the agent does not know whether it is alone under its name, and takes nothing
	Beside      Voice     // another agent that has begun under its name, as its stream says; zero: none
	Leaves      bool      // the agent has ended: this is its last word
	Opens       []KeyID   // the keys of user data that the agent has
	Mistrusts   []string  // images that have failed there lately, by name: work with them is left to other hosts first
	Saves       bool      // the agent knows Look.Save
	Saving      *Saving   // what it saves room for; nil: nothing
	Preempts    bool      // the agent knows Look.Preempt
	Preemptible Resources // what its machines have together that may be taken away, without those that go already

	// Taking is how many builds of each queue it prepares, or has claimed without an answer yet: they are queued, and have
	// a host. Queues after the first MaxTaking are left out.
	Taking map[QueueName]uint32

	Labels map[string]string // what its operators call it by: lists select by them, and nobody places by them
}

// Saving is what a host saves room for: work of one queue that has waited for long and fits no host. Other work gets
// what is free beside it.
//
// Times are counted from the beacon on, since clocks of hosts may be wrong.
type Saving struct {
	Queue QueueName
	Needs Resources     // of one machine of it
	Age   time.Duration // for how long it has saved
	Left  time.Duration // for how long it does still, at most
	// Preempt says that it may have preemptible machines taken away for it, and that it has the room, or will once those
	// have gone for whose places it has asked.
	Preempt bool
}

// For is the queue that a host saves for; empty: none. It may be called on nil.
func (s *Saving) For() QueueName {
	if s == nil {
		return ""
	}
	return s.Queue
}

// MaxTaking is of how many queues a beacon says how many builds the host takes.
const MaxTaking = 32

// MaxMistrusts is how many images a beacon names as mistrusted.
const MaxMistrusts = 16

// Voice is one process that speaks for a host.
type Voice struct {
	Journal JournalID
	Started time.Time
}

// Same says whether it is the same process.
func (v Voice) Same(w Voice) bool { return v.Journal == w.Journal && v.Started.Equal(w.Started) }

// String is for messages.
func (v Voice) String() string {
	return fmt.Sprintf("journal %s, started %s", v.Journal, v.Started.UTC().Format(time.RFC3339))
}

// Voice is the process that says a beacon.
func (b Beacon) Voice() Voice { return Voice{b.Journal, b.Started} }

// HostState is whether a host offers, and if not, why.
type HostState uint8

// The states of a host. HostSilent is shown only, never sent.
const (
	HostEnabled     HostState = iota // offers what it has
	HostDisabled                     // an operator took it out; machines stay
	HostDraining                     // an operator empties it; no offers
	HostQuarantined                  // starts fail, or it could not begin one; offers again by itself
	HostSilent                       // no sign of life for 60 s
)

var hostStateNames = [...]string{"enabled", "disabled", "draining", "quarantined", "silent"}

// String is the state's name in APIs and metric labels.
func (s HostState) String() string { return name(hostStateNames[:], s, "host state") }

// HostDesired is what an operator wants of a host. The later one in the host's stream counts (decision 0058).
type HostDesired struct {
	State    HostState // HostEnabled, HostDisabled or HostDraining
	Reason   string
	Version  Version   // milliseconds since 1970 when the operator said it; agents of older versions obey the highest
	Deadline time.Time // HostDraining: when it should be empty; zero: no hurry. Nothing is ended by it
}

// SilentAfter is how long a host may say nothing before it is called silent.
const SilentAfter = 60 * time.Second
