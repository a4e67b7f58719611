// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/hex"
	"io"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/fetch"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// pulled takes in how a fetch ended, and what it brought.
func (l *loop) pulled(p wire.Pulled) {
	reserved := l.fetches.Ended(p, time.Now())
	if p.Err != nil {
		l.log.Debug("a fetch failed", zap.Int32("broker", p.Session.Broker), zap.Error(p.Err))
	}
	if p.Record == nil {
		return
	}
	l.clock.Observe([]wire.Record{*p.Record}, l.o.Now())
	if wire.LaterThan(*p.Record, l.o.Reads) {
		// Some other host reads it: this one's agent is older, and was not known when it was written.
		l.log.Warn("work of a later schema is left to others: upgrade this agent",
			zap.String("queue", string(p.Ref.Queue.Name)))
		l.release(p.Ref, true, time.Now())
		return
	}
	b, err := wire.DecodeBuild(p.Record.ReadUpTo(l.o.Reads))
	if err == nil {
		err = checkBuild(b)
	}
	if err == nil {
		err = checkPlace(b, p.Ref.Queue.Name)
	}
	if err != nil {
		l.reject(*p.Record, err)
		l.o.Puller.Ack(p.Ref, wire.AckReject)
		return
	}
	l.receive(b, p.Ref, reserved)
}

// checkBuild refuses work that nobody could report about.
func checkBuild(b compute.Build) error {
	if err := b.Instance.Check(); err != nil {
		return err
	}
	if err := b.Project.Check(); err != nil {
		return err
	}
	if b.Attempt == 0 {
		return compute.Invalid("attempt", "0", "attempts count from 1")
	}
	return b.Resources.Check()
}

// checkPlace refuses work that is not its queue's. A host would give it back
// again and again, and keep from the queue each time.
func checkPlace(b compute.Build, name compute.QueueName) error {
	if b.Queue != name {
		return compute.Invalid("queue", string(b.Queue), "it lies in queue "+string(name))
	}
	return nil
}

// never says whether work that is not taken cannot run here later either: the request avoids
// this host, or its flavor was another when it was asked for, and that is not for this host.
func (l *loop) never(b compute.Build, fits bool) bool {
	return slices.Contains(b.Avoid, l.o.Host) || !accepts(b, l.view.traits) || !fits && l.fetches.Outgrown(b)
}

// release leaves work to other hosts.
func (l *loop) release(ref wire.WorkRef, never bool, now time.Time) {
	l.a.counts.released.Add(1)
	l.fetches.Release(ref, never, l.offers(now), now)
}

// receive decides what becomes of a record that came from a queue, by a fetch that
// had this place for it.
func (l *loop) receive(b compute.Build, ref wire.WorkRef, reserved compute.Place) {
	now := time.Now()
	place, _, fits := l.fetches.Beside(l.room()).Allocate(b.Resources, reserved)
	switch how, why := l.verdict(b, ref, fits, now); how {
	case wire.AckAccept:
		l.log.Debug("work is void", zap.String("instance", string(b.Instance)), zap.String("why", why))
		l.o.Puller.Ack(ref, wire.AckAccept)
	case wire.AckRelease:
		l.log.Debug("work is left to others", zap.String("instance", string(b.Instance)), zap.String("why", why))
		l.release(ref, l.never(b, fits), now)
	case wire.AckRenew:
		l.refs[b.Instance] = ref // another delivery of what is being built here
	default:
		l.beginTask(b, &ref, place)
	}
}

// verdict is 0 for work that is taken.
func (l *loop) verdict(b compute.Build, ref wire.WorkRef, fits bool, now time.Time) (how wire.Ack, why string) {
	if t, ok := l.tasks[b.Instance]; ok {
		return known(*t, b)
	}
	switch {
	case !l.offers(now):
		return wire.AckRelease, "this host does not offer any more"
	case slices.Contains(b.Avoid, l.o.Host):
		return wire.AckRelease, "the request avoids this host"
	case slices.Contains(b.Failed, l.o.Host) && ref.Delivery < fetch.ThirdDelivery:
		return wire.AckRelease, "an earlier attempt failed here"
	case l.mistrusts(b.Image, now) && ref.Delivery < fetch.ThirdDelivery:
		return wire.AckRelease, "its image has failed here lately"
	case l.late(b):
		// One host whose clock is wrong must not eat a queue, where it has to go by that: two must say so.
		if ref.Delivery > 1 {
			return wire.AckAccept, "its deadline has passed"
		}
		return wire.AckRelease, "its deadline seems to have passed"
	case !fits || !accepts(b, l.view.traits) || l.slots() < 1:
		return wire.AckRelease, "it does not fit any more"
	}
	return 0, ""
}

// late says whether work is void: its conductor ends it, or has.
func (l *loop) late(b compute.Build) bool {
	return !b.Deadline.IsZero() && l.clock.At(l.o.Now()).After(b.Deadline)
}

// known decides about work for an instance that is here already.
func known(t task.Task, b compute.Build) (wire.Ack, string) {
	switch {
	case b.Project != t.Project:
		return wire.AckRelease, "an instance of another project with this id is here"
	case b.Attempt < t.Attempt:
		return wire.AckAccept, "a later attempt is here"
	case b.Attempt > t.Attempt, t.Stage == task.Ending:
		return wire.AckRelease, "an attempt that ends is here"
	case t.Answered:
		return wire.AckAccept, "it is here"
	}
	return wire.AckRenew, "it is being built here"
}

// accepts says whether a host with these traits may build it.
func accepts(b compute.Build, traits map[compute.Trait]bool) bool {
	return compute.Queue{Required: b.Required, Forbidden: b.Forbidden}.Accepts(traits)
}

// beginTask begins a task at a place that is free. It is in the journal before anything
// is done for it.
func (l *loop) beginTask(b compute.Build, ref *wire.WorkRef, place compute.Place) {
	var id [16]byte
	if _, err := io.ReadFull(l.o.Random, id[:]); err != nil {
		l.fail(&compute.Error{Op: "make a claim id", Message: "the source of randomness failed", Cause: err})
		return
	}
	t := task.New(b, place, compute.ClaimID(hex.EncodeToString(id[:])), l.host.Fence, ref == nil)
	l.tasks[b.Instance], l.builds[b.Instance] = &t, b
	l.free = nil
	if ref != nil {
		l.refs[b.Instance] = *ref
	}
	l.a.counts.taken.Add(1)
	l.step(b.Instance, task.Taken{})
}
