// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Claimed is a claim that is in the log.
type Claimed struct {
	Seen time.Time
	compute.Report
}

// Published is a record in a queue.
type Published struct {
	Seen time.Time
	compute.Build
}

// Owned is a partition that a conductor takes over.
type Owned struct {
	Seen      time.Time
	Partition int32
}

// producerEpoch sees conductors ask for producer epochs.
func (r *Recording) producerEpoch(req kmsg.Request) {
	id := req.(*kmsg.InitProducerIDRequest).TransactionalID
	if id == nil {
		return
	}
	p, err := strconv.ParseInt((*id)[strings.LastIndexByte(*id, '.')+1:], 10, 32)
	if err != nil {
		return // it names no partition
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Owners = append(r.Owners, Owned{time.Now(), int32(p)})
}

// report hears what hosts say.
func (r *Recording) report(rec wire.Record) {
	p, err := wire.DecodeReport(rec)
	if err != nil {
		r.wrong("log", "", "a report cannot be read: %v", err)
		return
	}
	if p.Op != compute.ReportClaim {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Claims = append(r.Claims, Claimed{time.Now(), p})
}

// build hears what is put into queues.
func (r *Recording) build(rec wire.Record) {
	b, err := wire.DecodeBuild(rec.ReadUpTo(laterSchema))
	if err != nil {
		r.wrong("log", "", "a record of a queue cannot be read: %v", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Builds = append(r.Builds, Published{time.Now(), b})
}

// queues are all that are ever offered.
func (s Schedule) queues() []compute.QueueName {
	flavors := slices.Clone(s.World.Flavors)
	for _, l := range s.Load {
		if l.Op == LoadAddFlavor {
			flavors = append(flavors, *l.Flavor)
		}
	}
	return s.World.queues(flavors)
}

// queues are those of flavors.
func (w World) queues(flavors []compute.Flavor) (list []compute.QueueName) {
	axes := map[compute.AxisName]compute.Capability{}
	for _, a := range w.Axes {
		axes[a.Axis] = a
	}
	for _, f := range flavors {
		for _, q := range compute.Permutations(f, axes) {
			list = append(list, q.Name)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// booted are the queues that anything is ever booted in.
func (s Schedule) booted() (list []compute.QueueName) {
	for _, l := range s.Load {
		if l.Op == LoadBoot {
			list = append(list, compute.NameQueue(l.Boot.Flavor, l.Boot.With))
		}
	}
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(q compute.QueueName) bool { return !slices.Contains(s.queues(), q) })
}

// decides says whether nothing goes wrong with conductors, or with what the
// broker does.
func (s Schedule) decides() bool {
	return !slices.ContainsFunc(s.Faults, func(f Fault) bool {
		return f.Who == "broker" || f.Who == "" || strings.HasPrefix(f.Who, "conductor-")
	})
}

// buries says whether a host may be declared dead; empty is any.
func (s Schedule) buries(h compute.HostID) bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool { return f.Dead != "" && (h == "" || f.Who == "" || f.Who == string(h)) })
}

// drops says whether anything that is offered is ever taken away.
func (s Schedule) drops() bool {
	return slices.ContainsFunc(s.Load, func(l Load) bool { return l.Op == LoadDropFlavor || l.Op == LoadDropAxis })
}

// checkTimers: what is in the log before a time-out beats it: no deadline ends
// what was claimed before it passed. What a host claimed that was declared dead
// is void.
func checkTimers(r *Recording) (wrong []Violation) {
	last := map[compute.InstanceID]compute.Instance{}
	for _, w := range r.Log {
		i, old := w.Instance, last[w.Instance.ID]
		last[i.ID] = i
		if old.State != compute.StateQueued || i.State != compute.StateError || i.Reason == nil || i.Reason.Code != compute.DeadlineExceeded {
			continue
		}
		for _, c := range r.Claims {
			if c.Instance == i.ID && c.Attempt == old.Attempt && c.Seen.Before(old.Deadline) && !r.Schedule.buries(c.Host) && !r.Schedule.clones() {
				wrong = append(wrong, broken("timer", i.ID, w.Seen, "%s was ended by its deadline at %s, and %s had claimed it at %s",
					i.Boot.Name, r.at(old.Deadline), c.Host, r.at(c.Seen))...)
				break
			}
		}
	}
	return wrong
}

// republished is how long after all is well, after it was due, or after a
// conductor has taken its partition over, work is in its queue at the latest.
const republished = 20 * time.Second

// work is what a record of a queue is about.
type work struct {
	id      compute.InstanceID
	attempt compute.Attempt
}

// checkPublished: the outbox: what is queued is in its queue, and not only when
// somebody wonders where it is.
func checkPublished(r *Recording) (wrong []Violation) {
	if r.Schedule.drops() || r.Schedule.restarts() {
		return nil // records go with their queue; and the embedded broker begins an emptied one anew
	}
	first := map[work]time.Time{}
	for _, b := range r.Builds {
		if k := (work{b.Instance, b.Attempt}); first[k].IsZero() {
			first[k] = b.Seen
		}
	}
	for n, w := range r.Log {
		i := w.Instance
		if w.Removed || i.State != compute.StateQueued || i.Boot.Host != "" {
			continue
		}
		at := first[work{i.ID, i.Attempt}]
		due := latest(w.Seen, i.PublishAt, r.Calm, r.owned(w.Partition, at)).Add(republished + 60*r.Schedule.World.Latency.Duration())
		if r.over(n).Before(due) {
			continue
		}
		if at.IsZero() || at.After(due) {
			wrong = append(wrong, broken("outbox", i.ID, due, "%s is queued in %s since %s, and attempt %d came into the queue at %s",
				i.Boot.Name, i.Queue, r.at(w.Seen), i.Attempt, r.at(at))...)
		}
	}
	return wrong
}

// owned is when a partition was last taken over, at a time or before; zero is the end.
func (r *Recording) owned(p int32, by time.Time) (last time.Time) {
	for _, o := range r.Owners {
		if o.Partition == p && (by.IsZero() || !o.Seen.After(by)) {
			last = o.Seen
		}
	}
	return last
}

// over is when a record of the log was followed by the next of its instance.
func (r *Recording) over(n int) time.Time {
	for _, w := range r.Log[n+1:] {
		if w.Instance.ID == r.Log[n].Instance.ID {
			return w.Seen
		}
	}
	return latest(r.Calm, r.Settled, r.Empty)
}

// clones says whether a host has a second agent of its name for a while.
func (s Schedule) clones() bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool { return f.Kind == FaultClone })
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// checkTaken: nothing that a host took is lost, so that it has to be published again. The
// conductor that takes a partition over may publish again, and so may one that does not
// know whether the broker has the record. What a rogue took is published once more. Two agents
// of one name are granted nothing, so what either took is lost until then.
func checkTaken(r *Recording) (wrong []Violation) {
	if !r.Schedule.decides() || r.Schedule.drops() || r.Schedule.buries("") || r.Schedule.clones() {
		return nil
	}
	last, times := map[compute.InstanceID]time.Time{}, map[compute.InstanceID]int{}
	for _, b := range r.Builds {
		if len(b.Avoid) > 0 || b.Attempt > 1 {
			continue // hosts it avoids, or where it was before, may have released it as often as the broker permits
		}
		if times[b.Instance]++; times[b.Instance] > 1+r.robbedOf(work{b.Instance, b.Attempt}, b.Seen) {
			wrong = append(wrong, broken("taken", b.Instance, b.Seen, "attempt %d of %s is in %s since %s, and is put there again",
				b.Attempt, b.Name, b.Queue, r.at(last[b.Instance]))...)
			continue
		}
		last[b.Instance] = b.Seen
	}
	return wrong
}
