// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// view is what the hypervisor says of the host.
type view struct {
	known   bool // it has answered since the agent began
	trouble string
	full    string     // why the journal has no room; empty: it has
	twins   string     // which agents speak for this host; empty: only this one, as far as it knows
	alone   time.Time  // when that is over unless it is said again
	fresh   bool       // the journal is new and the name is not: that is what is waited for
	host    offer.Host // as it is offered
	traits  map[compute.Trait]bool
	pollAt  time.Time
	polling bool
	hinted  bool                        // the hypervisor says that something changed
	moved   map[compute.InstanceID]bool // something was done for these since the poll began
}

// seen is one full answer of the hypervisor, and of the journal's disk.
type seen struct {
	machines  []hypervisor.Machine
	inventory hypervisor.Inventory
	room      error // why the journal has no room; nil: it has
}

// begin asks the hypervisor what is there, until it answers: without that, the
// agent can say nothing that is certain.
func (l *loop) begin() {
	l.workers.Go(func() {
		pause := l.o.Timing.Retry
		for {
			answer, err := l.ask()
			if err == nil {
				l.a.inbox.put(func(l *loop) { l.reconcile(answer) })
				return
			}
			l.a.inbox.put(func(l *loop) {
				l.view.trouble = "the hypervisor does not answer: " + hypervisor.Brief(err.Error())
			})
			l.log.Warn("the hypervisor does not answer; nothing is done before it does",
				zap.Duration("again within", pause), zap.String("error", hypervisor.Brief(err.Error())))
			if !service.Sleep(l.work, service.Jitter(pause)) {
				return
			}
			pause = min(2*pause, 30*l.o.Timing.Retry)
		}
	})
}

// ask is called from workers.
func (l *loop) ask() (seen, error) {
	ctx, cancel := context.WithTimeout(l.work, l.o.Timing.Poll)
	defer cancel()
	list, err := l.o.Driver.List(ctx)
	if err != nil {
		return seen{}, err
	}
	inv, err := l.o.Driver.Inventory(ctx)
	return seen{list, inv, l.o.Journal.Room()}, err
}

// reconcile brings the journal and the hypervisor together. What follows is
// written down now and carried out once the stream has been read to its end.
func (l *loop) reconcile(answer seen) {
	var remembered []task.Task
	for _, e := range l.a.begin.Entries {
		remembered = append(remembered, recall(e))
	}
	for _, adopted := range l.rules.Reconcile(remembered, machines(answer.machines), time.Now()) {
		l.adopt(adopted)
	}
	l.view.known = true
	l.know(answer)
	if is := home(l.o.Driver.Capabilities()); l.host.Driver != is {
		l.host.Driver = is
		l.keepHost()
	}
	l.view.pollAt = time.Now().Add(l.o.Timing.Poll)
	close(l.a.ready)
}

func (l *loop) adopt(x task.Adopted) {
	t := x.Task
	l.tasks[t.Instance] = &t
	l.free = nil
	l.follow(t.Instance, t.Claim, x.Actions)
}

func (l *loop) know(answer seen) {
	inv := answer.inventory
	l.view.trouble = ""
	l.makeRoom(answer.room)
	l.view.host, l.view.traits = l.o.Terms.Offer(inv.Inventory, inv.Nodes, inv.Devices), offer.Traits(inv.Traits)
	l.free = nil
	l.fetches.Describe(l.view.host.Inventory.Totals, l.view.traits)
}

// makeRoom takes note of whether the journal has room. Without it the host offers nothing:
// it would take work, end over its first write, and do so again with each start,
// which wears the work out. What is on the host already goes on as far as it can.
func (l *loop) makeRoom(err error) {
	switch {
	case err != nil && l.view.full == "":
		l.log.Error("nothing is offered until the journal has room", zap.Error(err))
	case err == nil && l.view.full != "":
		l.log.Info("the journal has room again")
	}
	if l.view.full = ""; err != nil {
		l.view.full = err.Error()
	}
}

