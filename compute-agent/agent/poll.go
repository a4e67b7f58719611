// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
)

// polls are when the hypervisor is asked what it sees: machines change without us, and so does what others use of
// the host.
type polls struct {
	at     time.Time                   // when the next one is due, or the open one is late; zero: it is said to be
	open   bool                        // one is under way
	hinted bool                        // the hypervisor says that something changed: the next one is due now
	moved  map[compute.InstanceID]bool // something was done for these since the last one began
}

// begin says whether a poll is due, which is under way from then on, and late after so long.
func (p *polls) begin(now time.Time, late time.Duration) bool {
	if p.open || now.Before(p.at) && !p.hinted {
		return false
	}
	p.open, p.hinted, p.at = true, false, now.Add(late)
	clear(p.moved)
	return true
}

// late says, once, that the open poll should have ended by now: a driver that hangs in a call of the system hears of no
// timeout.
func (p *polls) late(now time.Time) bool {
	if !p.open || p.at.IsZero() || now.Before(p.at) {
		return false
	}
	p.at = time.Time{}
	return true
}

// hint has the hypervisor asked soon, unless it is our own doing. t is the task of the machine, nil: it has none.
func (p *polls) hint(e hypervisor.Event, t *task.Task) {
	if t != nil && t.Stage == task.Running && t.Busy == task.Idle && t.Power != e.Power {
		p.hinted = true
	}
}

// seen is one full answer of the hypervisor, and of the journal's disk.
type seen struct {
	machines  []hypervisor.Machine
	inventory hypervisor.Inventory
	room      error // why the journal has no room; nil: it has
}

// ask asks the hypervisor what is there. It is called from workers.
func (o *Options) ask(ctx context.Context) (seen, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timing.Poll)
	defer cancel()
	list, err := o.Driver.List(ctx)
	if err != nil {
		return seen{}, err
	}
	inv, err := o.Driver.Inventory(ctx)
	return seen{list, inv, o.Journal.Room()}, err
}

// askFirst asks the hypervisor what is there, until it answers: without that, the
// agent can say nothing that is certain.
func (a *Agent) askFirst(ctx context.Context) {
	pause := a.opts.Timing.Retry
	for {
		patience := 2 * a.opts.Timing.Poll
		late := time.AfterFunc(patience, func() {
			a.inbox.put(func(l *loop) { l.hypervisorFails(askedAgo(patience)) })
		})
		answer, err := a.opts.ask(ctx)
		late.Stop()
		if err == nil {
			a.inbox.put(func(l *loop) { l.reconcile(answer) })
			return
		}
		a.inbox.put(func(l *loop) {
			l.view.trouble = "the hypervisor does not answer: " + hypervisor.Brief(err.Error())
		})
		a.opts.Log.Warn("the hypervisor does not answer; nothing is done before it does",
			zap.Duration("again within", pause), zap.String("error", hypervisor.Brief(err.Error())))
		if !service.Sleep(ctx, service.Jitter(pause)) {
			return
		}
		pause = min(2*pause, 30*a.opts.Timing.Retry)
	}
}

// listen is told of machines that change without us before they are asked for. What
// it is told is a hint and no more: one that is missed is seen by the next poll.
func (a *Agent) listen(ctx context.Context) {
	events, ok := hypervisor.As[hypervisor.Events](a.opts.Driver)
	if !ok {
		return
	}
	for {
		err := events.Events(ctx, func(e hypervisor.Event) {
			a.inbox.put(func(l *loop) { l.polls.hint(e, l.tasks[e.Instance]) })
		})
		if !service.Sleep(ctx, service.Jitter(a.opts.Timing.Poll)) {
			return
		}
		a.opts.Log.Debug("the hypervisor tells no more of what changes", zap.Error(err))
	}
}

// pollHost asks now and then what the hypervisor sees.
func (l *loop) pollHost(now time.Time) {
	patience := 2 * l.o.Timing.Poll
	if l.polls.late(now) {
		l.hypervisorFails(askedAgo(patience))
	}
	if !l.view.known || l.stopping || !l.polls.begin(now, patience) {
		return
	}
	l.workers.Go(func() {
		answer, err := l.o.ask(l.work)
		l.a.inbox.put(func(l *loop) { l.polled(answer, err) })
	})
}

// hypervisorFails has the host take no work until the hypervisor answers.
func (l *loop) hypervisorFails(why string) {
	l.view.trouble = "the hypervisor does not answer: " + why
	l.log.Warn("the hypervisor does not answer", zap.String("error", why))
}

func askedAgo(patience time.Duration) string { return fmt.Sprintf("it was asked %v ago", patience) }

// polled takes in what the hypervisor sees.
func (l *loop) polled(answer seen, err error) {
	l.polls.open = false
	if l.stopping {
		return
	}
	l.polls.at = time.Now().Add(l.o.Timing.Poll)
	if err != nil {
		l.hypervisorFails(hypervisor.Brief(err.Error()))
		return
	}
	l.know(answer)
	there := map[compute.InstanceID]hypervisor.Machine{}
	for _, m := range answer.machines {
		there[m.Instance] = m
	}
	for id, t := range l.tasks {
		if t.Stage != task.Running || l.polls.moved[id] {
			continue
		}
		m, ok := there[id]
		l.step(id, task.Seen{There: ok && t.Holds(m.Attempt, m.Claim), Power: m.Power, Stopped: stopped(m)})
	}
}
