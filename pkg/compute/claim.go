// SPDX-License-Identifier: Apache-2.0

package compute

import "time"

// Report is a record of the reports topic: what an agent says about an
// instance, or (ReportHello) about itself. Host, Attempt and Claim must all be
// the instance record's for the report to change anything.
type Report struct {
	Op       ReportOp
	Host     HostID
	Project  Project
	Instance InstanceID
	Attempt  Attempt
	Claim    ClaimID
	Class    FailureClass // ReportFailed; ReportClaim with a Message: what went wrong as it was prepared
	Power    PowerState   // ReportStarted, ReportChanged
	Stopped  *Reason      // ReportStarted, ReportChanged: why it does not run; nil: it runs, or nobody knows
	Message  string       // ReportFailed, ReportReturned; ReportClaim of one of a set: why it could not be prepared; ReportChanged: why the command failed. For the operator
	Command  CommandID    // ReportChanged: the command that did it, if one did
	Version  Version      // ReportChanged: of the command that did it
	Journal  JournalID    // of the agent that says it; empty: one of an older version, but in ReportHello
	Fence    FenceEpoch   // ReportClaim: of the last fence that the host has acted on
	Started  time.Time    // when the agent that says it began; with Journal it is its Voice
	Queue    QueueName    // ReportPreempt: of the work that is to have the place
	MadeRoom uint32       // ReportClaim: so many machines were taken away for it here
	At       time.Time
	Trace    Trace
}

// Voice is the process that says it; without a journal it is not known.
func (r Report) Voice() Voice { return Voice{r.Journal, r.Started} }

// ReportOp is what a report says.
type ReportOp uint8

// The reports. A claim is repeated until granted or denied, the others until
// Kafka has them, and started once a day.
const (
	ReportNone     ReportOp = iota
	ReportClaim             // prepared and ready here
	ReportStarted           // it runs; also the answer yes to confirm
	ReportFailed            // it does not run here, for certain
	ReportReturned          // given back before any grant was acted upon
	ReportGone              // destroyed, or never known here
	ReportChanged           // its power state changed
	ReportHello             // this agent begins a new journal
	ReportPinned            // a pinned build cannot be taken, or hosts pass one of a group on to each other: Message says why
	ReportPreempt           // the place of a preemptible machine is wanted for work of Queue
)

var reportOpNames = [...]string{
	"none", "claim", "started", "failed", "returned", "gone", "changed", "hello", "pinned-unavailable",
	"preempt",
}

// String is the report's name in logs and metric labels.
func (o ReportOp) String() string { return name(reportOpNames[:], o, "report") }

// Check refuses a report that can never be right.
func (r Report) Check() error {
	if err := r.Host.Check(); err != nil {
		return err
	}
	if r.Op == ReportHello {
		return nil
	}
	if r.Op == ReportNone || r.Op > ReportPreempt {
		return Invalid("report", r.Op.String(),
			"this version knows claim, started, failed, returned, gone, changed, hello, pinned-unavailable and preempt")
	}
	if err := r.Project.Check(); err != nil {
		return err
	}
	return r.Instance.Check()
}

// Command is a record of a host's stream: what the conductor (or an API node,
// for the host as a whole) tells one agent. Every command is idempotent.
type Command struct {
	Op       CommandOp
	Project  Project
	Instance InstanceID
	Attempt  Attempt
	Claim    ClaimID       // grant, deny, confirm, delete: whose claim is meant
	Reason   *Reason       // deny: why
	Build    *Build        // CommandBuild
	Power    *PowerCommand // CommandPower
	Desired  *HostDesired  // CommandHost
	Console  *ConsoleAsk   // CommandConsole
	Look     *Look         // CommandLook
	Journal  JournalID     // grant, confirm: of the agent whose claim was granted; empty: not known
	Queue    QueueName     // confirm: the instance's, for a host that has forgotten it; empty: not said
	Group    GroupName     // confirm, with Queue: the group that it is a member of; empty: of none
	In       InPlaceholder // confirm: whose room it has, for a host that has forgotten it
	// Preemptible is of confirm, with Queue: its machine may be taken away for other work
	Preemptible bool
	TimesTaken  uint32  // beside it: how often it was
	Noticed     bool    // beside it: the machine has notice, and goes
	Voices      []Voice // CommandTwins; CommandBegun, CommandAlone: the one that is meant
	At          time.Time
	Trace       Trace
}

// CommandOp is what a command says.
type CommandOp uint8

// The commands. Only CommandDelete and CommandFenced destroy a machine that
// had a grant; CommandDeny only undoes a Prepare.
const (
	CommandNone    CommandOp = iota
	CommandGrant             // launch this claim's machine
	CommandDeny              // undo this claim's Prepare
	CommandConfirm           // say whether this claim's machine is there
	CommandBuild             // pinned work: an offer to this host alone
	CommandDelete            // destroy this attempt's machine
	CommandPower             // stop, start or reboot it
	CommandHost              // what the operator wants of this host
	CommandFenced            // this host was declared dead: destroy all it has from before
	CommandConsole           // read a part of its serial console
	CommandLook              // look at a queue: work that fits lies in it
	CommandTwins             // two agents speak for this host, as Voices says: neither may take anything
	CommandBegun             // an agent has begun under this host's name: every other one says a beacon
	CommandAlone             // an agent is alone under this host's name: it may take work
)

// AboutHost says whether a command is about the host, and about no instance.
func (o CommandOp) AboutHost() bool {
	switch o {
	case CommandHost, CommandFenced, CommandLook, CommandTwins, CommandBegun, CommandAlone:
		return true
	}
	return false
}

// Look is the queue manager's hint that a queue has, or will soon have, work that
// fits a host: it *rings* the host. A ring that is lost, late or wrong costs time
// and nothing else.
type Look struct {
	Queue QueueName
	Hold  time.Duration // how long to wait on the queue; 0: look, and again as long as work comes
	Save  time.Duration // how long to save room for the queue's work, from now on; 0: nothing is said of that
	Spend bool          // the host need not save room for the queue any more, whatever Save says
	// Preempt is of Save: the host may have preemptible machines taken away for it, as few as will do.
	Preempt bool
	// Oldest is since when the oldest work in the queue waits, as the queue manager knows it; zero: it does not say.
	Oldest time.Time
}

// MaxSave bounds how long a host saves room for a queue because it was told once.
const MaxSave = 24 * time.Hour

// MaxHold bounds how long a host waits on a queue because it was rung once. A
// queue manager that means longer says so again.
const MaxHold = time.Minute

// Check refuses a look that can never be right.
func (l Look) Check() error {
	switch {
	case l.Queue == "":
		return Invalid("look.queue", "", "name the queue to look at")
	case l.Hold < 0 || l.Hold > MaxHold:
		return Invalid("look.hold", l.Hold.String(), "give 0 to "+MaxHold.String())
	case l.Save < 0 || l.Save > MaxSave:
		return Invalid("look.save", l.Save.String(), "give 0 to "+MaxSave.String())
	}
	return nil
}

var commandOpNames = [...]string{
	"none", "grant", "deny", "confirm", "build", "delete", "power", "host", "fenced", "console", "look", "twins",
	"begun", "alone",
}

// String is the command's name in logs.
func (o CommandOp) String() string { return name(commandOpNames[:], o, "command") }
