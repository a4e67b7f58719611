// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
)

// madeRoom is what the host has done so that work of the queue finds room for which it saves.
type madeRoom struct {
	asked uint32            // machines whose places were asked for
	took  compute.QueueName // of which work was taken last
	at    time.Time
}

// tookLately is how long no machine goes for a queue after work of it was taken: until the queue manager has heard of that,
// it may say that the host should make room for it.
const tookLately = 30 * time.Second

// makeRoom asks for the places of preemptible machines so that one machine of a queue has room: of as few as will do, beside
// those that go already. It is asked again whenever the queue manager says again that the host should; what was asked for
// once is then said again, and no other machine goes in its stead.
func (l *loop) makeRoom(q compute.QueueName, now time.Time) {
	saving := l.fetches.Saving(now)
	if saving.For() != q || len(saving.Needs) == 0 || !l.offers(now) || l.made.took == q && now.Sub(l.made.at) < tookLately {
		return
	}
	kept, may, wanted := l.tasks.movable()
	for _, id := range wanted {
		l.step(id, task.Preempt{For: q})
	}
	for _, id := range l.view.host.Preempt(kept, may, saving.Needs) {
		l.log.Info("a preemptible machine goes, so that other work finds room", zap.String("instance", string(id)),
			zap.String("for queue", string(q)))
		l.made.asked++
		l.o.Metrics.preempted()
		l.step(id, task.Preempt{For: q})
	}
}

// tookFor says that work of a queue was taken, and how many machines went for it.
func (l *loop) tookFor(q compute.QueueName) (made uint32) {
	if l.fetches.Saving(time.Now()).For() == q {
		made = l.made.asked
	}
	l.fetches.Took(q) // which ends the saving
	l.made.took, l.made.at = q, time.Now()
	return made
}

// movable sorts what the host has: what stays, what may be taken away, and of what goes already that which runs still.
func (ts tasks) movable() (kept []offer.Held, may []offer.Movable, wanted []compute.InstanceID) {
	for id, t := range ts {
		held := offer.Held{Resources: t.Resources, Place: t.Place}
		switch {
		case t.Stage == task.Ending, ts.stays(t.In): // that room stays held, whether or not this one goes
		case t.Stage == task.Running && t.Wanted:
			wanted = append(wanted, id)
		case movable(t):
			may = append(may, offer.Movable{Held: held, Instance: id, Since: t.Since})
		default:
			kept = append(kept, held)
		}
	}
	return kept, may, wanted
}

// movable says whether a machine may be taken away, and is not yet.
func movable(t *task.Task) bool {
	return t.Stage == task.Running && t.Preemptible && !t.Wanted && !t.Placeholder
}

// preemptible is what the machines have together that may be taken away.
func (ts tasks) preemptible() compute.Resources {
	sum := compute.Resources{}
	for _, t := range ts {
		if movable(t) {
			sum.Add(t.Resources)
		}
	}
	return sum
}

// madeRoom notes how many machines went for one that was taken.
func (ts tasks) madeRoom(id compute.InstanceID, n uint32) {
	if t := ts[id]; t != nil {
		t.MadeRoom = n
	}
}
