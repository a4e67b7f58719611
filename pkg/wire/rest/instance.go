// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// State is an instance's state by its name.
type State string

// Compute is the state in the words of package compute; StateNone for a name
// this version does not know.
func (s State) Compute() compute.State {
	state, err := compute.ParseState(string(s))
	if err != nil {
		return compute.StateNone
	}
	return state
}

// Instance is one requested machine as the API shows it.
type Instance struct {
	ID      compute.InstanceID `json:"id" doc:"A UUID."`
	Project compute.Project    `json:"project"`
	Name    string             `json:"name"`
	State   State              `json:"state" enum:"accepted,queued,starting,active,deleting,deleted,error,unknown" doc:"accepted: the request is safe and not yet decided. unknown: the host that has it is silent."`
	Reason  *Reason            `json:"reason,omitempty" doc:"Why it ended, or why the last attempt did."`
	Waiting *Reason            `json:"waiting,omitempty" doc:"Why it is still queued, as far as is known."`

	Flavor       compute.FlavorName `json:"flavor"`
	With         compute.Choices    `json:"with,omitempty"`
	Queue        compute.QueueName  `json:"queue,omitempty" doc:"Where its work waits or waited."`
	Resources    compute.Resources  `json:"resources,omitempty" doc:"What it uses of a host and of the quota."`
	Image        string             `json:"image,omitempty"`
	Metadata     map[string]string  `json:"metadata,omitempty" doc:"Its labels."`
	SSHKeys      []string           `json:"ssh_keys,omitempty" nullable:"false" doc:"Who may log in."`
	Attempts     compute.Attempt    `json:"attempts,omitempty" doc:"Most tries to build it."`
	OnNoCapacity string             `json:"on_no_capacity,omitempty" enum:"wait,fail"`
	PinnedTo     compute.HostID     `json:"pinned_to,omitempty" doc:"The only host it may be built on."`
	Avoid        []compute.HostID   `json:"avoid,omitempty" nullable:"false"`
	Group        compute.GroupName  `json:"group,omitempty" doc:"The group that it is a member of."`
	Priority     string             `json:"priority,omitempty" enum:"low,high" doc:"Its class; absent: normal."`

	Preemptible *Preemptible            `json:"preemptible,omitempty" doc:"Its machine may be taken away for work of the classes above; absent: it may not."`
	Notice      *Notice                 `json:"notice,omitempty" doc:"Its place is taken for other work; with over, it was, the last time. Absent: it never was."`
	MadeRoom    uint32                  `json:"made_room,omitempty" doc:"How many preemptible machines its host had taken away for it."`
	Reservation compute.ReservationName `json:"reservation,omitempty" doc:"The reservation that it was booted into."`
	In          compute.InstanceID      `json:"in_placeholder,omitempty" doc:"The placeholder of the reservation whose room it has; absent once that has ended."`
	Placeholder *InstancePlaceholder    `json:"placeholder,omitempty" doc:"It has no machine, and holds room for one of a reservation."`

	Set *InstanceSet `json:"set,omitempty" doc:"The set that it was booted in, of which all start or none."`

	Host     compute.HostID  `json:"host,omitempty" doc:"Who has it."`
	Attempt  compute.Attempt `json:"attempt,omitempty" doc:"The current try, from 1."`
	Failures []Failure       `json:"failures,omitempty" nullable:"false" doc:"How earlier attempts ended."`
	Power    string          `json:"power,omitempty" enum:"running,stopped,paused" doc:"As the host last said."`
	Stopped  *Reason         `json:"stopped,omitempty" doc:"Why it does not run, as the host last said: StoppedByCommand, GuestShutdown, GuestPanicked, MachineKilled, HostRestarted, HypervisorError, StoppedUnknown."`
	Command  *PowerCommand   `json:"command,omitempty" doc:"The last stop, start or reboot, until its host has answered."`
	Answer   *PowerAnswer    `json:"answer,omitempty" doc:"How the last stop, start or reboot that was answered ended."`
	Delete   bool            `json:"delete,omitempty" doc:"It was asked to be deleted."`
	Version  compute.Version `json:"version,omitempty" doc:"Rises with every change of its record; absent while accepted."`

	AcceptedAt time.Time `json:"accepted_at,omitzero" doc:"When an API node took the request."`
	QueuedAt   time.Time `json:"queued_at,omitzero" doc:"When it was admitted."`
	NextTryAt  time.Time `json:"next_try_at,omitzero" doc:"When the next attempt is due, after one failed."`
	Deadline   time.Time `json:"deadline,omitzero" doc:"Queued longer than this, it ends in error."`
	StartingAt time.Time `json:"starting_at,omitzero" doc:"When a host was told to launch it."`
	ActiveAt   time.Time `json:"active_at,omitzero" doc:"When it first ran."`
	EndedAt    time.Time `json:"ended_at,omitzero" doc:"When it became deleted or error."`
	ChangedAt  time.Time `json:"changed_at,omitzero" doc:"When its record last changed. A change of the name or the metadata leaves it; version rises with each."`
}

