// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
)

// view is what the hypervisor says of the host.
type view struct {
	known   bool // it has answered since the agent began
	trouble string
	full    string     // why the journal has no room; empty: it has
	host    offer.Host // as it is offered
	traits  map[compute.Trait]bool
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
	l.polls.at = time.Now().Add(l.o.Timing.Poll)
	close(l.a.ready)
}

func (l *loop) adopt(x task.Adopted) {
	t := x.Task
	l.tasks[t.Instance] = &t
	l.polls.moved[t.Instance] = true // a poll that is under way may have begun before the machine was there
	l.free = nil
	l.follow(t.Instance, t.Claim, x.Actions)
}

func (l *loop) know(answer seen) {
	inv := answer.inventory
	l.view.trouble = ""
	l.view.makeRoom(answer.room, l.log)
	l.view.host, l.view.traits = l.o.Terms.Offer(inv.Inventory, inv.Nodes, inv.Devices), offer.Traits(inv.Traits)
	l.free = nil
	l.fetches.Describe(l.view.host.Inventory.Totals, l.view.traits)
}

// makeRoom takes note of whether the journal has room. Without it the host offers nothing:
// it would take work, end over its first write, and do so again with each start,
// which wears the work out. What is on the host already goes on as far as it can.
func (v *view) makeRoom(err error, log *zap.Logger) {
	switch {
	case err != nil && v.full == "":
		log.Error("nothing is offered until the journal has room", zap.Error(err))
	case err == nil && v.full != "":
		log.Info("the journal has room again")
	}
	if v.full = ""; err != nil {
		v.full = err.Error()
	}
}

// catchUp acts on the stream once both it and the hypervisor have answered, and no other agent speaks for
// this host.
func (l *loop) catchUp() {
	if l.stream.caughtUp || !l.stream.ended || !l.view.known || !l.twins.began {
		return
	}
	l.stream.caughtUp = true
	l.stream.history = !l.a.begin.Positioned
	if !l.host.Greeted {
		l.reports.hello()
		l.speak(time.Now())
		l.stream.toGreet, _ = l.sender.progress()
	}
	now := time.Now()
	for _, t := range l.tasks {
		if t.Stage == task.Claiming { // whether it is granted may be read now
			t.Since, t.Asked = now, now
		}
	}
	l.endMissed()
	l.apply()
}
