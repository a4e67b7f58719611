// SPDX-License-Identifier: Apache-2.0

package task

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Task is one instance on this host. The first part is written to the journal
// whenever it changes: before anything that follows from it is done, or soon
// (Journal, Note); the second is known to this process alone.
type Task struct {
	Instance  compute.InstanceID
	Project   compute.Project
	Name      string
	Queue     compute.QueueName // empty for what was adopted from the hypervisor, until Confirm says it
	Pinned    bool              // came by the host's stream: there is no record to acknowledge
	Attempt   compute.Attempt
	Claim     compute.ClaimID    // made when it was taken, before it is said to anybody
	Fence     compute.FenceEpoch // of the last fence that this host had acted on when it was taken
	Resources compute.Resources
	compute.Place
	Trace compute.Trace
	Group compute.GroupName // it is a member of; empty: none
	Hold  time.Duration     // how long its claim may have to wait for an answer; 0: it is of no set
	// it has no machine, and holds room for the instance that takes it
	Placeholder bool
	In          compute.InPlaceholder // whose room it has; none: its own
	// Preemptible says that its place may be asked for, and Wanted that it was: see Goes. TimesTaken is how often its
	// machine was taken away before this one.
	Preemptible, Wanted bool
	Waits               bool // it stands still, and is let go by a start alone: see Missed
	TimesTaken          uint32
	Stage               Stage
	Broken              *Failure            // Preparing failed; a grant is answered with it
	End                 *End                // Ending only
	Version             compute.Version     // of the highest power command that was begun
	Reboots             []compute.CommandID // begun, and so never again; the newest last

	Power     compute.PowerState // Running: as last seen; Launching: of what stands still until it is let go
	Stopped   Stopped            // Running, and stopped: why, as last seen
	Busy      Operation          // what the hypervisor is doing for it; never two at once
	Command   *compute.PowerCommand
	Next      *compute.PowerCommand // came while Command was carried out
	Rebooted  *Rebooted             // the last reboot that this process has carried out
	Since     time.Time             // Claiming: when the first claim was sent
	Asked     time.Time             // Claiming: when the last was
	SayAt     time.Time             // Running: when started is said again
	WantedAt  time.Time             // Running: when its place was last asked for, or this process began
	Renewed   time.Time             // when the lock of the queue's record was taken or renewed
	Answered  bool                  // the queue's record was accepted or released, or there is none
	Destroyed bool                  // Ending: nothing of it is left on the host
	Told      bool                  // Ending: Kafka has what is to be said about it, or there is nothing
	Tries     int                   // Ending: how often Destroy failed
	RetryAt   time.Time             // Ending: when Destroy is tried again
	Lay       compute.QueueName     // where its record lay; empty: nowhere, or the record is counted as that of another
	MadeRoom  uint32                // so many machines were taken away for it here, which the claim says
}

// Stage is how far a task is; it only moves forward.
//
//	(offer) ─taken─▶ Preparing ─prepared─▶ Claiming ──grant──▶ Launching ─launched─▶ Running
//	                     │  └──failed──▶ (broken) │                │                   │
//	                     │                        │ deny: quiet    │ failed: failed    │ delete, fenced: gone
//	   the agent stops,  │                        │ 60 s, fenced:  │ delete, fenced:   │ the machine is not
//	   fenced: quiet,    │                        │   returned     │   gone            │   there: failed
//	   released          │                        │ delete: gone   │                   │
//	                     │                        │ grant of a     │                   │
//	   delete: gone      │                        │   broken one:  │                   │
//	                     ▼                        ▼   failed       ▼                   ▼
//	                  Ending ──destroyed and told──▶ Over
//
// A preparation that failed claims all the same, so that the failure of this
// attempt on this host is written down and counted: until the claim is granted
// nobody would believe it. A grant then launches nothing.
//
// The journal holds Launching and Running as one stage: which of them it is,
// the hypervisor knows.
type Stage uint8

// The stages.
const (
	Preparing Stage = iota
	Claiming
	Launching
	Running
	Ending
	Over
)

// String is the stage's name in scenarios and logs.
func (s Stage) String() string {
	return [...]string{"preparing", "claiming", "launching", "running", "ending", "over"}[s]
}

// Rebooted is how a reboot ended.
type Rebooted struct {
	Command compute.CommandID
	Failed  string // from the hypervisor: why it was not done; empty: it was
}

// Operation is what the hypervisor is doing for a task.
type Operation uint8

// The operations.
const (
	Idle Operation = iota
	BusyPreparing
	BusyLaunching
	BusyDestroying
	BusyPower
)

// End is how a task ends.
type End struct {
	How     Outcome
	Failure Failure // EndFailed
}

// Outcome is what is told of a task that ends.
type Outcome uint8

// The outcomes.
const (
	EndQuiet    Outcome = iota // nothing: it was denied, or never claimed
	EndReturned                // given back before any grant was acted upon
	EndFailed                  // it certainly does not run
	EndGone                    // destroyed as told, or as a dead host's must be
)

// String is the outcome's name in scenarios.
func (o Outcome) String() string { return [...]string{"quiet", "returned", "failed", "gone"}[o] }

// Failure is why something does not run.
type Failure struct {
	Class   compute.FailureClass
	Message string
}

