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
//	begin: hypervisor lists ─▶ reconciled ─▶ stream read to its end ─▶ caught up:
//	all decided so far is carried out ─▶ reports acknowledged ─▶ settled: offers
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

	tasks  map[compute.InstanceID]*task.Task
	refs   map[compute.InstanceID]wire.WorkRef // the queue's records that are not answered yet
	builds map[compute.InstanceID]compute.Build
	given  given
	host   journal.Host
	guard  offer.Guard
	images images

	change   journal.Change // to be written: at the end of the iteration if it is urgent, soon if not
	urgent   bool
	writeBy  time.Time // zero: there is nothing to write
	dirty    map[compute.InstanceID]bool
	forgot   map[compute.InstanceID]bool
	decided  []pending // to be carried out after that
	saying   []said    // to be handed to the sender at the end of the iteration
	failed   error     // the loop ends with it
	stopping bool
	stopBy   time.Time // zero: not stopping
	giveUpAt time.Time // when what is claimed then is given back; zero: not stopping, or done

	calls    calls
	consoles *consoles

	stream  stream
	view    view
	fetches *fetch.Fetcher
	free    *offer.Room // what nothing on the host holds; nil: to be worked out anew
	beacon  beacons
	drain   drain
}

// pending is an action that waits for the journal.
type pending struct {
	id     compute.InstanceID
	action task.Action
	claim  compute.ClaimID // whose action it is
}

func newLoop(a *Agent) *loop {
	l := &loop{
		a: a, o: &a.opts, rules: a.opts.Timing.rules(), log: a.opts.Log, began: time.Now(),
		tasks: map[compute.InstanceID]*task.Task{}, refs: map[compute.InstanceID]wire.WorkRef{},
		builds: map[compute.InstanceID]compute.Build{}, given: newGiven(a.begin.Given),
		host: a.begin.Host, guard: guardOf(a.begin.Host), images: images{},
		stream: stream{written: a.begin.Position}, dirty: map[compute.InstanceID]bool{},
		forgot: map[compute.InstanceID]bool{}, calls: newCalls(a.opts.Slots),
		consoles: newConsoles(&a.opts),
		view:     view{moved: map[compute.InstanceID]bool{}},
	}
	l.fetches = fetch.New(fetch.Options{
		Host: a.opts.Host, Weigher: a.opts.Weigher, Puller: a.opts.Puller, LeaveAlone: a.opts.Timing.LeaveAlone,
		Retry: a.opts.Timing.Retry, Log: a.opts.Log, Opened: func() { a.counts.offers.Add(1) },
	})
	l.sender = newSender(a.opts, func(batch []said) { a.inbox.put(func(l *loop) { l.acknowledged(batch) }) })
	return l
}

func (l *loop) run(ctx context.Context) error {
	l.work, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	defer l.workers.Wait()
	defer l.stop()
	l.workers.Go(func() { l.sender.run(l.work) })
	l.begin()
	l.listen()
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
		l.urgent = true
		l.write(time.Now())
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
	l.greeted()
	for id, t := range l.tasks {
		if due := l.rules.Due(*t); !due.IsZero() && !now.Before(due) {
			l.step(id, task.Tick{})
		}
	}
	l.giveUp(now)
	l.aloneAgain(now)
	l.pollHost(now)
	l.startPinned(now)
	l.fetches.GiveBack(now)
	committed := l.commit(now)
	l.speak(now)
	if committed {
		l.settle()
		l.look(now)
		l.drained(now)
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
		at(l.rules.Due(*t))
	}
	at(l.view.pollAt)
	at(l.view.alone)
	at(l.fetches.Due())
	at(l.beacon.due)
	at(l.drain.due)
	at(l.writeBy)
	at(l.stopBy)
	at(l.giveUpAt)
	return next
}

// commit writes down what the iteration decided, and then carries it out. Before the
// stream was read to its end nothing is carried out: a word behind the last
// one read may forbid it.
func (l *loop) commit(now time.Time) bool {
	if !l.write(now) {
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

// write brings everything that changed to the disk, if some of it must be there
// before the loop goes on, or if the rest has waited long enough: each write
// costs the disk the same, however much is in it. What is on the disk is so
// always all that was decided up to some moment, the stream's position included.
func (l *loop) write(now time.Time) bool {
	if l.change.Empty() && len(l.dirty) == 0 && len(l.forgot) == 0 {
		return true
	}
	if l.writeBy.IsZero() {
		l.writeBy = now.Add(l.o.Timing.Note)
	}
	if !l.urgent && now.Before(l.writeBy) {
		return true
	}
	for id := range l.dirty {
		if t, ok := l.tasks[id]; ok {
			l.change.Put = append(l.change.Put, remember(*t))
		}
	}
	for id := range l.forgot {
		if _, again := l.tasks[id]; !again {
			l.change.Forget = append(l.change.Forget, id)
		}
	}
	began := time.Now()
	if err := l.o.Journal.Write(l.change); err != nil {
		l.failed = err
		return false
	}
	l.o.Metrics.wrote(began)
	l.change, l.urgent, l.writeBy = journal.Change{}, false, time.Time{}
	clear(l.dirty)
	clear(l.forgot)
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
	l.view.moved[id] = l.view.moved[id] || next.Busy != t.Busy || next.Stage != t.Stage
	*t = next
	l.follow(id, t.Claim, actions)
}

func (l *loop) follow(id compute.InstanceID, claim compute.ClaimID, actions []task.Action) {
	for _, a := range actions {
		switch a.(type) {
		case task.Journal:
			l.dirty[id], l.urgent = true, true
		case task.Note:
			l.dirty[id] = true
		case task.GiveBack:
			t := l.tasks[id]
			l.change.GiveBack = append(l.change.GiveBack, l.given.add(t.Instance, t.Attempt, t.Claim, time.Now()))
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
	delete(l.refs, id)
	delete(l.builds, id)
	delete(l.dirty, id)
	l.forgot[id] = true
	l.free = nil
	l.fetches.Freed(time.Now())
}

// fail ends the loop: the agent cannot go on safely.
func (l *loop) fail(err error) {
	if l.failed == nil {
		l.failed = err
	}
}
