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
		l.reports.tell(a.Report)
	case task.Accept:
		l.answer(p.id, wire.AckAccept)
	case task.Release:
		l.answer(p.id, wire.AckRelease)
	case task.Renew:
		l.answer(p.id, wire.AckRenew)
	case task.Interrupt:
		l.calls.interrupt(p.id)
	case task.Destroy:
		l.calls.start(&call{
			id: p.id, claim: p.claim, stage: task.Ending, within: l.o.Timing.Destroy, do: destroy(l.o.Driver, p.id),
		})
	default:
		l.carryOutFor(l.tasks[p.id], p)
	}
}

// carryOutFor has the hypervisor do something for a task that is still there.
func (l *loop) carryOutFor(t *task.Task, p pending) {
	if t == nil {
		return
	}
	c := &call{id: p.id, claim: p.claim}
	switch p.action.(type) {
	case task.Prepare:
		b := l.builds[p.id]
		if !t.Pinned { // what is for this host alone may be begun anew
			delete(l.builds, p.id)
		}
		c.stage, c.within, c.image = task.Preparing, l.o.Timing.Prepare, b.Image
		c.do = prepare(l.o.Driver, l.o.Keys, *t, b)
	case task.Launch:
		delete(l.builds, p.id)
		c.stage, c.within, c.do = task.Launching, l.o.Timing.Launch, launch(l.o.Driver, *t)
	case task.DoPower:
		c.stage, c.within = task.Running, l.o.Timing.Power
		if t.Command != nil { // else the task has dropped it, and the call ends without being made
			// A guest whose machine is taken away may have been promised more time than this host gives by itself.
			c.within += t.Command.Grace
			c.asks = !t.Command.Hard && t.Command.Op != compute.OpStart
			c.do = power(l.o.Driver, p.id, *t.Command, max(t.Command.Grace, l.o.Timing.StopGrace))
		}
	default:
		return
	}
	l.calls.start(c)
}

// answer acknowledges a queue's record, once it has an answer that stays.
func (l *loop) answer(id compute.InstanceID, how wire.Ack) {
	ref, how := l.refs.answer(id, how, time.Now())
	if how == 0 {
		return
	}
	if how == wire.AckRelease {
		l.a.counts.released.Add(1)
		l.fetches.LeaveAlone(ref.Queue.Name, time.Now())
	}
	l.o.Puller.Ack(ref, how)
}
