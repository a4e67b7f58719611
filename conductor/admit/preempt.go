// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// A host asks for the place of a preemptible machine, and the record decides:
//
//	active ──preempt──▶ active, noticed: its guest is asked to stop ──stopped, or until──▶ its host is told to destroy it
//	                                                        delete:  deleting ──gone──▶ deleted
//	                                                        requeue: active, going ──gone──▶ queued, next attempt
//
// A notice is not taken back: a guest that was stopped does not go on. Only the host's word that it has the machine no more
// lets another have it (I2).

// preempt hears that a host wants the place of a machine for other work.
func (s *step) preempt(e *entry, r compute.Report) {
	if e == nil || !isHolder(e.inst, r) || !s.countsFrom(e, r).IsZero() {
		return
	}
	inst := e.inst
	q, listed := s.view.Queues[r.Queue]
	switch {
	case inst.State != compute.StateActive || inst.Notice() != nil || !listed, s.askedLongAgo(r):
		return
	case inst.Boot.Preemptible().Then == compute.KeepsItsPlace:
		s.reject(fmt.Sprintf("host %s wants the place of %s, which is not preemptible", r.Host, r.Instance))
		return
	case q.Priority == compute.PriorityLow:
		s.reject(fmt.Sprintf("host %s wants the place of %s for queue %s: no place is taken for work of priority low",
			r.Host, r.Instance, r.Queue))
		return
	}
	s.change(e, func(inst *compute.Instance) {
		inst.GiveNotice(&compute.Notice{
			At: s.at(), Until: s.at().Add(inst.Boot.Preemptible().Grace), Host: r.Host, Queue: r.Queue, Class: q.Priority,
			Times: inst.TimesTaken(),
		})
		if inst.Power != compute.PowerStopped || inst.Command != nil {
			inst.Command = &compute.PowerCommand{
				Op: compute.OpStop, Command: ownCommand(inst), Version: inst.Version, At: s.at(),
				Grace: inst.Boot.Preemptible().Grace,
			}
		}
	})
	s.takeWhenDue(e, s.at())
}

// oldAsk is how old a host's wish for a place may be: it says again what it still needs every quarter of a minute.
const oldAsk = time.Minute

// askedLongAgo says whether a report has lain for so long that its host may have no need of the place any more.
func (s *step) askedLongAgo(r compute.Report) bool { return !r.At.IsZero() && s.now.Sub(r.At) > oldAsk }

// noticeDue is when a machine that has a notice is taken away; zero: it has none, or is being taken away.
func noticeDue(inst *compute.Instance) time.Time {
	n := inst.Notice()
	switch {
	case n == nil || n.Going || inst.State != compute.StateActive:
		return time.Time{}
	case inst.Power == compute.PowerStopped && inst.Command == nil: // its stop may have replaced a start that is under way
		return n.At
	}
	return n.Until
}

// takeWhenDue has the machine taken away if its time is over or its guest has stopped; it says whether it did.
func (s *step) takeWhenDue(e *entry, now time.Time) bool {
	due := noticeDue(e.inst)
	if due.IsZero() || due.After(now) {
		return false
	}
	if e.inst.Boot.Preemptible().Then == compute.ThenDelete {
		s.destroy(e, e.inst.Notice().Reason(e.inst.Attempt))
		return true
	}
	n := *e.inst.Notice()
	n.Going = true
	s.change(e, func(inst *compute.Instance) {
		inst.GiveNotice(&n)
		if c := inst.Command; c != nil && c.Grace == 0 && n.Until.After(n.At) { // somebody's, in the place of the stop
			inst.Answer = &compute.PowerAnswer{
				Op: c.Op, Command: c.Command, Failed: "the place of its machine was taken before it was done", At: s.at(),
			}
		}
		inst.Command, inst.Confirm = nil, false
	})
	return true
}

// going says whether the host of an active instance is told to destroy it.
func going(inst *compute.Instance) bool {
	return inst.State == compute.StateActive && inst.Notice() != nil && inst.Notice().Going
}

// requeues says whether an active instance has a notice, and waits in its queue once its host has it no more.
func requeues(inst *compute.Instance) bool {
	return inst.State == compute.StateActive && inst.Notice() != nil &&
		inst.Boot.Preemptible().Then == compute.ThenRequeue
}

// requeuePreempted has what was taken away built anew, with the whole of its waiting time and all its attempts before it, on
// any host: none has failed.
func (s *step) requeuePreempted(e *entry) {
	why := e.inst.Notice().Reason(e.inst.Attempt)
	if !s.buildable(e.inst) {
		why.Detail += fmt.Sprintf("; queue %s was removed, so none can build it again", e.inst.Queue)
		s.end(e, why)
		return
	}
	taken := *e.inst.Notice()
	taken.Taken, taken.Times = true, taken.Times+1
	s.change(e, func(inst *compute.Instance) {
		inst.GiveNotice(&taken)
		requeue(inst, time.Time{})
		inst.Reason, inst.Failures = why, nil
		inst.Deadline = s.at().Add(inst.Boot.Deadline)
	})
}

// loseNoticed ends or moves an active instance whose host died after its machine was given notice; false: it goes as any.
func (s *step) loseNoticed(e *entry, id compute.HostID) bool {
	inst := e.inst
	switch {
	case inst.State != compute.StateActive || inst.Notice() == nil:
		return false
	case inst.Boot.Preemptible().Then == compute.ThenDelete:
		s.destroy(e, inst.Notice().Reason(inst.Attempt))
		s.deleted(e, e.inst.Reason)
	case !s.buildable(inst):
		return false
	default:
		s.evacuate(e, id)
	}
	return true
}

// ownCommand is the id of a power command that has none of its own.
func ownCommand(inst *compute.Instance) compute.CommandID {
	return compute.CommandID(fmt.Sprintf("%s-v%d", inst.ID, inst.Version))
}
