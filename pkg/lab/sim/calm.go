// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/judge"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

const (
	// resting is how long a schedule in which nothing goes wrong is watched when
	// nothing is left to do.
	resting = 10 * time.Second
	// steady is how long it must have looked finished.
	steady = 3 * time.Second
)

// calm ends all that goes wrong and waits until nothing is left to do; then it
// deletes everything and waits until nothing is left.
func (w *play) calm() {
	w.heal()
	w.rec.Calm = time.Now()
	if !w.await(w.unsettled) {
		return
	}
	w.rec.Placed, w.rec.Awaited = time.Now().Add(-steady), w.awaited
	if !w.await(func() []string { return append(w.unsettled(), w.closing()...) }) {
		return
	}
	if len(w.Faults) == 0 {
		w.sleep(resting) // to see what hosts do to which nothing comes
	}
	w.rec.Settled = time.Now()
	w.settled.Store(true)
	w.askQuotas()
	w.askLists()
	for _, i := range w.byID() {
		if i.State != compute.StateDeleted {
			w.clients.do(schedule.Load{Op: schedule.LoadDelete, Name: i.Boot.Name, Project: i.Project})
		}
	}
	if w.await(w.unfinished) {
		w.rec.Empty = time.Now()
	}
}

// heal starts what is down and asks hosts to offer again.
func (w *play) heal() {
	w.must(w.startBroker())
	wished := map[compute.HostID]bool{}
	for _, l := range w.Load {
		if l.Op == schedule.LoadHost && !wished[l.Host] {
			wished[l.Host] = true
			w.clients.do(schedule.Load{Op: schedule.LoadHost, Host: l.Host, Wish: "enable"})
		}
	}
}

// await waits until there is nothing that is still to be done, and has not been
// for a while.
func (w *play) await(open func() []string) bool {
	since, end := time.Time{}, time.Now().Add(judge.Patience)
	for time.Now().Before(end) {
		switch left := open(); {
		case len(left) > 0:
			since = time.Time{}
			w.rec.Stuck, w.awaited = left, left[0]
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= steady:
			w.rec.Stuck = nil
			return true
		}
		w.sleep(time.Second)
	}
	return false
}

