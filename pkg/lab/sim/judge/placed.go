// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// checkGranted: I2: nothing is launched without a committed grant for that very
// host, attempt and claim.
func checkGranted(r *Recording) (wrong []Violation) {
	granted := map[string]time.Time{}
	key := func(id compute.InstanceID, h compute.HostID, a compute.Attempt, c compute.ClaimID) string {
		return fmt.Sprint(id, " ", h, " ", a, " ", c)
	}
	for _, w := range r.Log {
		if i := w.Instance; i.State == compute.StateStarting {
			if k := key(i.ID, i.Host, i.Attempt, i.Claim); granted[k].IsZero() {
				granted[k] = i.StartingAt
			}
		}
	}
	for _, l := range r.Launches {
		if at, ok := granted[key(l.Instance, l.Host, l.Attempt, l.Claim)]; !ok ||
			l.At.Before(at.Add(-r.Schedule.World.Drifts())) {
			wrong = append(
				wrong,
				broken(
					"I2",
					l.Instance,
					l.At,
					"%s launches attempt %d claim %s without a grant in the log",
					l.Host,
					l.Attempt,
					l.Claim,
				)...)
		}
	}
	return wrong
}

// checkOver: I2: nothing runs after its record says that it ended, and nothing
// of an attempt after the next has begun.
func checkOver(r *Recording) (wrong []Violation) {
	type over struct {
		at      time.Time
		attempt compute.Attempt // this one and all before
		what    string
	}
	ends := map[compute.InstanceID][]over{}
	last := map[compute.InstanceID]compute.Instance{}
	for _, w := range r.Log {
		i := w.Instance
		old := last[i.ID]
		switch {
		case i.State.Ended():
			ends[i.ID] = append(ends[i.ID], over{i.ChangedAt, i.Attempt, "it was " + i.State.String()})
		case i.State == compute.StateQueued && old.State.OnHost():
			ends[i.ID] = append(
				ends[i.ID],
				over{i.ChangedAt, old.Attempt, fmt.Sprintf("attempt %d was over", old.Attempt)},
			)
		}
		last[i.ID] = i
	}
	outlives := r.outlivesPower()
	for _, m := range r.runs() {
		for _, o := range ends[m.instance] {
			if m.attempt <= o.attempt && !outlives(m.instance, m.host) && m.to.After(o.at.Add(r.Schedule.World.Drifts())) {
				wrong = append(
					wrong,
					broken("I2", m.instance, o.at, "attempt %d runs on %s from %s to %s, and at %s %s",
						m.attempt, m.host, r.At(m.from), r.At(m.to), r.At(o.at), o.what)...)
				break
			}
		}
	}
	return wrong
}

// run is a time in which a machine ran.
type run struct {
	instance compute.InstanceID
	host     compute.HostID
	attempt  compute.Attempt
	from, to time.Time
}

// runs works out when which machine ran. What still runs does so for ever; what was written
// off is over.
func (r *Recording) runs() []run { return runsOf(r.spared()) }

func runsOf(events []fake.Event) (list []run) {
	type place struct {
		id compute.InstanceID
		h  compute.HostID
	}
	open := map[place]int{}
	for _, e := range events {
		k := place{e.Instance, e.Host}
		n, running := open[k]
		switch e.Kind {
		case fake.Launched, fake.Resumed:
			if !running {
				open[k] = len(list)
				list = append(list, run{e.Instance, e.Host, e.Attempt, e.At, e.At.Add(1000 * time.Hour)})
			}
		case fake.Stopped, fake.Destroyed:
			if running {
				list[n].to = e.At
				delete(open, k)
			}
		}
	}
	return list
}

// Uses is what an instance takes of its project's quota.
func Uses(i compute.Instance) compute.Resources {
	if !i.Counts() {
		return compute.Resources{}
	}
	return counted(i.Boot.Priority(), i.Resources.Plus(compute.Resources{compute.Instances: 1}))
}

// checkQuota: I3: nothing is admitted above the limit then in force, and nothing
// is refused that was within it: what a refusal says was used is the sum of the
// live instances at that place of the log.
func checkQuota(r *Recording) (wrong []Violation) {
	used := map[compute.Project]compute.Resources{}
	last := map[compute.InstanceID]compute.Instance{}
	for _, w := range r.Log {
		i := w.Instance
		old, known := last[i.ID]
		last[i.ID] = i
		before := used[i.Project]
		used[i.Project] = before.Minus(Uses(old)).Plus(Uses(i))
		switch {
		case known:
		case i.State == compute.StateQueued:
			for class, n := range used[i.Project] {
				if most, limited := r.limit(i, w.Seen, class); limited && n > most && Uses(i)[class] > 0 {
					wrong = append(
						wrong,
						broken(
							"I3",
							i.ID,
							i.QueuedAt,
							"%s was admitted: %s uses %d %s and may have %d",
							i.Boot.Name,
							i.Project,
							n,
							class,
							most,
						)...)
				}
			}
		case i.Reason != nil && i.Reason.Code == compute.QuotaExceeded && i.Reason.Used != before[shortOf(i.Reason)]:
			wrong = append(wrong, broken("I3", i.ID, w.Seen, "%s was refused since %s used %d %s; it used %d",
				i.Boot.Name, i.Project, i.Reason.Used, shortOf(i.Reason), before[shortOf(i.Reason)])...)
		}
	}
	return wrong
}

