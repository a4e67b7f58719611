// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
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

// Told is work in a host's stream.
type Told struct {
	Seen time.Time
	Host compute.HostID
	compute.Build
}

// Owned is a partition that a conductor takes over.
type Owned struct {
	Seen      time.Time
	Partition int32
}

// SeeEpochRequest sees conductors ask for producer epochs.
func (r *Recording) SeeEpochRequest(req kmsg.Request) {
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

// ReadReport hears what hosts say.
func (r *Recording) ReadReport(rec wire.Record) {
	p, err := wire.DecodeReport(rec)
	if err != nil {
		r.AddViolation("log", "", "a report cannot be read: %v", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case p.Op == compute.ReportPinned:
		r.Declined = append(r.Declined, Claimed{time.Now(), p})
	case p.Op == compute.ReportClaim && !strings.HasPrefix(string(p.Claim), LieClaim):
		r.Claims = append(r.Claims, Claimed{time.Now(), p})
	}
}

// ReadBuild hears what is put into queues.
func (r *Recording) ReadBuild(rec wire.Record) {
	b, err := wire.DecodeBuild(rec.ReadUpTo(schedule.LaterSchema))
	if err != nil {
		r.AddViolation("log", "", "a record of a queue cannot be read: %v", err)
		return
	}
	r.unreadableWork(rec)
	r.addBuild(&r.Builds, b)
}

// checkTimers: what is in the log before a time-out beats it: no deadline ends
// what was claimed before it passed. What a host claimed that was declared dead
// is void.
func checkTimers(r *Recording) (wrong []Violation) {
	last := map[compute.InstanceID]compute.Instance{}
	for _, w := range r.Log {
		i, old := w.Instance, last[w.Instance.ID]
		last[i.ID] = i
		if old.State != compute.StateQueued || i.State != compute.StateError || i.Reason == nil ||
			i.Reason.Code != compute.DeadlineExceeded {
			continue
		}
		for _, c := range r.Claims {
			if c.Instance == i.ID && c.Attempt == old.Attempt && c.Seen.Before(old.Deadline) &&
				!r.Schedule.Buries(c.Host) &&
				!r.Schedule.Clones() && !r.overByRule(i, c, w.Seen) && !r.partNamed(i.Boot.Name) {
				wrong = append(
					wrong,
					broken("timer", i.ID, w.Seen, "%s was ended by its deadline at %s, and %s had claimed it at %s",
						i.Boot.Name, r.At(old.Deadline), c.Host, r.At(c.Seen))...)
				break
			}
		}
	}
	return wrong
}

// republished is how long after all is well, after it was due, or after a
// conductor has taken its partition over, work is in its queue at the latest.
const republished = 20 * time.Second

// resent is how much later it is there where a link has lost a produce request just before all is well: its client
// gives it up after write.ProduceTimeout and kafka.DefaultRequestTimeout, which are 22.5 s together, and if it was not
// the first that was lost it pauses for up to 6 s.
const resent = 9 * time.Second

// unsure is how much later it is there where an answer to what puts it there may have left open whether it is there: it
// is put there again after 30 s (admit.Options.RepublishAfter).
const unsure = 12 * time.Second

// madeLate is how much later a queue may be there that a queue manager was making when it ended: another one is elected
// after 10 s, and leaves it alone while it settles, 15 s.
const madeLate = 10 * time.Second

// startsLate is how long a queue manager that is started may take until it works where it reads batch by batch: all
// that conductors and hosts have written meanwhile.
const startsLate = 2 * time.Minute

// work is what a record of a queue is about.
type work struct {
	id      compute.InstanceID
	attempt compute.Attempt
}

// cameFirst is when each work came into a queue for the first time.
func cameFirst(all []Published) map[work]time.Time {
	first := map[work]time.Time{}
	for _, b := range all {
		if k := (work{b.Instance, b.Attempt}); first[k].IsZero() || b.Seen.Before(first[k]) {
			first[k] = b.Seen
		}
	}
	return first
}

// checkPublished: the outbox: what is queued is in its queue, and not only when
// somebody wonders where it is.
func checkPublished(r *Recording) (wrong []Violation) {
	if r.Schedule.Drops() || r.Schedule.Restarts() {
		return nil // records go with their queue; and the embedded broker begins an emptied one anew
	}
	// The reader of a new queue may come when what was taken is removed.
	first := cameFirst(slices.Concat(r.Robbed, r.Builds))
	for n, w := range r.Log {
		i := w.Instance
		if w.Removed || i.State != compute.StateQueued || i.Boot.Host != "" || i.Boot.Group() != "" {
			continue // its group may hold it
		}
		if i.Boot.In().ID != "" || i.Boot.Placeholder().Kept {
			continue // it waits for its placeholder, or that for it
		}
		at := first[work{i.ID, i.Attempt}]
		due := latest(
			w.Seen,
			i.PublishAt,
			r.Calm,
			r.owned(w.Partition, at),
			r.crowded(n),
			r.upgraded(i),
		).Add(
			republished + 60*r.Schedule.World.Latency.Duration() + r.later(i),
		)
		awaits := i.Boot.Priority() != compute.PriorityNormal && r.owned(w.Partition, at).After(w.Seen)
		if awaits || !r.upgraded(i).IsZero() {
			due = due.Add(30 * time.Second) // it may have awaited its tier, or agents, and its next owner cannot know that
		}
		if r.over(n).Before(due) {
			continue
		}
		if at.IsZero() || at.After(due) {
			wrong = append(
				wrong,
				broken("outbox", i.ID, due, "%s is queued in %s since %s, and attempt %d came into the queue at %s",
					i.Boot.Name, i.Queue, r.At(w.Seen), i.Attempt, r.At(at))...)
		}
	}
	return wrong
}

// later is how much later the work of an instance may come into its queue for what the schedule has.
func (r *Recording) later(i compute.Instance) (long time.Duration) {
	if r.Schedule.Has(schedule.FaultLink) {
		long += resent
	}
	if r.Schedule.Has("code Produce UNKNOWN_SERVER_ERROR") {
		long += unsure
	}
	tier := i.Boot.Priority() != compute.PriorityNormal
	if tier && r.crawls() {
		long += startsLate // its tier is made by a queue manager
	}
	if (tier || r.Schedule.Adds(i.Boot.Flavor)) && r.Schedule.HindersManagers() {
		long += madeLate
	}
	return long
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

// MayShowOldPower says whether what a host said before of its machine's power may count again: a stranger says it again,
// and the conductor of the project has taken its partition over and does not know that it was said (decision 0051).
func (r *Recording) MayShowOldPower(p compute.Project) bool {
	if !slices.ContainsFunc(r.Schedule.Faults, func(f schedule.Fault) bool { return f.Kind == schedule.FaultForge }) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	owners, partition := 0, wire.Partition(p, r.Schedule.World.Partitions)
	for _, o := range r.Owners {
		if o.Partition == partition {
			owners++
		}
	}
	return owners > 1
}

// over is when a record of the log was followed by the next of its instance.
func (r *Recording) over(n int) time.Time {
	if next, ok := r.following(n); ok {
		return next.Seen
	}
	return latest(r.Calm, r.Settled, r.Empty)
}

// following is the record of the same instance behind one of the log.
func (r *Recording) following(n int) (next Written, ok bool) {
	for _, w := range r.Log[n+1:] {
		if w.Instance.ID == r.Log[n].Instance.ID {
			return w, true
		}
	}
	return next, false
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// checkTaken: nothing that a host took is lost, so that it has to be published again. The
// conductor that takes a partition over may publish again, and so may one that does not
// know whether the broker has the record, or that restored its partition after a turn which was too large. What a rogue took is published once more. Two agents
// of one name are granted nothing, so what either took is lost until then. Work whose image has failed on a host is
// released by that host as long as it is offered.
func checkTaken(r *Recording) (wrong []Violation) {
	restores := r.restores()
	if restores || r.Schedule.Drops() || r.Schedule.Buries("") || r.Schedule.Clones() {
		return nil
	}
	last, times := map[compute.InstanceID]time.Time{}, map[compute.InstanceID]int{}
	for _, b := range r.Builds {
		if len(b.Avoid) > 0 || b.Attempt > 1 || r.ruled(b.Name) || r.Schedule.World.Spoils(b.Image) {
			continue // a host that leaves it to others may have released it as often as the broker permits
		}
		if times[b.Instance]++; times[b.Instance] > 1+r.robbedOf(work{b.Instance, b.Attempt}, b.Seen) {
			wrong = append(
				wrong,
				broken("taken", b.Instance, b.Seen, "attempt %d of %s is in %s since %s, and is put there again",
					b.Attempt, b.Name, b.Queue, r.At(last[b.Instance]))...)
			continue
		}
		last[b.Instance] = b.Seen
	}
	return wrong
}

func (r *Recording) SetBack(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Back = at
}

// backTime is how long after two of three brokers came back what was asked for is decided.
const backTime = 5 * time.Second

// checkBack: once most brokers are back, conductors write again soon: what was asked for
// before that, and later, is in the log. Where nothing else goes wrong.
func checkBack(r *Recording) (wrong []Violation) {
	if r.Back.IsZero() ||
		slices.ContainsFunc(r.Schedule.Faults, func(f schedule.Fault) bool { return f.Kind != schedule.FaultQuorum }) {
		return nil
	}
	first := map[string]time.Time{}
	for _, w := range r.Log {
		if id := string(w.Instance.ID); first[id].IsZero() {
			first[id] = w.Seen
		}
	}
	for _, a := range r.Accepted() {
		seen, due := first[string(a.ID)], latest(a.Answered, r.Back).Add(backTime+r.Schedule.Slack())
		if a.Op == schedule.LoadBoot && (seen.IsZero() || seen.After(due)) {
			took := fmt.Sprintf("%.1f s after the brokers were back at %s", seen.Sub(r.Back).Seconds(), r.At(r.Back))
			wrong = append(wrong, broken("back", a.ID, due, "%s was accepted at %s and is in the log at %s, %s",
				a.Name, r.At(a.Answered), r.At(seen), took)...)
		}
	}
	return wrong
}
