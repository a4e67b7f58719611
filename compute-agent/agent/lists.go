// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

func (l *loop) readQueues(recs []wire.Record, end bool) {
	l.clock.Observe(recs, l.o.Now())
	for _, rec := range recs {
		name := compute.QueueName(rec.Key)
		if rec.Value == nil {
			l.fetches.RemoveQueue(name)
			continue
		}
		q, err := wire.DecodeQueue(rec)
		if err != nil {
			l.reports.unreadable(rec, err)
			continue
		}
		l.fetches.SetQueue(q, time.Now())
	}
	if end {
		l.fetches.QueuesRead()
	}
}

func (l *loop) readAdvice(recs []wire.Record, end bool) {
	now := time.Now()
	l.clock.Observe(recs, l.o.Now())
	if end {
		l.fetches.AdviceRead()
	}
	for _, rec := range recs {
		a, err := wire.DecodeAdvice(rec)
		if err != nil {
			l.reports.unreadable(rec, err)
			continue
		}
		l.fetches.Advise(a, now)
	}
}
