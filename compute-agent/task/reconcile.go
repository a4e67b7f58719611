// SPDX-License-Identifier: Apache-2.0

package task

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Machine is what the hypervisor lists: it keeps instance, attempt and claim with each machine.
type Machine struct {
	Instance  compute.InstanceID
	Project   compute.Project
	Attempt   compute.Attempt
	Claim     compute.ClaimID
	Fence     compute.FenceEpoch // that it was taken under
	Resources compute.Resources
	compute.Place
	Placeholder bool
	Launched    bool // it may have run
	Paused      bool // launched, and stands still until Launch is called again
	Power       compute.PowerState
	Stopped     Stopped
}

// Adopted is a task as it goes on after a restart. Its actions are carried out
// once the host's stream has been read to its end, Journal at once.
type Adopted struct {
	Task    Task
	Actions []Action
}

// Reconcile brings together what the journal remembers and what the hypervisor
// lists, one task for each instance that either knows, in order of instance.
// The list must be an answer: a hypervisor that cannot list knows nothing, and
// nothing follows from it. Of what was granted the journal remembers no more than
// that, as Launching.
//
//	journal \ hypervisor   nothing                 prepared               launched
//	nothing                –                       give back, undo        adopt: started
//	preparing              forget: the queue       undo: the queue        adopt: started
//	                       gave it to another      gave it to another
//	claiming               give back               claim again            adopt: started
//	claiming, broken       claim again             give back, undo        adopt: started
//	granted                failed                  launch                 adopt: started
//	ending                 tell                    destroy, tell          destroy, tell
//
// One that was launched and stands still, because the agent died in between, is
// launched again unless it ends: not before the stream was read to its end, for
// the host may have been declared dead.
//
// What the hypervisor has of another attempt or claim counts as unknown to the journal: the hypervisor is right about
// what is there. A conductor that still asks for the other one is answered by Stranger.
//
// That a claim was sent, and that it was granted, is written without waiting for the disk (Note), so the journal may
// be a stage behind. A
// launched machine is known by the hypervisor. One that was claimed, or granted and not launched yet, is undone or
// claimed again, and the conductor that grants it is told that it is not here, which ends the attempt: nothing is
// lost but that.
func (r Rules) Reconcile(remembered []Task, machines []Machine, now time.Time) []Adopted {
	tasks := map[compute.InstanceID]*Task{}
	for _, t := range remembered {
		tasks[t.Instance] = &t
	}
	there := map[compute.InstanceID]*Machine{}
	for _, m := range machines {
		there[m.Instance] = &m
		if _, ok := tasks[m.Instance]; !ok {
			tasks[m.Instance] = nil
		}
	}
	var out []Adopted
	for _, id := range slices.Sorted(maps.Keys(tasks)) {
		out = append(out, r.reconcile(tasks[id], there[id], now))
	}
	return out
}

func (r Rules) reconcile(t *Task, m *Machine, now time.Time) Adopted {
	s := &step{rules: r, now: now}
	switch {
	case m == nil:
		s.Task = *t
		s.Answered = true
		s.missing()
	case t == nil || !t.Holds(m.Attempt, m.Claim):
		s.Task = stranger(*m)
		s.adopt(*m, true)
	default:
		s.Task = *t
		s.Answered, s.WantedAt = true, s.now
		s.adopt(*m, false)
	}
	return Adopted{Task: s.Task, Actions: s.written()}
}

// stranger is the task of a machine that the journal does not know.
func stranger(m Machine) Task {
	return Task{
		Instance: m.Instance, Project: m.Project, Attempt: m.Attempt, Claim: m.Claim, Fence: m.Fence,
		Resources: m.Resources, Place: m.Place, Placeholder: m.Placeholder,
		Stage: Claiming, Answered: true,
	}
}

// missing goes on with a task that the hypervisor has nothing of.
func (s *step) missing() {
	s.Destroyed = true
	switch {
	case s.Stage == Preparing:
		s.Stage = Over
		s.do(Forget{})
	case s.Stage == Claiming && s.Broken != nil:
		s.Destroyed, s.Since = false, s.now
		s.claim()
	case s.Stage == Claiming:
		s.end(EndReturned, nil)
	case s.Stage == Launching:
		s.end(EndFailed, &Failure{Class: compute.FailureHost, Message: "the machine is not on the host any more"})
		s.conclude()
	default:
		s.resumeEnding()
	}
}

// adopt goes on with a task after its machine was found.
func (s *step) adopt(m Machine, unknown bool) {
	switch {
	case m.Paused && s.Stage != Ending && !s.Waits:
		s.dirty = s.Stage < Launching
		s.Stage, s.Broken, s.Busy = Launching, nil, BusyLaunching
		s.Power, s.Stopped = m.Power, m.Stopped
		s.do(Launch{})
	case m.Launched && s.Stage != Ending:
		s.dirty = s.Stage < Launching
		s.Stage, s.Broken, s.Power, s.Stopped = Running, nil, m.Power, m.Stopped
		s.started()
	case unknown, s.Stage == Claiming && s.Broken != nil:
		s.end(EndReturned, nil)
	case s.Stage == Preparing:
		s.end(EndQuiet, nil)
	case s.Stage == Claiming:
		s.Since = s.now
		s.claim()
	case s.Stage == Launching:
		s.Busy = BusyLaunching
		s.do(Launch{})
	default:
		s.resumeEnding()
	}
}

// resumeEnding goes on with what was written down before the restart.
func (s *step) resumeEnding() {
	s.Told = s.End.How == EndQuiet
	if s.End.How == EndReturned {
		s.do(s.returned())
	}
	if s.Destroyed {
		s.conclude()
		return
	}
	s.destroy()
}

// Past is how a claim ended of which the journal has no task any more.
type Past struct {
	// Why it failed. The conductor may not have believed the first report of it; nil: the claim was given back.
	Failed *Failure
}

// Stranger answers a word of the conductor about something that neither the journal nor the hypervisor knows, or
// knows by another attempt or claim. past is what the journal remembers of this claim; nil: nothing. The caller has
// made sure that the hypervisor has answered. Nil: there is nothing to say.
func Stranger(c compute.Command, past *Past) *compute.Report {
	r := &compute.Report{
		Op: compute.ReportFailed, Project: c.Project, Instance: c.Instance, Attempt: c.Attempt, Claim: c.Claim,
		Class:   compute.FailureUnknownHere,
		Message: "neither the journal nor the hypervisor of this host knows this claim", Trace: c.Trace,
	}
	switch c.Op {
	case compute.CommandGrant, compute.CommandConfirm, compute.CommandPower:
		switch {
		case past == nil:
		case past.Failed != nil:
			r.Class, r.Message = past.Failed.Class, past.Failed.Message
		default:
			r.Op, r.Class = compute.ReportReturned, compute.FailureUnknown
			r.Message = "the claim was given back before it was granted"
		}
	case compute.CommandDelete:
		r.Op, r.Class, r.Message = compute.ReportGone, compute.FailureUnknown, ""
	default:
		return nil
	}
	return r
}
