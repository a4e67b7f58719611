package agent

import (
	"time"

	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// carryOut does what was decided, now that the journal has it. What a later
// event of the same turn has overtaken is not begun.
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
		if op := l.ops[p.id]; op != nil && op.cancel != nil {
			op.cancel()
		}
	case task.Prepare:
		image := l.builds[p.id].Image
		l.start(p, task.Preparing, l.o.Timing.Prepare, l.prepare(p.id)).image = image
	case task.Launch:
		l.start(p, task.Launching, l.o.Timing.Launch, l.launch(p.id))
	case task.DoPower:
		l.start(p, task.Running, l.o.Timing.Power, l.power(p.id))
	case task.Destroy:
		l.start(p, task.Ending, l.o.Timing.Destroy, l.destroy(p.id))
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
