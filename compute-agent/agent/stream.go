// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// stream is how far the host's stream has been read and acted upon.
type stream struct {
	unread   []heard // read, and not the end yet
	compact  int     // how many those were when repetitions were last removed
	ended    bool    // what is unread goes up to the end
	caughtUp bool    // and acted upon: commands are carried out from now on
	live     bool    // what is read from now on was said a moment ago
	history  bool    // what is unread was said before this journal had a position
	missed   *int64  // where it goes on, as words before that were removed unread; nil: none were
	toGreet  int     // reports to be acknowledged until the hello has arrived; 0: it has
	counted  bool    // toSettle is known
	toSettle int     // reports to be told before the first offer
	settled  bool    // they are

	strangers []compute.Command // about what is not known here, until the hypervisor has been asked
	asking    bool
}

// heard is a record of the host's stream, and the command in it.
type heard struct {
	compute.Command
	rec wire.Record
	err error // it cannot be read
}

// greeted says, once, that the hello has arrived, with so many reports acknowledged.
func (s *stream) greeted(done int) bool {
	if s.toGreet == 0 || done < s.toGreet {
		return false
	}
	s.toGreet = 0
	return true
}

// settle lets the host offer once everything that was true when it caught up has been told; it says so, once.
func (s *stream) settle(by *sender) bool {
	if s.settled || !s.caughtUp {
		return false
	}
	if !s.counted {
		s.toSettle, _ = by.progress()
		s.counted = true
	}
	s.settled = by.told(s.toSettle)
	return s.settled
}

// used says whether any of what is unread, or was removed, was said to an agent of before. What an operator wants of
// the host, and pinned work, may come before the first one; rings follow its first beacon.
func (s *stream) used() bool {
	return s.missed != nil || slices.ContainsFunc(s.unread, func(h heard) bool {
		first := h.Op == compute.CommandHost || h.Op == compute.CommandBuild || h.Op == compute.CommandLook
		return h.err != nil || !first
	})
}

// keep adds what was read. While the hypervisor does not answer, conductors repeat what they said: of what is the same
// the last is enough.
func (s *stream) keep(h heard) {
	if s.unread = append(s.unread, h); s.caughtUp || len(s.unread) < max(2*s.compact, 1000) {
		return
	}
	type words struct {
		op       compute.CommandOp
		instance compute.InstanceID
		attempt  compute.Attempt
		claim    compute.ClaimID
	}
	later := map[words]bool{}
	slices.Reverse(s.unread)
	s.unread = slices.DeleteFunc(s.unread, func(h heard) bool {
		w := words{h.Op, h.Instance, h.Attempt, h.Claim}
		again := later[w] || h.Op == compute.CommandLook
		later[w] = true
		return again && h.err == nil && h.Op != compute.CommandHost && h.Op != compute.CommandFenced
	})
	slices.Reverse(s.unread)
	s.compact = len(s.unread)
}

// readStream keeps what was read until the end is reached: a delete or a fence
// behind a grant must be known before the grant is acted upon.
func (l *loop) readStream(recs []wire.Record, end bool) {
	l.clock.Observe(recs, l.o.Now())
	for _, rec := range recs {
		c, err := wire.DecodeCommand(rec.ReadUpTo(l.o.Reads))
		h := heard{c, rec, err}
		l.hearTwins(h)
		l.stream.keep(h)
	}
	if l.stream.ended = end; end {
		l.begin(time.Now())
	}
	if end && l.stream.caughtUp {
		l.apply()
	}
}

// apply acts on everything that was read. How far, is written down together with
// what follows from it. That a new journal has left its host's past behind is
// written down before anything else: a life after this one must not do so again.
func (l *loop) apply() {
	l.unwritten.urgent = l.unwritten.urgent || l.stream.history
	for _, h := range l.stream.unread {
		c, rec := h.Command, h.rec
		switch {
		case h.err != nil:
			l.reports.reject(rec, h.err)
		case l.stream.history && c.Op != compute.CommandHost && c.Op != compute.CommandFenced:
			// Said to the journal before this one. What is still open of it, the
			// conductors repeat after our hello.
		case !l.stream.live && c.Op == compute.CommandPower:
			// It may have been done, and answered, by a journal of which this one is an older copy. What was not answered
			// the conductors repeat.
		default:
			at := l.clock.At(l.o.Now())
			l.command(notTooLate(byOwnClock(c, rec, at), rec, at), rec.Offset)
		}
		if rec.Offset < l.unwritten.position {
			continue // words behind it were missed after it was read
		}
		l.unwritten.passed = rec.Offset + 1
		if !passing(c.Op) || l.stream.history || rec.Offset-l.unwritten.position > asksAgain {
			l.unwritten.readPassed()
		}
	}
	if l.stream.history && len(l.stream.unread) == 0 {
		l.unwritten.readUpTo(l.unwritten.position) // the end of a stream that is still empty is a position too
	}
	if l.stream.history {
		// Whether all that was said before was acted on, nobody knows; from now on
		// it has been. What is claimed from here on is newer than any fence in it.
		l.fence(compute.FenceEpoch(l.unwritten.position))
	}
	l.stream.unread, l.stream.history, l.stream.live = nil, false, true
}

