// SPDX-License-Identifier: Apache-2.0

package task

import "github.com/berth-project/berth/pkg/compute"

// Event is something that happened to a task.
type Event interface{ event() }

type (
	// Taken begins a task's life here.
	Taken struct{}
	// Prepared says that Prepare succeeded.
	Prepared struct{}
	// PrepareFailed says that Prepare failed, or was interrupted.
	PrepareFailed struct{ Failure Failure }
	// Launched says that Launch succeeded.
	Launched struct{}
	// LaunchFailed says that Launch failed, took too long or was interrupted:
	// whether the machine runs, nobody knows.
	LaunchFailed struct{ Failure Failure }
	// Destroyed says that Destroy succeeded.
	Destroyed struct{}
	// DestroyFailed says that Destroy failed: it is tried again.
	DestroyFailed struct{}
	// PowerDone says how a power command ended. Power is what the machine does
	// now, unknown if nobody can say. Failed is why it was not done; nil: it was.
	PowerDone struct {
		Power   compute.PowerState
		Stopped Stopped
		Failed  *Failure
	}

	// Granted is the conductor's word that this claim's machine may launch.
	Granted struct {
		Attempt compute.Attempt
		Claim   compute.ClaimID
	}
	// Denied is its word that this claim came too late or is not wanted.
	Denied struct {
		Attempt compute.Attempt
		Claim   compute.ClaimID
	}
	// Deleted is its word that this attempt's machine must end.
	Deleted struct {
		Attempt compute.Attempt
		Claim   compute.ClaimID
	}
	// Confirm asks whether this claim's machine is here.
	Confirm struct {
		Attempt compute.Attempt
		Claim   compute.ClaimID
		Queue   compute.QueueName // empty: it is not said what the machine is of
		Group   compute.GroupName
		In      compute.InPlaceholder

		Preemptible, Noticed bool
		TimesTaken           uint32
	}
	// Preempt says that the place of the machine is wanted for work of a queue.
	Preempt struct{ For compute.QueueName }
	// Commanded is a user's wish about a running machine.
	Commanded struct {
		Attempt compute.Attempt
		Claim   compute.ClaimID
		Power   compute.PowerCommand

		OtherJournal bool // it was asked of the agent of another journal than this one
	}
	// Fenced says that this host was declared dead: tasks of a lower epoch end. Those of Epoch or
	// above stay, which matters when an agent with a new journal reads an old "fenced" again.
	Fenced struct{ Epoch compute.FenceEpoch }
	// Missed says that words to this host were removed before they were read: it may have been declared dead. What has
	// not been launched ends; of a machine its conductor says whether it is to be here, once it hears of it.
	Missed struct{}

	// Acked says that Kafka has a report of this task.
	Acked struct {
		Op      compute.ReportOp
		Attempt compute.Attempt
		Claim   compute.ClaimID
	}
	// Seen is what the hypervisor lists for a task that nothing was being done
	// for while it was asked.
	Seen struct {
		There   bool
		Power   compute.PowerState
		Stopped Stopped
	}
	// Tick says that time has passed.
	Tick struct{}
	// Quit says that the agent stops.
	Quit struct{}
	// Stuck says that the hypervisor does not end a call in its time: this task's, or one for whose slot it waits.
	Stuck struct{}
	// GiveUp says that an agent that stops waits for no answer any longer.
	GiveUp struct{}
)

func (Taken) event()         {}
func (Prepared) event()      {}
func (PrepareFailed) event() {}
func (Launched) event()      {}
func (LaunchFailed) event()  {}
func (Destroyed) event()     {}
func (DestroyFailed) event() {}
func (PowerDone) event()     {}
func (Granted) event()       {}
func (Denied) event()        {}
func (Deleted) event()       {}
func (Confirm) event()       {}
func (Preempt) event()       {}
func (Commanded) event()     {}
func (Fenced) event()        {}
func (Missed) event()        {}
func (Acked) event()         {}
func (Seen) event()          {}
func (Tick) event()          {}
func (Quit) event()          {}
func (Stuck) event()         {}
func (GiveUp) event()        {}

// Action is something to do, in the order given. What it leads to comes back as
// an event where one is named.
type Action interface{ action() }

type (
	// Journal makes the task durable before anything after it is done.
	Journal struct{}
	// Note makes the task durable soon, with the next Journal at the latest:
	// nothing waits for it, because Reconcile does without it.
	Note struct{}
	// GiveBack remembers, with the Journal it follows, that this claim was given
	// back, for longer than the task lasts.
	GiveBack struct{}
	// KeepFailure remembers, with the Forget it comes before, why this claim failed, for longer than the task lasts.
	KeepFailure struct{}
	// Prepare begins to prepare the machine: Prepared or PrepareFailed.
	Prepare struct{}
	// Launch begins to launch it: Launched or LaunchFailed.
	Launch struct{}
	// Destroy begins to remove all there is of it: Destroyed or DestroyFailed.
	Destroy struct{}
	// DoPower begins the task's Command: PowerDone.
	DoPower struct{}
	// Interrupt ends what the hypervisor is doing for it; the event of that call comes then.
	Interrupt struct{}
	// Report is said until Kafka has it: Acked. Host and time are added.
	Report struct{ Report compute.Report }
	// Accept acknowledges the queue's record: it leaves the queue.
	Accept struct{}
	// Release gives the queue's record to other hosts at once.
	Release struct{}
	// Renew keeps the queue's record locked.
	Renew struct{}
	// Forget removes the task from the journal.
	Forget struct{}
)

func (Journal) action()     {}
func (Note) action()        {}
func (GiveBack) action()    {}
func (KeepFailure) action() {}
func (Prepare) action()     {}
func (Launch) action()      {}
func (Destroy) action()     {}
func (DoPower) action()     {}
func (Interrupt) action()   {}
func (Report) action()      {}
func (Accept) action()      {}
func (Release) action()     {}
func (Renew) action()       {}
func (Forget) action()      {}