// Stopped is why a launched machine does not run, or is paused; the zero value while
// it runs.
type Stopped struct {
	Why    compute.ReasonCode
	Detail string // from the hypervisor
}

func (s Stopped) known() bool { return s.Why != "" && s.Why != compute.StoppedUnknown }

// reason is as the report says it.
func (s Stopped) reason(p compute.PowerState) *compute.Reason {
	if p != compute.PowerStopped && p != compute.PowerPaused {
		return nil
	}
	return &compute.Reason{Code: cmp.Or(s.Why, compute.StoppedUnknown), Detail: s.Detail}
}

// Rules are the times a task goes by.
type Rules struct {
	Claim    time.Duration // a claim is repeated after this
	GiveBack time.Duration // a claim without an answer for this long is given back
	Renew    time.Duration // how often the lock of a queue's record is renewed
	Retry    time.Duration // first pause after a Destroy that failed; doubled up to MostRetry
	SayAgain time.Duration // started is said again of a running machine after three quarters of this, or up to all of it
}

// MostRetry bounds the pause between tries to destroy.
const MostRetry = time.Minute

// DefaultRules are those of the protocol.
func DefaultRules() Rules {
	return Rules{
		Claim: 5 * time.Second, GiveBack: 60 * time.Second, Renew: 10 * time.Second, Retry: time.Second,
		SayAgain: 24 * time.Hour,
	}
}

// New makes the task of work that was offered to this host, with the place that it has there.
func New(b compute.Build, place compute.Place, claim compute.ClaimID, fence compute.FenceEpoch, pinned bool) Task {
	t := Task{
		Instance: b.Instance, Project: b.Project, Name: b.Name, Queue: b.Queue, Pinned: pinned, Attempt: b.Attempt,
		Claim: claim, Fence: fence, Resources: b.Resources, Place: place, Trace: b.Trace, Answered: pinned, Hold: b.Hold,
		Placeholder: b.Placeholder, In: b.In, Preemptible: b.Preemptible, TimesTaken: b.TimesTaken,
	}
	if b.Group != nil {
		t.Group = b.Group.Name
	}
	if !pinned {
		t.Lay = b.Queue
	}
	return t
}

// Holds says whether attempt and claim are this task's.
func (t Task) Holds(a compute.Attempt, c compute.ClaimID) bool {
	return t.Attempt == a && t.Claim == c
}

// Granted says whether the machine may have been launched.
func (t Task) Granted() bool { return t.Stage == Launching || t.Stage == Running }

// Building says whether the task is on its way to a running machine.
func (t Task) Building() bool { return t.Stage < Running }

// Due is when the task next needs a Tick; zero: only when something happens.
func (r Rules) Due(t Task) time.Time {
	var due time.Time
	at := func(when time.Time) {
		if due.IsZero() || when.Before(due) {
			due = when
		}
	}
	if !t.Answered && t.Stage <= Claiming {
		at(t.Renewed.Add(r.Renew))
	}
	switch {
	case t.Stage == Claiming:
		at(r.askAgain(t))
		at(r.giveBack(t))
	case t.Stage == Ending && t.Busy == Idle && !t.Destroyed:
		at(t.RetryAt)
	case t.Stage == Running && t.Busy == Idle:
		at(t.SayAt)
	}
	return due
}

// goesWithin is how long after its place was asked for a machine has gone: the longest grace, and time for those who
// decide. One that runs after that was not taken away, as the conductor did not believe the report yet, or its queue
// had gone.
const goesWithin = compute.MaxGrace + 3*time.Minute

// Goes says whether a machine is taken away: its place was asked for, and not so long ago that it would have gone by
// now.
func (t Task) Goes(now time.Time) bool { return t.Wanted && now.Before(t.WantedAt.Add(goesWithin)) }

// sayAt is when started is said again. A conductor sends its delete of a machine that should not be there once, and may
// be killed before that is sent. Each instance has a time of its own in the last quarter, lest an agent that was
// started again says all at once for ever.
func (r Rules) sayAt(id compute.InstanceID, now time.Time) time.Time {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return now.Add(r.SayAgain - r.SayAgain/4*time.Duration(h.Sum32()%1000)/1000)
}

// askAgain is when a claim without an answer is repeated: 5, 10, 20 and 40 s after the first, so
// that a slow conductor is not flooded. One of a set is repeated every 10 s: a conductor that keeps it
// takes a host that does not repeat it for dead.
func (r Rules) askAgain(t Task) time.Time {
	pause := max(r.Claim, t.Asked.Sub(t.Since))
	if t.Hold > 0 {
		pause = min(pause, 2*r.Claim)
	}
	return t.Asked.Add(pause)
}

// giveBack is when a claim without an answer is given back.
func (r Rules) giveBack(t Task) time.Time { return t.Since.Add(max(r.GiveBack, t.Hold)) }

func (r Rules) retry(tries int) time.Duration {
	pause := r.Retry
	for range tries - 1 {
		if pause *= 2; pause >= MostRetry {
			return MostRetry
		}
	}
	return pause
}

// rebooted remembers a reboot; the last of many are enough, because versions
// guard against older ones.
func (t *Task) rebooted(c compute.CommandID) {
	const most = 16
	t.Reboots = append(slices.Clone(t.Reboots), c)
	if len(t.Reboots) > most {
		t.Reboots = t.Reboots[len(t.Reboots)-most:]
	}
}
