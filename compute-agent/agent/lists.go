package agent

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

func (l *loop) readQueues(recs []wire.Record, end bool) {
	l.clock.Hear(recs, l.o.Now())
	for _, rec := range recs {
		name := compute.QueueName(rec.Key)
		if rec.Value == nil {
			l.forgetQueue(name)
			continue
		}
		q, err := wire.DecodeQueue(rec)
		switch {
		case err != nil:
			l.unreadable(rec, err)
		case q.TopicID == "": // it could not be made: there is nothing to wait on
			l.forgetQueue(q.Name)
		default:
			if _, known := l.pull.queues[q.Name]; !known {
				l.pull.heard[q.Name] = time.Now()
			}
			l.pull.queues[q.Name] = q
		}
	}
	l.pull.listed, l.pull.asked = false, false
	l.pull.queuesEnd = l.pull.queuesEnd || end
	l.pull.changed = true
}

func (l *loop) forgetQueue(q compute.QueueName) {
	delete(l.pull.queues, q)
	delete(l.pull.heard, q)
	l.pull.lots.Forget(q)
	l.pull.rings.Forget(q)
}

func (l *loop) readAdvice(recs []wire.Record, end bool) {
	now := time.Now()
	l.clock.Hear(recs, l.o.Now())
	if end && !l.pull.advised {
		l.pull.advised, l.pull.changed = true, true
	}
	for _, rec := range recs {
		a, err := wire.DecodeAdvice(rec)
		if err != nil {
			l.unreadable(rec, err)
			continue
		}
		l.pull.lots.Hear(a, now)
		l.pull.changed = true
	}
}

func (p *pull) list() []compute.Queue {
	return slices.SortedFunc(maps.Values(p.queues), func(a, b compute.Queue) int { return cmp.Compare(a.Name, b.Name) })
}
