// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// report hears what an agent says. Only a claim and an unexpected "started"
// are answered; everything else either matches the record's host, attempt and
// claim, or is behind the times and ignored.
func (s *step) report(r compute.Report) {
	if err := r.Check(); err != nil {
		s.reject(err.Error())
		return
	}
	if r.Op == compute.ReportHello {
		s.hello(r.Host, r.Voice())
		return
	}
	s.reportHeard(r)
	e := s.find(r.Project, r.Instance)
	switch {
	case r.Op == compute.ReportClaim:
		s.claim(e, r)
	case r.Op == compute.ReportPinned:
		s.pinnedRefused(e, r)
	case r.Op == compute.ReportPreempt:
		s.preempt(e, r)
	case e != nil && isHolder(e.inst, r):
		s.fromHolder(e, r)
	case e.keeps(r) && absent(r.Op):
		s.loseKept(e)
	case r.Op == compute.ReportStarted:
		s.unexpected(e, r)
	}
}

// isHolder says whether the report is from the host that has the instance now, about
// the attempt and claim it has it by.
func isHolder(inst *compute.Instance, r compute.Report) bool {
	return inst.State.OnHost() && inst.Host == r.Host && inst.Attempt == r.Attempt && inst.Claim == r.Claim
}

// fromHolder hears the one host that may have the machine.
//
//	           started     changed   failed           returned      gone
//	starting   active      –         next attempt     next attempt  next attempt
//	active     (confirms)  power     error            error         error
//	  to be requeued                 next attempt     next attempt  next attempt
//	deleting   –           –         deleted          deleted       deleted
func (s *step) fromHolder(e *entry, r compute.Report) {
	state := e.inst.State
	if due := s.countsFrom(e, r); !due.IsZero() && absent(r.Op) {
		s.askAgainAbout(e, r, due)
		return
	}
	switch r.Op {
	case compute.ReportStarted, compute.ReportChanged:
		s.machineThere(e, r)
	case compute.ReportFailed, compute.ReportGone, compute.ReportReturned:
		switch {
		case state == compute.StateDeleting:
			s.deleted(e, e.inst.Reason)
		case state == compute.StateStarting:
			s.revoke(e, r) // whoever reports may have a copy of the journal
			s.failedAttempt(e, failure(r, s.at()))
		case requeues(e.inst):
			if s.byAnother(e, r) {
				s.revoke(e, r)
			}
			s.requeuePreempted(e)
		default:
			// Returned, too: an agent whose journal forgot the grant finds no machine.
			if (e.inst.Command != nil || e.inst.IsPlaceholder()) && s.byAnother(e, r) {
				s.revoke(e, r)
			}
			s.lostActive(e, r)
		}
	}
}

// revoke takes back what a report ends, a grant or a power command: the agent that got it may come back, from a power
// cut or a long pause, with that before it in its stream, and run what is over. Behind it it finds this. Agents of
// older versions have no journal, and speak for themselves.
func (s *step) revoke(e *entry, r compute.Report) {
	if e.inst.Journal != "" && r.Journal != "" {
		s.emit(tell(e.inst, compute.CommandDelete, s.at()))
	}
}

// byAnother says whether a report that something is not there is from another agent than the one that has it: under
// another journal, or a copy of that one.
func (s *step) byAnother(e *entry, r compute.Report) bool {
	h := s.hosts[e.inst.Host]
	return r.Journal != e.inst.Journal || r.Class == compute.FailureUnknownHere || r.Op == compute.ReportReturned ||
		h != nil && h.twinsWithJournal(e.inst.Journal) > 1
}

// machineThere hears that the machine is there, and what it does.
func (s *step) machineThere(e *entry, r compute.Report) {
	starting := e.inst.State == compute.StateStarting && r.Op == compute.ReportStarted
	if !starting && e.inst.State != compute.StateActive {
		return
	}
	asked := e.confirmAsked || e.inst.Confirm
	e.confirmAsked = false
	next := *e.inst
	next.Confirm, next.Journal = false, s.holder(e, r)
	if due := s.countsFrom(e, r); !due.IsZero() && (asked || r.Op == compute.ReportStarted) {
		next.Confirm = e.inst.Confirm // what is repeated of an agent that has ended answers nothing
		defer s.askAgain(e, due)
	}
	if r.Power != compute.PowerUnknown {
		next.Power, next.Stopped = r.Power, stopped(r)
	}
	if c := next.Command; answers(r, c) {
		next.Command, next.Answer = nil, &compute.PowerAnswer{
			Op: c.Op, Command: c.Command, Failed: r.Message, At: s.at(),
		}
	}
	if starting {
		next.State, next.Reason, next.ActiveAt = compute.StateActive, nil, s.at()
		if next.Power == compute.PowerUnknown {
			next.Power = compute.PowerRunning
		}
	}
	if next.State == e.inst.State && next.Confirm == e.inst.Confirm && next.Journal == e.inst.Journal &&
		next.Power == e.inst.Power && next.Command == e.inst.Command && sameReason(next.Stopped, e.inst.Stopped) {
		s.reschedule(e)
		return
	}
	s.change(e, func(inst *compute.Instance) {
		inst.State, inst.Reason, inst.ActiveAt = next.State, next.Reason, next.ActiveAt
		inst.Confirm, inst.Journal, inst.Power, inst.Stopped = next.Confirm, next.Journal, next.Power, next.Stopped
		inst.Command, inst.Answer = next.Command, next.Answer
	})
	s.takeWhenDue(e, s.at())
}

