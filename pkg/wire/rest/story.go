// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Story is what became of one instance, and who asked for what.
type Story struct {
	ID      compute.InstanceID `json:"id"`
	Project compute.Project    `json:"project"`
	Name    string             `json:"name"`
	Items   []StoryStep        `json:"items" nullable:"false" doc:"The oldest first."`
	Asked   string             `json:"asked" enum:"complete,partly,off" doc:"Whether the steps of source audit are all that there are. partly: the audit has too many entries since then, and those of the first minutes and the newest were looked at. off: this node keeps no audit, so nobody knows who asked."`
}

// What the record of an instance says of its life. The steps of source audit have operations of this document.
const (
	StepAccepted = "accepted"       // the request was safe
	StepAdmitted = "admitted"       // a conductor admitted it
	StepFailed   = "attempt-failed" // with host, attempt and message
	StepGranted  = "granted"        // the current attempt, or the last: from then on it may have run on the host
	StepActive   = "active"         // it first ran
	StepNoticed  = "noticed"        // its place is taken for other work
	StepTaken    = "preempted"      // its machine was gone, and it waits in its queue again
	StepAsked    = "power-asked"    // a power command that is not answered yet
	StepAnswered = "power-answered" // the last one that was
	StepDeleted  = "deleted"
	StepError    = "error"
)

// StoryStep is one of them.
type StoryStep struct {
	At      time.Time       `json:"at" doc:"By the clock of the conductor; accepted, and what is of the audit, by that of an API node."`
	Source  string          `json:"source" enum:"record,audit"`
	What    string          `json:"what" doc:"Of the record: accepted, admitted, attempt-failed, granted, active, noticed, preempted, power-asked, power-answered, deleted or error. Of the audit: the operation." example:"delete-instance"`
	Who     string          `json:"who,omitempty" doc:"Of the audit: the caller's name." example:"token:ci-bot"`
	Status  int32           `json:"status,omitempty" doc:"Of the audit: how the call was answered." example:"202"`
	Kind    string          `json:"kind,omitempty" doc:"Of the audit: of the problem of a refusal."`
	Request string          `json:"request,omitempty" doc:"Of the audit: X-Request-Id."`
	Host    compute.HostID  `json:"host,omitempty"`
	Attempt compute.Attempt `json:"attempt,omitempty"`
	Op      string          `json:"op,omitempty" enum:"stop,start,reboot" doc:"Of power-asked and power-answered."`
	Message string          `json:"message,omitempty" doc:"Why, for people."`
	Reason  *Reason         `json:"reason,omitempty" doc:"Of error and deleted."`
}

// LifeOf is what the record of an instance says of its life, the oldest first: at most a step for each attempt, and
// ten more.
func LifeOf(i Instance) []StoryStep {
	var out []StoryStep
	add := func(at time.Time, s StoryStep) {
		if s.At, s.Source = at, "record"; !at.IsZero() {
			out = append(out, s)
		}
	}
	add(i.AcceptedAt, StoryStep{What: StepAccepted})
	if i.State != State(compute.StateAccepted.String()) && !i.QueuedAt.IsZero() {
		add(i.QueuedAt, StoryStep{What: StepAdmitted})
	}
	for _, f := range i.Failures {
		add(f.At, StoryStep{What: StepFailed, Host: f.Host, Attempt: f.Attempt, Message: f.Message})
	}
	granted := StoryStep{What: StepGranted, Host: i.Host, Attempt: i.Attempt}
	if i.MadeRoom > 0 {
		granted.Message = fmt.Sprintf("preemptible machines that its host had taken away for it: %d", i.MadeRoom)
	}
	add(i.StartingAt, granted)
	if n := i.Notice; n != nil {
		add(n.At, StoryStep{What: StepNoticed, Host: n.Host, Message: n.says()})
		if n.Taken {
			add(n.Over, StoryStep{What: StepTaken, Host: n.Host})
		}
	}
	add(i.ActiveAt, StoryStep{What: StepActive, Host: i.Host})
	if a := i.Answer; a != nil {
		add(a.At, StoryStep{What: StepAnswered, Op: a.Op, Message: a.Failed, Host: i.Host})
	}
	if c := i.Command; c != nil {
		add(c.At, StoryStep{What: StepAsked, Op: c.Op, Host: i.Host})
	}
	end := StoryStep{What: StepDeleted, Reason: i.Reason}
	if i.State == State(compute.StateError.String()) {
		end.What = StepError
	}
	if i.Reason != nil {
		end.Message = i.Reason.Message
	}
	add(i.EndedAt, end)
	slices.SortStableFunc(out, func(a, b StoryStep) int { return a.At.Compare(b.At) })
	return out
}