// asksAgain is how many asks about consoles, and looks, may be read again: that does
// no harm, and to write down the position behind each would.
const asksAgain = 1000

// passing says whether a command means nothing any more once the agent has ended.
func passing(op compute.CommandOp) bool {
	switch op {
	case compute.CommandConsole, compute.CommandLook, compute.CommandTwins, compute.CommandBegun, compute.CommandAlone:
		return true
	}
	return false
}

// fence writes down what every claim from now on carries. It never falls.
func (l *loop) fence(epoch compute.FenceEpoch) {
	if epoch > l.host.Fence {
		l.host.Fence = epoch
		l.keepHost()
	}
}

// fenced ends what was here when the host was declared dead. For a new journal
// that may have been long ago, and what was made since then stays: the hypervisor
// knows under which fence it was made.
func (l *loop) fenced(epoch compute.FenceEpoch) {
	l.log.Warn("this host was declared dead: everything on it from before is destroyed",
		zap.Int("instances", len(l.tasks)), zap.Uint64("fence", uint64(epoch)))
	state, _ := l.state(time.Now())
	offers := state == compute.HostEnabled || state == compute.HostQuarantined && l.hearing.deaf // it hears this
	for id, t := range l.tasks {
		if offers && t.Fence < epoch {
			l.beginAgain(id, *t)
		}
		l.step(id, task.Fenced{Epoch: epoch})
	}
	l.fence(epoch)
}

// missed takes note that words were removed before they were read.
func (l *loop) missed(next int64) {
	if l.stream.missed = &next; l.stream.caughtUp {
		l.endMissed()
	}
}

// endMissed acts as if the host had been declared dead by a word that was removed unread, except that machines stay:
// see task.Missed. The epoch of such a word was not above where the stream goes on. In a stream that was made anew
// epochs begin anew, so that of the host may fall.
func (l *loop) endMissed() {
	if l.stream.missed == nil {
		return
	}
	next := *l.stream.missed
	l.log.Warn("words to this host were removed before they were read: what it has not launched is given up",
		zap.Int64("from", l.unwritten.position), zap.Int64("to", next))
	for id := range l.tasks {
		l.step(id, task.Missed{})
	}
	l.unwritten.readUpTo(next)
	l.host.Fence = compute.FenceEpoch(next)
	l.keepHost()
	l.stream.missed = nil
}

// beginAgain has what no other host takes begun anew once nothing is left of it. A member of a group is offered
// elsewhere where the group has lost its host, and the placeholder whose room another has ends with that.
func (l *loop) beginAgain(id compute.InstanceID, t task.Task) {
	b, offered := l.builds[id]
	if offered && t.Pinned && t.Stage <= task.Claiming && t.Group == "" && t.In.ID == "" {
		l.fetches.Pin(b)
	}
}

// command acts on what the stream says at an offset.
func (l *loop) command(c compute.Command, offset int64) {
	switch c.Op {
	case compute.CommandHost:
		l.desire(*c.Desired)
	case compute.CommandBuild:
		l.fetches.Pin(*c.Build)
	case compute.CommandConsole:
		t, known := l.tasks[c.Instance]
		l.consoles.ask(consoleAsk{c, known && t.Project == c.Project})
	case compute.CommandLook:
		l.ring(*c.Look)
	case compute.CommandTwins, compute.CommandBegun, compute.CommandAlone: // hearTwins has taken them
	case compute.CommandFenced:
		l.fenced(compute.FenceEpoch(offset) + 1)
	default:
		if !l.word(c) {
			l.strange(c)
		}
	}
}

