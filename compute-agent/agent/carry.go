// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// carryOut does what was decided, now that the journal has it. What a later
// event of the same iteration has overtaken is not begun.
func (l *loop) carryOut(p pending) {
	switch a := p.action.(type) {
	case task.Report:
		l.tell(a.Report)
	case task.Accept:
		l.answer(p.id, wire.AckAccept)
	case task.Release:
		l.answer(p.id, wire.AckRelease)
	case task.Renew:
		l.answer(p.id, wire.AckRenew)
	case task.Interrupt:
		l.calls.interrupt(p.id)
	case task.Destroy:
		l.start(p, task.Ending, l.o.Timing.Destroy, destroy(l.o.Driver, p.id))
	default:
		l.carryOutFor(l.tasks[p.id], p)
	}
}

// carryOutFor has the hypervisor do something for a task that is still there.
func (l *loop) carryOutFor(t *task.Task, p pending) {
	if t == nil {
		return
	}
	switch p.action.(type) {
	case task.Prepare:
		b := l.builds[p.id]
		delete(l.builds, p.id)
		l.start(p, task.Preparing, l.o.Timing.Prepare, prepare(l.o.Driver, *t, b)).image = b.Image
	case task.Launch:
		l.start(p, task.Launching, l.o.Timing.Launch, launch(l.o.Driver, *t))
	case task.DoPower:
		var do work // none: the task has dropped the command, so the call ends without being made
		if t.Command != nil {
			do = power(l.o.Driver, p.id, *t.Command, l.o.Timing.StopGrace)
		}
		l.start(p, task.Running, l.o.Timing.Power, do)
	}
}

// answer acknowledges a queue's record, once it has an answer that stays.
func (l *loop) answer(id compute.InstanceID, how wire.Ack) {
	ref, ok := l.refs[id]
	if !ok {
		return
	}
	if how != wire.AckRenew {
		delete(l.refs, id)
	}
	if how == wire.AckRelease {
		l.a.counts.released.Add(1)
		l.fetches.LeaveAlone(ref.Queue.Name, time.Now())
	}
	l.o.Puller.Ack(ref, how)
}