// InstanceSet is a set of instances that start all or not at all.
type InstanceSet struct {
	ID      compute.InstanceID `json:"id" doc:"The instance of its first boot."`
	Size    uint32             `json:"size" doc:"How many instances it has."`
	Granted bool               `json:"granted" doc:"Each of them was granted a host at the same moment; until then none starts."`
}

// Failure is how one attempt ended.
type Failure struct {
	Host    compute.HostID  `json:"host"`
	Attempt compute.Attempt `json:"attempt"`
	Class   string          `json:"class" doc:"Whose fault it was: host, timeout, request, unknown, unknown-claim."`
	Message string          `json:"message,omitempty"`
	At      time.Time       `json:"at"`
}

// PowerCommand is a stop, start or reboot under way.
type PowerCommand struct {
	Op      string            `json:"op" enum:"stop,start,reboot"`
	Command compute.CommandID `json:"command" doc:"The id it was given."`
	Hard    bool              `json:"hard,omitempty" doc:"Without asking the guest."`
	At      time.Time         `json:"at,omitzero" doc:"When the conductor read it."`
}

// PowerAnswer is how a stop, start or reboot ended.
type PowerAnswer struct {
	Op      string            `json:"op" enum:"stop,start,reboot"`
	Command compute.CommandID `json:"command" doc:"The id it was given."`
	Failed  string            `json:"failed,omitempty" doc:"Why it was not done; absent: it was."`
	At      time.Time         `json:"at,omitzero" doc:"When the conductor read the answer."`
}

// PowerWish is what to do with a machine's power, in addition to the operation.
type PowerWish struct {
	Hard    bool              `json:"hard,omitempty" doc:"stop and reboot: without asking the guest."`
	Command compute.CommandID `json:"command,omitempty" maxLength:"128" doc:"An id of your own for this command; a repeat of the last command with the same id does nothing. Left out, one is made." example:"r-81"`
}

// PowerAsked says that a command is on its way.
type PowerAsked struct {
	ID      compute.InstanceID `json:"id" doc:"Of the instance."`
	Op      string             `json:"op" enum:"stop,start,reboot"`
	Command compute.CommandID  `json:"command" doc:"Carried out once the instance's answer has this id."`
}

// Console is a part of what a machine printed on its serial console.
type Console struct {
	Instance compute.InstanceID `json:"instance"`
	Host     compute.HostID     `json:"host" doc:"Who has it."`
	Offset   int64              `json:"offset" doc:"Of data's first byte, of all that was ever printed; later than asked for where the oldest part is not kept."`
	Data     []byte             `json:"data" doc:"In base64; empty at the end."`
	End      int64              `json:"end" doc:"How much was ever printed."`
}

// FromConsole shows a host's answer.
func FromConsole(c compute.Console) Console {
	data := c.Data
	if data == nil {
		data = []byte{}
	}
	return Console{Instance: c.Instance, Host: c.Host, Offset: c.Offset, Data: data, End: c.End}
}