// word tells a task what the conductor says about its attempt and claim; false
// if there is no such task.
func (l *loop) word(c compute.Command) bool {
	t, ok := l.tasks[c.Instance]
	if !ok || !t.Holds(c.Attempt, c.Claim) {
		return false
	}
	switch c.Op {
	case compute.CommandGrant:
		l.o.Metrics.answered(t)
		l.traceAnswer(t, "")
		l.step(c.Instance, task.Granted{Attempt: c.Attempt, Claim: c.Claim})
	case compute.CommandDeny:
		l.o.Metrics.answered(t)
		l.traceAnswer(t, "denied")
		if t.Stage == task.Claiming {
			l.a.counts.denied.Add(1)
		}
		l.step(c.Instance, task.Denied{Attempt: c.Attempt, Claim: c.Claim})
	case compute.CommandConfirm:
		l.step(c.Instance, task.Confirm{
			Attempt: c.Attempt, Claim: c.Claim, Queue: c.Queue, Group: c.Group, In: c.In,
			Preemptible: c.Preemptible, Noticed: c.Noticed, TimesTaken: c.TimesTaken,
		})
	case compute.CommandDelete:
		l.step(c.Instance, task.Deleted{Attempt: c.Attempt, Claim: c.Claim})
	case compute.CommandPower:
		l.step(c.Instance, task.Commanded{
			Attempt: c.Attempt, Claim: c.Claim, Power: *c.Power,
			OtherJournal: c.Power.Journal != "" && c.Power.Journal != l.a.begin.ID,
		})
	}
	return true
}

// desire takes what an operator wants of the host. The later wish in the stream counts: the versions are of the clocks
// of API nodes, which may be wrong. Beacons say a version that is never lower than that of the wish, so that
// it can be seen to be read, if the wish before it had a lower one.
func (l *loop) desire(d compute.HostDesired) {
	d.Version = max(d.Version, l.host.Desired.Version+1)
	l.log.Info(
		"the operator wants the host", zap.Stringer("state", d.State), zap.String("reason", d.Reason),
		zap.Time("deadline", d.Deadline),
	)
	l.host.Desired = d
	if d.State == compute.HostEnabled {
		l.starts.trust(time.Now())
	}
	l.keepHost()
}

func (l *loop) keepHost() {
	h := withGuard(l.host, l.starts.host)
	l.host, l.unwritten.change.Host, l.unwritten.urgent = h, &h, true
	l.fetches.Changed()
}

// strange has the hypervisor asked before anything is said about what the
// journal does not know.
func (l *loop) strange(c compute.Command) {
	if c.Op == compute.CommandDeny || c.Op == compute.CommandNone {
		return
	}
	l.stream.strangers = append(l.stream.strangers, c)
	l.askStrangers()
}

func (l *loop) askStrangers() {
	if l.stream.asking || len(l.stream.strangers) == 0 {
		return
	}
	about := l.stream.strangers
	l.stream.strangers, l.stream.asking = nil, true
	l.workers.Go(func() {
		ctx, cancel := context.WithTimeout(l.work, l.o.Timing.Poll)
		defer cancel()
		list, err := l.o.Driver.List(ctx)
		l.a.inbox.put(func(l *loop) { l.answerStrangers(about, list, err) })
	})
}

// answerStrangers speaks for what neither journal nor hypervisor knows. Without an answer of the hypervisor nothing
// is said: the conductor will ask again.
func (l *loop) answerStrangers(about []compute.Command, list []hypervisor.Machine, err error) {
	l.stream.asking = false
	defer l.askStrangers()
	if err != nil {
		l.log.Warn("cannot answer for what is not in the journal: the hypervisor does not list",
			zap.Int("commands", len(about)), zap.String("error", hypervisor.Brief(err.Error())))
		return
	}
	there := map[compute.InstanceID]task.Machine{}
	for _, m := range machines(list) {
		there[m.Instance] = m
	}
	for _, c := range about {
		m, ok := there[c.Instance]
		if _, known := l.tasks[c.Instance]; ok && !known && m.Attempt == c.Attempt && m.Claim == c.Claim {
			for _, adopted := range l.rules.Reconcile(nil, []task.Machine{m}, time.Now()) {
				l.adopt(adopted)
			}
		}
		if l.word(c) {
			continue
		}
		if r := task.Stranger(c, l.over.past(c)); r != nil {
			l.reports.tell(*r)
		}
	}
}