// quotaHeard is how long after its answer a change of a quota may be unknown to a
// conductor that goes on deciding: by a catalog it has not heard of for 5 s it
// decides nothing, unless that does not answer either, and an answer takes a while.
const quotaHeard = 8 * time.Second

// A conductor hears of the catalog late where everything that it sends takes verySlow longer, or more: if it lost its
// connections, it opens others with several messages in a row, and gives up some of them first. After as many messages
// as verySlowHears it has heard of a change.
const (
	verySlow      = 500 * time.Millisecond
	verySlowHears = 50 // up to 37 were seen
)

// cutsOff are the faults after which a conductor reads what hosts say before what the catalog has become meanwhile.
var cutsOff = []string{
	schedule.FaultLink, schedule.FaultPause, schedule.FaultMute, schedule.FaultDeaf, schedule.FaultOff,
}

// deafConductor says whether a conductor was cut off from a broker, or was very slow, from soon after one moment until
// shortly before another, or a broker was away as long, or told of former leaders or coordinators. What is in the
// catalog may be unknown to the conductor as long: it cannot read the catalog from that broker, and decides boots by
// what it knows of it.
func (r *Recording) deafConductor(from, to time.Time) bool {
	return slices.ContainsFunc(r.Schedule.Faults, func(f schedule.Fault) bool {
		begun, by := r.Start.Add(f.At.Duration()), f.By.Duration()
		slow := f.Kind == schedule.FaultSlow && by >= verySlow && to.Sub(from) < quotaHeard+verySlowHears*by
		cut := slices.Contains(cutsOff, f.Kind) || slow
		deaf := f.Kind == schedule.FaultNode || f.Key == schedule.Stale ||
			cut && strings.HasPrefix(f.Who, "conductor-")
		return deaf && begun.Before(from.Add(quotaHeard)) && to.Before(begun.Add(f.For.Duration()+quotaHeard))
	})
}

// limit is the most of a class that may have been in force when an instance was admitted, which was in the log
// then; limited: there was a limit for certain.
func (r *Recording) limit(
	i compute.Instance,
	logged time.Time,
	class compute.ResourceClass,
) (most int64, limited bool) {
	for _, l := range r.limitsAt(i.Project, i.AcceptedAt, logged) {
		n, is := l[class]
		if !is {
			return 0, false
		}
		most = max(most, n)
	}
	return most, true
}

// checkQuotaView: I3: what the API says is used is what the log says.
func checkQuotaView(r *Recording) (wrong []Violation) {
	for _, q := range r.Quotas {
		for class, n := range q.Used {
			if n != q.Before[class] && n != q.After[class] { // something may end meanwhile
				wrong = append(
					wrong,
					broken(
						"I3",
						"",
						r.Settled,
						"the API says that %s uses %d %s; the log says %d",
						q.Project,
						n,
						class,
						q.After[class],
					)...)
			}
		}
	}
	return wrong
}

// checkRoom: I4: no host ever held more than it has.
func checkRoom(r *Recording) (wrong []Violation) {
	for _, h := range r.Schedule.World.Hosts {
		if worst := r.Worst[h.ID]; !worst.FitsIn(h.Totals) {
			wrong = append(wrong, broken("I4", "", r.Calm, "%s held %s and has %s", h.ID, worst, h.Totals)...)
		}
	}
	return wrong
}

// checkPlaces: nothing runs where the request, its flavor or its choices do not
// want it.
func checkPlaces(r *Recording) (wrong []Violation) {
	for _, w := range r.Log {
		i := w.Instance
		if i.State != compute.StateStarting {
			continue
		}
		for _, h := range r.Schedule.World.Hosts {
			if h.ID != i.Host {
				continue
			}
			traits := map[compute.Trait]bool{}
			for _, t := range h.Traits {
				traits[t] = true
			}
			switch q := (compute.Queue{Required: i.Required, Forbidden: i.Forbidden}); {
			case slices.Contains(i.Boot.Avoid, h.ID):
				wrong = append(wrong, broken("avoid", i.ID, w.Seen, "%s avoids %s and is there", i.Boot.Name, h.ID)...)
			case i.Boot.Host != "" && i.Boot.Host != h.ID:
				wrong = append(
					wrong,
					broken(
						"pinned",
						i.ID,
						w.Seen,
						"%s is for %s alone and is on %s",
						i.Boot.Name,
						i.Boot.Host,
						h.ID,
					)...)
			case !q.Accepts(traits):
				wrong = append(
					wrong,
					broken(
						"traits",
						i.ID,
						w.Seen,
						"%s does not fit %s: it wants %v, not %v",
						i.Boot.Name,
						h.ID,
						i.Required,
						i.Forbidden,
					)...)
			}
		}
	}
	return wrong
}

