// SPDX-License-Identifier: Apache-2.0

package compute

import "time"

// Instance is the truth about one requested machine: the record of the
// instances topic, written by the one conductor that owns its project.
//
// Invariants: Version rises by one with every change. Host, Claim and Fence are set
// in starting and active, and in deleting and error where a host had it, and
// empty in queued. Attempt rises, never falls.
type Instance struct {
	ID      InstanceID
	Project Project
	Version Version
	State   State
	Power   PowerState // as the host last said
	Delete  bool       // asked to be deleted
	Confirm bool       // its host lost its memory and was asked whether it still has it; until answered
	Attempt Attempt    // the current try, from 1
	Reason  *Reason    // why it ended, or why the last attempt did; nil if all is well

	Boot      Boot        // as asked for, defaults filled in, and as changed since
	BootedAs  Fingerprint // of the name and metadata it was booted with, since they were changed; 0: they never were
	Queue     QueueName   // where its work waits; set for pinned ones too
	Resources Resources   // what it uses of a host, and of the quota
	Required  []Trait
	Forbidden []Trait

	Host      HostID     // the host that has it; from starting on it may be running there
	Claim     ClaimID    // the granted claim of the current attempt
	Fence     FenceEpoch // what that claim carried
	Journal   JournalID  // of the agent that has it; empty: one of an older version
	Failures  []Failure
	Stopped   *Reason       // why it does not run, as the host last said; nil: it runs, or nobody knows
	Command   *PowerCommand // the user's last power command, until answered
	Answer    *PowerAnswer  // how the last one that was answered ended
	PublishAt time.Time     // queued: when the work is due in its queue (back-off)

	AcceptedAt time.Time // when an API node took the request
	QueuedAt   time.Time // when the conductor admitted it
	Deadline   time.Time // queued longer than this: error
	StartingAt time.Time // when its claim was granted; zero before
	ActiveAt   time.Time // when it first ran; zero before
	EndedAt    time.Time // when it became deleted or error
	ChangedAt  time.Time // when this version was written; another name or other metadata leave it as it was

	Trace Trace // of the boot request
}

// State is where an instance is in its life.
//
//	(request) ─▶ queued ──claim──▶ starting ──started──▶ active
//	    │         ▲ │ │               │ │                  │
//	    │         │ │ └─delete─┐      │ └──delete─┐        │delete
//	    │refused  └─┼──────────┼─fail─┘           ▼        ▼
//	    │           │deadline, │               deleting ◀──┘
//	    ▼           ▼attempts  ▼                  │gone
//	  error ◀───────┘       deleted ◀─────────────┘
//
// A host lost for good moves starting to queued (next attempt) and active to
// error or queued, by an operator's word only. An instance in error can be
// deleted. Nothing leaves deleted.
type State uint8

// The states. StateAccepted is shown only: an API node has the request, the
// conductor has not yet read it. StateUnknown is shown only: the host that has
// the instance is silent.
const (
	StateNone State = iota
	StateQueued
	StateStarting
	StateActive
	StateDeleting
	StateDeleted
	StateError
	StateAccepted
	StateUnknown
)

var stateNames = [...]string{
	"none", "queued", "starting", "active", "deleting", "deleted", "error", "accepted", "unknown",
}

// String is the state's name in APIs and metric labels.
func (s State) String() string { return name(stateNames[:], s, "state") }

// ParseState reads what String wrote.
func ParseState(s string) (State, error) {
	for i, n := range stateNames {
		if n == s && i > 0 {
			return State(i), nil
		}
	}
	return StateNone, Invalid("state", s,
		"give one of accepted, queued, starting, active, deleting, deleted, error, unknown")
}

// States are all that an instance may be shown in.
func States() []State {
	return []State{
		StateAccepted, StateQueued, StateStarting, StateActive, StateDeleting, StateDeleted, StateError, StateUnknown,
	}
}

// Counts says whether an instance in this state uses its project's quota.
func (s State) Counts() bool {
	return s == StateQueued || s == StateStarting || s == StateActive || s == StateDeleting
}

// OnHost says whether, in this state, the machine may exist on its host.
func (s State) OnHost() bool { return s == StateStarting || s == StateActive || s == StateDeleting }

// Ended says whether the instance will never run (again).
func (s State) Ended() bool { return s == StateDeleted || s == StateError }

// PowerState is what a machine on a host is doing.
type PowerState uint8

// The power states.
const (
	PowerUnknown PowerState = iota
	PowerRunning
	PowerStopped
	PowerPaused
)

var powerStateNames = [...]string{"unknown", "running", "stopped", "paused"}

// String is the power state's name in APIs.
func (p PowerState) String() string { return name(powerStateNames[:], p, "power state") }

// PowerStates are all of them.
func PowerStates() (all []PowerState) {
	for p := range powerStateNames {
		all = append(all, PowerState(p))
	}
	return all
}

// PowerCommand is a user's wish about an active machine.
type PowerCommand struct {
	Op      RequestOp // OpStop, OpStart or OpReboot
	Command CommandID // a reboot with the same id is done once
	Hard    bool
	Version Version // of the instance record that made it; agents ignore older ones
	At      time.Time
	Grace   time.Duration // what the guest gets to stop, if that is more than its host gives
	// Journal is that of the agent of which a reboot is asked: an agent with another one does not do it, for that one
	// may have. Empty: any does it, as for versions that do not know this.
	Journal JournalID
}

// RebootUnknown is why a reboot is answered as failed that an agent may have done before it lost its journal.
const RebootUnknown = "its host has lost its journal: whether it was done, nobody knows"

// PowerAnswer is how a power command ended.
type PowerAnswer struct {
	Op      RequestOp
	Command CommandID
	Failed  string // why it was not done, or may not have been; empty: it was
	At      time.Time
}

// Commanded says whether a power command is under way, or was the last that was
// answered, and what it was for. An empty id is no command's.
func (i *Instance) Commanded(c CommandID) (op RequestOp, was bool) {
	switch {
	case c == "":
	case i.Command != nil && i.Command.Command == c:
		return i.Command.Op, true
	case i.Answer != nil && i.Answer.Command == c:
		return i.Answer.Op, true
	}
	return 0, false
}
