// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
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

// lateLook is how old a look may be that has machines taken away. Queue managers repeat it for as long as it holds.
const lateLook = 30 * time.Second

// notTooLate takes out of a command what holds no more so long after the log had it: the work for which machines were to
// go may have found a host since then. at is the log's time now.
func notTooLate(c compute.Command, rec wire.Record, at time.Time) compute.Command {
	if c.Look == nil || !c.Look.Preempt || !rec.Logged || at.Sub(rec.Time) <= lateLook {
		return c
	}
	look := *c.Look
	look.Preempt = false
	c.Look = &look
	return c
}

// makeRoom asks for the places of preemptible machines so that one machine of a queue has room: of as few as will do, beside
// those that go already. It is asked again whenever the queue manager says again that the host should: of what was asked for
// once, that without which there is no room is then said again, and no other machine goes in its stead.
func (l *loop) makeRoom(q compute.QueueName, now time.Time) {
	saving := l.fetches.Saving(now)
	if saving.For() != q || len(saving.Needs) == 0 || !l.offers(now) || l.made.took == q && now.Sub(l.made.at) < tookLately {
		return
	}
	kept, may, wanted := l.tasks.movable(now)
	for _, id := range again(l.view.host, kept, may, wanted, saving.Needs) {
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

// again chooses of what was asked for already what has to go still, so that there is room.
func again(h offer.Host, kept []offer.Held, may, wanted []offer.Movable, needs compute.Resources) []compute.InstanceID {
	all := slices.Concat(kept, held(may))
	if h.Room(all...).Fits(needs) {
		return h.Preempt(all, wanted, needs)
	}
	out := make([]compute.InstanceID, len(wanted)) // others have to go, too
	for i, w := range wanted {
		out[i] = w.Instance
	}
	return out
}

func held(ms []offer.Movable) []offer.Held {
	out := make([]offer.Held, len(ms))
	for i, m := range ms {
		out[i] = m.Held
	}
	return out
}

// saving is what the host says that it saves for: of machines that go only if it has the room, or will once they have gone.
func (l *loop) saving(now time.Time) *compute.Saving {
	s := l.fetches.Saving(now)
	if s != nil && s.Preempt {
		kept, may, _ := l.tasks.movable(now)
		s.Preempt = l.view.host.Room(slices.Concat(kept, held(may))...).Fits(s.Needs)
	}
	return s
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
func (ts tasks) movable(now time.Time) (kept []offer.Held, may, wanted []offer.Movable) {
	for id, t := range ts {
		held := offer.Held{Resources: t.Resources, Place: t.Place}
		switch {
		case t.Stage == task.Ending, ts.stays(t.In): // that room stays held, whether or not this one goes
		case t.Stage == task.Running && t.Goes(now):
			wanted = append(wanted, offer.Movable{Held: held, Instance: id, Taken: t.TimesTaken, Since: t.Since})
		case movable(t, now):
			may = append(may, offer.Movable{Held: held, Instance: id, Taken: t.TimesTaken, Since: t.Since})
		default:
			kept = append(kept, held)
		}
	}
	return kept, may, wanted
}

// movable says whether a machine may be taken away, and is not yet.
func movable(t *task.Task, now time.Time) bool {
	return t.Stage == task.Running && t.Preemptible && !t.Goes(now) && !t.Placeholder
}

// preemptible is what the machines have together that may be taken away.
func (ts tasks) preemptible(now time.Time) compute.Resources {
	sum := compute.Resources{}
	for _, t := range ts {
		if movable(t, now) {
			sum.Add(t.Resources)
		}
	}
	return sum
}

// taking is how many builds of each queue are prepared here, or claimed without an answer: they are queued, and yet have a
// host. Where they are of very many queues it is said of some.
func (ts tasks) taking() map[compute.QueueName]uint32 {
	var out map[compute.QueueName]uint32
	for _, t := range ts {
		if t.Lay == "" || t.Stage != task.Preparing && t.Stage != task.Claiming || out[t.Lay] == 0 && len(out) == compute.MaxTaking {
			continue
		}
		if out == nil {
			out = map[compute.QueueName]uint32{}
		}
		out[t.Lay]++
	}
	return out
}

// stands notes in which queue the record lay for which a task stands, and how many machines went for it.
func (ts tasks) stands(id compute.InstanceID, lay compute.QueueName, made uint32) {
	if t := ts[id]; t != nil {
		t.Lay, t.MadeRoom = lay, made
	}
}