// checkQueues: rule 11: no queue is deleted from under what waits in it for the
// first time. What was active before may come back to a queue that is gone.
func checkQueues(r *Recording) (wrong []Violation) {
	last := map[compute.InstanceID]compute.Instance{}
	for _, w := range r.Log {
		i, old := w.Instance, last[w.Instance.ID]
		last[i.ID] = i
		_, made := r.Gone[old.Queue] // a tier may not be, if its flavor is removed in that moment
		if old.State == compute.StateQueued && old.Attempt == 1 && i.State == compute.StateError && i.Reason != nil &&
			i.Reason.Code == compute.QueueClosedReason && made {
			wrong = append(
				wrong,
				broken("queue", i.ID, w.Seen, "%s waited in %s, which was deleted", i.Boot.Name, old.Queue)...)
		}
	}
	return wrong
}

// promptly is how long a boot may wait for its claim where nothing goes wrong
// and there is room for everything, beyond what its hypervisor takes.
const promptly = 3 * time.Second

// settles is how long a queue manager that was just elected leaves alone what one before it may be making, as a tier, which
// is made when its first work waits, or the queue of a flavor that was just added (queues.Options.Settle).
const settles = 15 * time.Second

// makes is how long it takes until a queue is made that is not there when its first work comes, and until each
// conductor publishes in it. Any work of a class may be the first of its queue.
const makes = 2 * time.Second

// slots is how many builds a host prepares at once (agent.Options.Slots).
const slots = 4

// behind is how much longer work may wait while hosts prepare what they were given meanwhile and came into a queue
// before it, as much of that at once as they have slots.
func (r *Recording) behind(i compute.Instance, first map[work]time.Time, prepare time.Duration) time.Duration {
	n := 0
	for _, g := range r.Given {
		came := first[work{g.Spec.Instance, 1}]
		meanwhile := !g.At.Before(i.QueuedAt) && g.At.Before(i.StartingAt)
		if meanwhile && g.Spec.Instance != i.ID && !came.IsZero() && !came.After(first[work{i.ID, 1}]) {
			n++
		}
	}
	return time.Duration(n/(slots*len(r.Schedule.World.Hosts))) * prepare
}

// checkPrompt: I6, where nothing went wrong.
func checkPrompt(r *Recording) (wrong []Violation) {
	if len(r.Schedule.Faults) > 0 || !r.Schedule.Roomy() {
		return nil
	}
	slowest := schedule.Seconds(0)
	for _, h := range r.Schedule.World.Hosts {
		slowest = max(slowest, h.Prepare)
	}
	bound := promptly + slowest.Duration() + 30*r.Schedule.World.Latency.Duration()
	first := cameFirst(r.Builds)
	for _, i := range r.last() {
		if i.Boot.Reservation() != "" {
			continue // checkVain: it may wait for its reservation to begin
		}
		bound := bound + r.behindOthers(i.Queue) + r.behind(i, first, slowest.Duration())
		isNew := i.Boot.Priority() != compute.PriorityNormal || r.Schedule.Adds(i.Boot.Flavor)
		if isNew {
			bound += makes
			if r.Schedule.World.Managers > 1 {
				bound += settles
			}
		}
		wait := i.StartingAt.Sub(i.QueuedAt)
		if wait > bound && r.besideRuled(i, i.QueuedAt) {
			bound += rungAgain
		}
		if wait > bound {
			wait = i.StartingAt.Sub(latest(i.QueuedAt, r.letGo(i.ID)))
		}
		if !r.ruled(i.Boot.Name) && !i.StartingAt.IsZero() && i.Attempt == 1 && wait > bound {
			wrong = append(
				wrong,
				broken("I6", i.ID, i.StartingAt, "%s waited %s for a host that had room", i.Boot.Name, wait)...)
		}
	}
	return wrong
}

// checkLeft: when all is deleted, nothing is left anywhere.
func checkLeft(r *Recording) (wrong []Violation) {
	if r.Settled.IsZero() {
		return nil
	}
	if r.Empty.IsZero() {
		for _, what := range r.Stuck {
			wrong = append(
				wrong,
				broken(
					"left",
					r.idIn(what),
					r.Settled.Add(Patience),
					"%s after all was deleted: %s",
					Patience,
					what,
				)...)
		}
		return wrong
	}
	for h, entries := range r.Left {
		for id, e := range entries {
			wrong = append(
				wrong,
				broken("left", id, r.Empty, "the journal of %s still has attempt %d, %s", h, e.Attempt, e.Stage)...)
		}
	}
	return wrong
}

// checkReboots: a reboot is done at most once for each that was asked for.
func checkReboots(r *Recording) (wrong []Violation) {
	left := map[compute.InstanceID]int{}
	for _, a := range r.Asks {
		if a.Op == schedule.LoadPower && a.Power == "reboot" {
			left[a.ID]++
		}
	}
	for _, e := range r.Machines {
		if e.Kind != fake.Rebooted {
			continue
		}
		if left[e.Instance]--; left[e.Instance] < 0 {
			wrong = append(
				wrong,
				broken("power", e.Instance, e.At, "%s reboots %s once more than was asked for", e.Host, e.Instance)...)
		}
	}
	return wrong
}
