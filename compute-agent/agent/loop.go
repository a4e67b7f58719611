// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/fetch"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// loop is a running agent: all that is known, owned by one goroutine. An iteration
// takes in what came, decides, writes the journal once, and only then carries
// out what was decided.
//
//	begin: hypervisor lists ─▶ reconciled ─▶ stream read to its end ─▶ alone under its name ─▶ caught up:
//	all decided so far is carried out ─▶ reports acknowledged, but those for what is late ─▶ settled: offers
type loop struct {
	a      *Agent
	o      *Options
	rules  task.Rules
	log    *zap.Logger
	sender *sender
	began  time.Time
	clock  wire.Clock // deadlines of others are judged by the time of the log

	work    context.Context // of calls to the outside; ends with the loop
	stop    context.CancelFunc
	workers sync.WaitGroup

	tasks  tasks
	refs   deliveries
	builds map[compute.InstanceID]compute.Build
	over   overClaims
	host   journal.Host
	starts starts
	twins  twins

	unwritten unwritten
	decided   []pending // to be carried out once it is written
	reports   reports
	failed    error // the loop ends with it
	stopping  bool
	stopBy    time.Time // zero: not stopping
	giveUpAt  time.Time // when what is claimed then is given back; zero: not stopping, or done

	calls    calls
	consoles *consoles

	stream  stream
	view    view
	polls   polls
	fetches *fetch.Fetcher
	free    *offer.Room // what nothing on the host holds; nil: to be worked out anew
	beacon  beacons
	hearing hearing
	drain   drain
	lacking lacking
	made    madeRoom
}

// pending is an action that waits for the journal.
type pending struct {
	id     compute.InstanceID
	action task.Action
	claim  compute.ClaimID // that the task had when this was decided
}

func newLoop(a *Agent) *loop {
	l := &loop{
		a: a, o: &a.opts, rules: a.opts.Timing.rules(), log: a.opts.Log, began: time.Now(),
		tasks: tasks{}, refs: deliveries{},
		builds: map[compute.InstanceID]compute.Build{}, over: newOverClaims(a.begin), host: a.begin.Host,
		starts:    newStarts(guardOf(a.begin.Host).Restored(time.Now()), a.opts.Timing.Quarantine, a.opts.Log),
		unwritten: newUnwritten(&a.opts, a.begin.Position),
		consoles:  newConsoles(&a.opts),
		polls:     polls{moved: map[compute.InstanceID]bool{}},
	}
	l.calls = newCalls(a.opts.Slots, l.call)
	l.twins.me = compute.Voice{Journal: a.begin.ID, Started: a.opts.Now().UTC()}
	if a.begin.Positioned {
		l.twins.ask()
	}
	l.reports = reports{o: l.o, me: l.twins.me, counts: &a.counts}
	l.fetches = fetch.New(fetch.Options{
		Host: a.opts.Host, Weigher: a.opts.Weigher, Puller: a.opts.Puller, LeaveAlone: a.opts.Timing.LeaveAlone,
		Retry: a.opts.Timing.Retry, Log: a.opts.Log, Opened: func() { a.counts.offers.Add(1) },
		Saved: l.savingEnded,
	})
	l.sender = newSender(a.opts, func(batch []said) { a.inbox.put(func(l *loop) { l.acknowledged(batch) }) })
	return l
}