// Instances is one page of a list.
type Instances struct {
	Items []Instance `json:"items" nullable:"false"`
	Next  string     `json:"next,omitempty" doc:"Give this as marker to get the next page; absent on the last."`
}

// FromInstance shows a record. The state and the waiting reason may have to be
// amended by what the record does not know.
func FromInstance(i *compute.Instance) Instance {
	out := FromBoot("", "", i.Boot).instance()
	out.ID, out.Project, out.Version = i.ID, i.Project, i.Version
	out.State, out.Reason = State(i.State.String()), FromReason(i.Reason)
	out.Queue, out.Resources, out.Set = i.Queue, i.Resources, fromSet(i.Boot.Set())
	out.In, out.Placeholder = i.Boot.In().ID, fromPlaceholder(i.Boot.Placeholder())
	out.Host, out.Attempt, out.Delete = i.Host, i.Attempt, i.Delete
	out.Power, out.Stopped = FromPower(i.Power), FromReason(i.Stopped)
	out.Command, out.Answer = FromCommand(i.Command), FromAnswer(i.Answer)
	out.Notice, out.MadeRoom = FromNotice(i.LastNotice(), i.Boot.Preemptible().Then), i.MadeRoom()
	for _, f := range i.Failures {
		out.Failures = append(out.Failures, Failure{
			Host: f.Host, Attempt: f.Attempt, Class: f.Class.String(), Message: f.Message, At: f.At.UTC(),
		})
	}
	out.AcceptedAt, out.QueuedAt, out.Deadline = utc(i.AcceptedAt), utc(i.QueuedAt), utc(i.Deadline)
	out.StartingAt, out.ActiveAt = utc(i.StartingAt), utc(i.ActiveAt)
	out.EndedAt, out.ChangedAt = utc(i.EndedAt), utc(i.ChangedAt)
	if i.State == compute.StateQueued && i.Attempt > 1 {
		out.NextTryAt = utc(i.PublishAt)
	}
	return out
}

// FromPower shows what a machine does; "" where nobody knows.
func FromPower(p compute.PowerState) string {
	if p == compute.PowerUnknown {
		return ""
	}
	return p.String()
}

// FromCommand shows a power command; nil stays nil.
func FromCommand(c *compute.PowerCommand) *PowerCommand {
	if c == nil {
		return nil
	}
	return &PowerCommand{Op: c.Op.String(), Command: c.Command, Hard: c.Hard, At: utc(c.At)}
}

// FromAnswer shows how a power command ended; nil stays nil.
func FromAnswer(a *compute.PowerAnswer) *PowerAnswer {
	if a == nil {
		return nil
	}
	return &PowerAnswer{Op: a.Op.String(), Command: a.Command, Failed: a.Failed, At: utc(a.At)}
}

// FromRequest shows a boot request that nobody has decided yet.
func FromRequest(r *compute.Request) Instance {
	out := FromBoot("", "", r.Boot.WithDefaults()).instance()
	out.ID, out.Project = r.Instance, r.Project
	out.State = State(compute.StateAccepted.String())
	out.Queue = r.Boot.Queue()
	out.AcceptedAt, out.Set = utc(r.At), fromSet(r.Boot.Set())
	out.Placeholder = fromPlaceholder(r.Boot.Placeholder())
	return out
}

func fromSet(s compute.Set) *InstanceSet {
	if s.ID == "" {
		return nil
	}
	return &InstanceSet{ID: s.ID, Size: s.Size, Granted: s.Granted}
}

// instance is the part of an instance that the request for it says.
func (b Boot) instance() Instance {
	return Instance{
		Name: b.Name, Flavor: b.Flavor, With: b.With, Image: b.Image, Metadata: b.Metadata, SSHKeys: b.SSHKeys,
		Attempts: b.Attempts, OnNoCapacity: b.OnNoCapacity, PinnedTo: b.Host, Avoid: b.Avoid,
		Group: b.Group, Priority: b.Priority, Preemptible: b.Preemptible, Reservation: b.Reservation,
	}
}

func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}