// stopped is why a machine does not run.
func stopped(r compute.Report) *compute.Reason {
	if r.Power == compute.PowerRunning {
		return nil
	}
	return r.Stopped
}

func sameReason(a, b *compute.Reason) bool { return a == b || a != nil && b != nil && *a == *b }

// clearPower forgets what a host said of a machine that is not there any more.
func clearPower(inst *compute.Instance) { inst.Power, inst.Stopped = compute.PowerUnknown, nil }

func answers(r compute.Report, c *compute.PowerCommand) bool {
	return c != nil && r.Op == compute.ReportChanged && (r.Version == c.Version || r.Command == c.Command)
}

func failure(r compute.Report, at time.Time) compute.Failure {
	f := compute.Failure{Host: r.Host, Attempt: r.Attempt, Class: r.Class, Message: r.Message, At: at}
	if f.Message == "" {
		f.Message = r.Op.String()
	}
	return f
}

// failedAttempt tries again, elsewhere if it can be, after a back-off; or ends
// what will not get better and what was tried often enough.
func (s *step) failedAttempt(e *entry, f compute.Failure) {
	if e.inst.IsPlaceholder() {
		s.holdElsewhere(e, f)
		return
	}
	failures := append(slices.Clone(e.inst.Failures), f)
	reason := &compute.Reason{
		Code: compute.BuildFailed, Host: f.Host, Attempt: f.Attempt, Class: f.Class, Detail: f.Message,
	}
	over := len(failures) >= int(e.inst.Boot.Attempts)
	switch {
	case !f.Class.Retryable():
	case over:
		reason = &compute.Reason{
			Code: compute.AttemptsExhausted, Attempt: f.Attempt, Detail: describeFailures(failures),
		}
	default:
		s.change(e, func(inst *compute.Instance) {
			requeue(inst, s.at().Add(s.opts.retry(len(failures))))
			inst.Reason, inst.Failures = reason, failures
		})
		return
	}
	s.endWith(e, reason, failures)
}

// describeFailures is every host's reason in one sentence, each said once.
func describeFailures(failures []compute.Failure) string {
	type said struct {
		host    compute.HostID
		message string
	}
	times, order := map[said]int{}, []said{}
	for _, f := range failures {
		k := said{f.Host, f.Message}
		if times[k]++; times[k] == 1 {
			order = append(order, k)
		}
	}
	var parts []string
	for _, k := range order {
		host := string(k.host)
		if n := times[k]; n > 1 {
			host += fmt.Sprintf(" (%d times)", n)
		}
		parts = append(parts, host+": "+k.message)
	}
	return strings.Join(parts, "; ")
}

// lostActive ends a machine that ran and, by its own host's word, is not there
// any more.
func (s *step) lostActive(e *entry, r compute.Report) {
	if e.inst.IsPlaceholder() {
		s.holdElsewhere(e, failure(r, s.at()))
		return
	}
	s.end(e, &compute.Reason{
		Code: compute.HostLost, Host: r.Host, Attempt: r.Attempt, Detail: r.Message,
	})
}

// requeue begins the next attempt: whatever the last host still says about its
// own is behind the times from now on.
func requeue(inst *compute.Instance, publish time.Time) {
	inst.State, inst.Attempt, inst.PublishAt = compute.StateQueued, inst.Attempt+1, publish
	inst.Host, inst.Claim, inst.Fence, inst.Journal, inst.StartingAt = "", "", 0, "", time.Time{}
	inst.Command, inst.Answer, inst.Confirm = nil, nil, false
	inst.EndNotice(inst.ChangedAt)
	inst.SetMadeRoom(0)
	if taking(inst) {
		inst.Boot.Takes(compute.InPlaceholder{ID: inst.Boot.In().ID})
	}
	clearPower(inst)
}

// unexpected answers a machine that should not be: its delete, by the attempt
// and claim it was started with. One that nobody knows is left alone, and so is
// the very machine of the record that another host name speaks for: claim ids are
// random, so the machine is there once, and its host was renamed or its folder
// has another agent. The record stays with the host that claimed it.
func (s *step) unexpected(e *entry, r compute.Report) {
	switch {
	case e == nil:
		s.rejectFor(compute.LeftAlone,
			fmt.Sprintf("host %s runs %s, which nobody knows: stray, left alone", r.Host, r.Instance))
	case running(e.inst) && e.inst.Attempt == r.Attempt && e.inst.Claim == r.Claim:
		s.rejectFor(compute.LeftAlone, fmt.Sprintf("host %s runs the machine of %s that host %s claimed: left alone; "+
			"give the host the name %[3]s again, or forget host %[3]s to end what it had", r.Host, r.Instance,
			e.inst.Host))
	default:
		s.emit(Tell{Host: r.Host, Command: s.answer(compute.CommandDelete, r)})
	}
}

// answer addresses what a report was about, whatever the record says.
func (s *step) answer(op compute.CommandOp, r compute.Report) compute.Command {
	return compute.Command{
		Op: op, Project: r.Project, Instance: r.Instance, Attempt: r.Attempt, Claim: r.Claim, At: s.at(),
		Trace: r.Trace,
	}
}