func (w *play) byID() []compute.Instance {
	var list []compute.Instance
	for _, i := range w.rec.Instances() {
		list = append(list, i)
	}
	slices.SortFunc(list, func(a, b compute.Instance) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return list
}

// unsettled lists what must still happen.
func (w *play) unsettled() (left []string) {
	for _, p := range w.order {
		if p.current() == nil {
			left, w.rec.Up = append(left, p.name+" is down"), time.Now()
		}
	}
	if n := w.asking.Load(); n > 0 {
		left = append(left, fmt.Sprintf("%d requests have no answer yet", n))
	}
	now := w.rec.Instances()
	for _, a := range w.rec.Accepted() {
		i, there := now[a.ID]
		switch {
		case !there:
			left = append(
				left,
				fmt.Sprintf("%s %s was accepted at %s and is in no record", a.Op, a.Name, w.rec.At(a.Answered)),
			)
		case a.Op == schedule.LoadDelete && i.State != compute.StateDeleted:
			left = append(
				left,
				fmt.Sprintf("%s was to be deleted at %s and is %s", a.Name, w.rec.At(a.Answered), i.State),
			)
		}
	}
	for _, i := range w.byID() {
		switch {
		case i.State == compute.StateStarting || i.State == compute.StateDeleting,
			i.State == compute.StateActive && (i.Confirm || i.Command != nil):
			left = append(
				left,
				fmt.Sprintf("%s is %s on %s since %s", i.Boot.Name, i.State, i.Host, w.rec.At(i.ChangedAt)),
			)
		case i.State == compute.StateQueued:
			if h := w.room(i); h != "" || time.Now().After(i.Deadline) {
				left = append(
					left,
					fmt.Sprintf(
						"%s is queued in %s since %s, and %q has room for it",
						i.Boot.Name,
						i.Queue,
						w.rec.At(i.ChangedAt),
						h,
					),
				)
			}
		}
	}
	return append(left, w.differences(now)...)
}

// draining is for how long a closed queue is watched in which something waits: it
// must still be there.
const draining = 70 * time.Second

// closing lists the closed queues that must still go, or must still show that
// they stay; and what waits in a queue that is gone.
func (w *play) closing() (left []string) {
	closed, gone := w.rec.EndedQueues()
	used := map[compute.QueueName]bool{}
	for _, i := range w.byID() {
		used[i.Queue] = used[i.Queue] || i.State == compute.StateQueued || i.State == compute.StateStarting
		used[i.Whole()] = true // of what is not offered whole no queue's
		if i.State == compute.StateQueued && gone[i.Queue] {
			left = append(left, fmt.Sprintf("%s is queued in %s, which is gone", i.Boot.Name, i.Queue))
		}
	}
	for _, q := range slices.Sorted(maps.Keys(closed)) {
		if !used[q] || time.Since(closed[q]) < draining {
			left = append(left, fmt.Sprintf("%s is closed since %s", q, w.rec.At(closed[q])))
		}
	}
	return append(left, w.reserved()...)
}

// soonOver is how long a reservation may last for its end to be awaited, and overFor for how long after it is watched.
const soonOver, overFor = 5 * time.Minute, 40 * time.Second

// reserved lists the reservations of which the end is soon, or was just now.
func (w *play) reserved() (left []string) {
	for _, l := range w.Load {
		long := (l.From + l.For).Duration()
		if l.Op == schedule.LoadReserve && long < soonOver && time.Since(w.rec.Start) < l.At.Duration()+long+overFor {
			left = append(left, "reservation "+l.Name+" is not over for long")
		}
	}
	return left
}

// room is a host that offers and looks where the instance waits, which would fit it; empty if there is none.
// The user's rules count, and where it failed before does not.
func (w *play) room(i compute.Instance) compute.HostID {
	if i.Boot.In().ID != "" {
		return w.roomOf(i)
	}
	if p := i.Boot.Placeholder(); p.Kept && w.takenBy(p.Taker, i.ID) {
		return "" // it is in no queue
	}
	i, whole := w.rec.WaitsWhole(i)
	for _, h := range w.World.Hosts {
		if i.Boot.Host != "" && i.Boot.Host != h.ID || slices.Contains(i.Boot.Avoid, h.ID) || !whole && w.ruledOut(i, h.ID) {
			continue
		}
		traits := map[compute.Trait]bool{}
		for _, t := range h.Traits {
			traits[t] = true
		}
		q := compute.Queue{Required: i.Required, Forbidden: i.Forbidden}
		if q.Accepts(traits) && w.rec.IsOffering(h.ID) && w.rec.Needs(i).FitsIn(w.free(h)) {
			return h.ID
		}
	}
	return ""
}

// takenBy says whether an instance that has taken a placeholder is on a host.
func (w *play) takenBy(taker, placeholder compute.InstanceID) bool {
	t := w.rec.Instances()[taker]
	return t.Boot.In().ID == placeholder && t.State.OnHost()
}

// roomOf is a host in whose room something may start that was booted into a reservation: that of its placeholder, or else of
// any other that it may be given.
func (w *play) roomOf(i compute.Instance) compute.HostID {
	now := w.rec.Instances()
	own := now[i.Boot.In().ID]
	if h := w.roomIn(own); h != "" {
		return h
	}
	for _, p := range now {
		if p.Project == i.Project && mayTake(i, own, p) && w.roomIn(p) != "" {
			return p.Host
		}
	}
	return ""
}

// mayTake says whether what waits in a reservation may be given a placeholder of it in place of its own: where a host
// holds that, it waits for the host, unless it failed there.
func mayTake(i, own, p compute.Instance) bool {
	failed := func(h compute.HostID) bool {
		return slices.ContainsFunc(i.Failures, func(f compute.Failure) bool { return f.Host == h })
	}
	of := p.Boot.Placeholder()
	return of.Of == i.Boot.Reservation() && of.Of != "" && of.Taker == "" &&
		(own.State != compute.StateActive || failed(own.Host) && !failed(p.Host))
}

// roomIn is the host of a placeholder in whose room an instance may start; empty: there is none yet.
func (w *play) roomIn(p compute.Instance) compute.HostID {
	if p.State == compute.StateActive && w.rec.IsOffering(p.Host) && !time.Now().Before(p.Boot.Placeholder().From) {
		return p.Host
	}
	return ""
}

// ruledOut says whether the rule of its group keeps an instance from a host. What is preferred is given up.
func (w *play) ruledOut(i compute.Instance, h compute.HostID) bool {
	if i.Waits() {
		return true // the rest of its set may find no room
	}
	key := compute.GroupKey{Project: i.Project, Name: i.Boot.Group()}
	rule, ok := w.World.Group(key)
	if !ok {
		return false
	}
	now := w.rec.Instances()
	return judge.Uneven(now, i, rule, w.Axis(rule.Spread)) != "" ||
		slices.ContainsFunc(w.rec.RulesNow(key), func(rule compute.Group) bool { return judge.RuledOut(now, rule, i, h) })
}

func (w *play) free(h schedule.Host) compute.Resources {
	return h.Totals.Minus(w.hosts[h.ID].Held())
}

// unfinished lists what is left when all was deleted.
func (w *play) unfinished() (left []string) {
	for _, i := range w.byID() {
		if i.State != compute.StateDeleted {
			left = append(left, fmt.Sprintf("%s is %s", i.Boot.Name, i.State))
		}
	}
	for _, h := range w.World.Hosts {
		for _, m := range w.hosts[h.ID].Machines() {
			left = append(left, fmt.Sprintf("%s still has %s", h.ID, m.Instance))
		}
		b := w.rec.LastBeacon(h.ID)
		if b.Machines+b.Building > 0 || !b.Free.Equal(h.Totals) {
			left = append(
				left,
				fmt.Sprintf(
					"%s says it has %d machines, %d builds and %s free of %s",
					h.ID,
					b.Machines,
					b.Building,
					b.Free,
					h.Totals,
				),
			)
		}
	}
	return left
}

func (w *play) askQuotas() {
	logged := func(p compute.Project) (used compute.Resources) {
		for _, i := range w.rec.Instances() {
			if i.Project == p {
				used = used.Plus(judge.Uses(i))
			}
		}
		return used
	}
	for n := range w.World.Nodes {
		for _, p := range w.Projects() {
			seen, err := judge.QuotaSeen{}, error(nil)
			for end := time.Now().Add(listTime); time.Now().Before(end); { // it reads the log, too
				seen = judge.QuotaSeen{Project: p, Before: logged(p)}
				seen.Used, err = w.quotaBy(n, p)
				seen.After = logged(p)
				if err != nil || seen.Used.Equal(seen.After) || !w.sleep(time.Second) {
					break
				}
			}
			if err != nil {
				w.rec.AddViolation("API", "", "node %d does not say what %s uses: %v", n+1, p, err)
			} else {
				w.rec.Quotas = append(w.rec.Quotas, seen)
			}
		}
	}
}

// quotaBy is what a node says that a project uses.
func (w *play) quotaBy(n int, p compute.Project) (used compute.Resources, err error) {
	var q client.Quota
	for range 30 {
		ctx, cancel := context.WithTimeout(w.ours.Life, askTime)
		q, err = w.clients.as(n, p).Quota(ctx, p)
		cancel()
		if err == nil {
			break
		}
		w.sleep(time.Second)
	}
	used = compute.Resources{}
	for _, r := range q.Resources {
		used[r.Class] = r.Used
	}
	return used, err
}

// watchEvery is how often somebody looks at an API node.
const watchEvery = 4 * time.Second

// watch looks at what an API node says, until calm, and remembers.
func (w *play) watch(node int) {
	seen := map[compute.InstanceID]client.Instance{}
	projects := w.Projects()
	for i := 0; !w.settled.Load() && len(projects) > 0; i++ {
		if !w.sleep(watchEvery) {
			return
		}
		p := projects[i%len(projects)]
		ctx, cancel := context.WithTimeout(w.ours.Life, askTime)
		began := time.Now()
		list, err := w.clients.as(node, p).Instances(ctx, client.Filter{All: true})
		cancel()
		if err != nil {
			continue
		}
		w.rec.AddShown(node, list, began)
		now := map[compute.InstanceID]bool{}
		for _, i := range list {
			if i.Name == forgedName { // until it is refused, and gone when lists are compared at the end
				if i.State.Compute() != compute.StateAccepted {
					w.rec.AddViolation("forged", i.ID, "node %d shows a stranger's boot as %s", node+1, i.State)
				}
				continue
			}
			now[i.ID] = true
			if old := seen[i.ID]; i.Version < old.Version {
				w.rec.AddViolation(
					"backwards",
					i.ID,
					"node %d showed %s version %d, and then version %d",
					node+1,
					i.Name,
					old.Version,
					i.Version,
				)
			}
			seen[i.ID] = i
		}
		for id, old := range seen {
			if old.Project == p && !now[id] {
				w.rec.AddViolation(
					"backwards",
					id,
					"node %d showed %s (%s), and then nothing",
					node+1,
					old.Name,
					old.State,
				)
				delete(seen, id)
			}
		}
	}
}