// catchUp acts on the stream once both it and the hypervisor have answered.
func (l *loop) catchUp() {
	if l.stream.caughtUp || !l.stream.ended || !l.view.known {
		return
	}
	l.stream.caughtUp = true
	l.stream.history = !l.a.begin.Positioned
	if !l.host.Greeted {
		l.hello()
	}
	l.apply()
}

// hello tells every conductor that this host has missed whatever its stream
// said before this journal. Every life says it until all of it has arrived.
func (l *loop) hello() {
	now := time.Now().UTC()
	for p := range l.o.Partitions {
		me := l.voice()
		rec := wire.EncodeReport(compute.Report{
			Op: compute.ReportHello, Host: l.o.Host, Journal: me.Journal, Started: me.Started, At: l.o.Now().UTC(),
		})
		l.saying = append(l.saying, said{rec: rec.To(l.o.Topics.Reports(), p)})
	}
	l.speak(now)
	l.stream.toGreet, _ = l.sender.progress()
}

// greeted writes down that the hello has arrived.
func (l *loop) greeted() {
	if _, done := l.sender.progress(); l.stream.toGreet == 0 || done < l.stream.toGreet {
		return
	}
	l.stream.toGreet, l.host.Greeted = 0, true
	l.keepHost()
}

// settle lets the host offer once everything that was true when it caught up
// has been told.
func (l *loop) settle() {
	switch {
	case l.stream.settled || !l.stream.caughtUp:
	case !l.stream.counted:
		l.stream.toSettle, _ = l.sender.progress()
		l.stream.counted = true
		fallthrough
	default:
		if _, done := l.sender.progress(); done >= l.stream.toSettle {
			l.stream.settled = true
			l.fetches.Changed()
			l.log.Info("caught up", zap.Int("instances", len(l.tasks)))
		}
	}
}

// pollHost asks now and then what the hypervisor sees: machines change without
// us, and so does what others use of the host.
func (l *loop) pollHost(now time.Time) {
	if !l.view.known || l.view.polling || l.stopping || now.Before(l.view.pollAt) && !l.view.hinted {
		return
	}
	l.view.polling, l.view.hinted, l.view.pollAt = true, false, time.Time{}
	clear(l.view.moved)
	l.workers.Go(func() {
		answer, err := l.ask()
		l.a.inbox.put(func(l *loop) { l.polled(answer, err) })
	})
}

// listen is told of machines that change without us before they are asked for. What
// it is told is a hint and no more: one that is missed is seen by the next poll.
func (l *loop) listen() {
	events, ok := hypervisor.As[hypervisor.Events](l.o.Driver)
	if !ok {
		return
	}
	l.workers.Go(func() {
		for {
			err := events.Events(l.work, func(e hypervisor.Event) {
				l.a.inbox.put(func(l *loop) { l.hint(e) })
			})
			if !service.Sleep(l.work, service.Jitter(l.o.Timing.Poll)) {
				return
			}
			l.log.Debug("the hypervisor tells no more of what changes", zap.Error(err))
		}
	})
}

// hint has the hypervisor asked soon, unless it is our own doing.
func (l *loop) hint(e hypervisor.Event) {
	if t := l.tasks[e.Instance]; t != nil && t.Stage == task.Running && t.Busy == task.Idle && t.Power != e.Power {
		l.view.hinted = true
	}
}

func (l *loop) polled(answer seen, err error) {
	l.view.polling = false
	if l.stopping {
		return
	}
	l.view.pollAt = time.Now().Add(l.o.Timing.Poll)
	if err != nil {
		l.view.trouble = fmt.Sprint("the hypervisor does not answer: ", hypervisor.Brief(err.Error()))
		l.log.Warn("the hypervisor does not answer", zap.String("error", hypervisor.Brief(err.Error())))
		return
	}
	l.know(answer)
	there := map[compute.InstanceID]hypervisor.Machine{}
	for _, m := range answer.machines {
		there[m.Instance] = m
	}
	for id, t := range l.tasks {
		if t.Stage != task.Running || l.view.moved[id] {
			continue
		}
		m, ok := there[id]
		l.step(id, task.Seen{There: ok && t.Holds(m.Attempt, m.Claim), Power: m.Power, Stopped: stopped(m)})
	}
}