func (l *loop) run(ctx context.Context) error {
	l.work, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	defer l.leave(context.WithoutCancel(ctx))
	defer l.workers.Wait()
	defer l.stop()
	l.workers.Go(func() { l.sender.run(l.work) })
	l.workers.Go(func() { l.a.askFirst(l.work) })
	l.workers.Go(func() { l.a.listen(l.work) })
	for range consoleWorkers {
		l.workers.Go(func() { l.consoles.run(l.work) })
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	done := ctx.Done()
	for l.failed == nil && !l.finished() {
		select {
		case <-l.a.inbox.news:
		case p := <-l.o.Puller.Results():
			l.pulled(p)
		case <-timer.C:
		case <-done:
			done = nil
			l.quit()
		}
		l.iterate()
		timer.Reset(max(0, time.Until(l.due())))
	}
	if l.failed == nil {
		l.unwritten.urgent = true
		l.unwritten.readPassed()
		l.failed = l.unwritten.write(l.tasks, time.Now())
	}
	return l.failed
}

// iterate takes in all that has come, then acts.
func (l *loop) iterate() {
	for _, m := range l.a.inbox.all() {
		m(l)
	}
	now := time.Now()
	l.catchUp()
	if _, done := l.sender.progress(); l.stream.greeted(done) {
		l.host.Greeted = true
		l.keepHost()
	}
	for id, t := range l.tasks {
		if due := l.dueOf(t); !due.IsZero() && !now.Before(due) {
			l.step(id, task.Tick{})
		}
	}
	l.giveUp(now)
	l.stuck(now)
	if l.twins.over(now) {
		l.log.Info("no other agent speaks for this host any more")
		l.fetches.Changed()
	}
	if l.hearing.changed(l.o.Heard, now) {
		if l.hearing.deaf {
			l.log.Warn("nothing is taken: " + deafWhy)
		} else {
			l.log.Info("the host's stream is read again")
		}
		l.fetches.Changed()
	}
	l.pollHost(now)
	l.giveUpPlaceholders()
	l.startPinned(now)
	l.fetches.GiveBack(now)
	committed := l.commit(now)
	l.speak(now)
	if committed {
		if l.stream.settle(l.sender) {
			l.log.Info("caught up", zap.Int("instances", len(l.tasks)))
			l.fetches.Changed()
		}
		l.look(now)
		if l.stream.caughtUp { // before, a later wish may lie in the stream
			l.drain.note(l.host.Desired, len(l.tasks), now, l.log)
		}
		l.publishBeacon(now)
	}
}

// due is when the loop must go on though nothing comes.
func (l *loop) due() time.Time {
	next := time.Now().Add(time.Hour)
	at := func(when time.Time) {
		if !when.IsZero() && when.Before(next) {
			next = when
		}
	}
	for _, t := range l.tasks {
		at(l.dueOf(t))
	}
	at(l.polls.at)
	at(l.calls.due())
	at(l.twins.until)
	at(l.fetches.Due())
	at(l.beacon.due)
	at(l.drain.due)
	at(l.unwritten.by)
	at(l.stopBy)
	at(l.giveUpAt)
	return next
}

// dueOf is when a task goes on though nothing comes; zero: never. Before the stream was read to its end no answer to a
// claim is late: it may be in there.
func (l *loop) dueOf(t *task.Task) time.Time {
	if t.Stage == task.Claiming && !l.stream.caughtUp {
		return time.Time{}
	}
	return l.rules.Due(*t)
}

// commit writes down what the iteration decided, and then carries it out. Before the
// stream was read to its end nothing is carried out: a word behind the last
// one read may forbid it.
func (l *loop) commit(now time.Time) bool {
	if err := l.unwritten.write(l.tasks, now); err != nil {
		l.failed = err
		return false
	}
	if l.stream.caughtUp {
		decided := l.decided
		l.decided = nil
		for _, p := range decided {
			l.carryOut(p)
		}
	}
	return true
}

// step tells a task what happened and keeps what follows for the end of the
// iteration.
func (l *loop) step(id compute.InstanceID, e task.Event) {
	t, ok := l.tasks[id]
	if !ok {
		return
	}
	next, actions := l.rules.Step(*t, e, time.Now())
	if hasSlot(next) != hasSlot(*t) {
		l.fetches.Changed()
	}
	if next.In != t.In { // a host that had forgotten it held that room twice
		l.free = nil
		l.fetches.Changed()
	}
	l.polls.moved[id] = l.polls.moved[id] || next.Busy != t.Busy || next.Stage != t.Stage
	*t = next
	l.follow(id, t.Claim, actions)
}

func (l *loop) follow(id compute.InstanceID, claim compute.ClaimID, actions []task.Action) {
	for _, a := range actions {
		switch a.(type) {
		case task.Journal:
			l.unwritten.tasks[id], l.unwritten.urgent = true, true
		case task.Note:
			l.unwritten.tasks[id] = true
		case task.GiveBack:
			l.rememberGiven(id)
		case task.KeepFailure:
			l.rememberFailure(id, l.tasks[id].End.Failure)
		case task.Forget:
			l.forget(id)
		default:
			l.decided = append(l.decided, pending{id: id, action: a, claim: claim})
		}
	}
}

// forget drops a task that is over: nothing of it is left and all is told.
func (l *loop) forget(id compute.InstanceID) {
	delete(l.tasks, id)
	l.answer(id, wire.AckRelease) // it has its answer by now
	delete(l.builds, id)
	l.unwritten.forget(id)
	l.free, l.beacon.freed = nil, true
	l.fetches.Freed(time.Now())
}

// savingEnded has others told at once, and the host look at once, that what was kept for one queue is free again.
func (l *loop) savingEnded(why string) {
	l.o.Metrics.savingEnded(why)
	l.made.asked = 0
	l.beacon.freed = true
	l.fetches.Freed(time.Now())
}

// fail ends the loop: the agent cannot go on safely.
func (l *loop) fail(err error) {
	if l.failed == nil {
		l.failed = err
	}
}
