// SPDX-License-Identifier: Apache-2.0

package task

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Step is what an event makes of a task, and what is to be done. It shares no
// memory with the task it was given that either may change.
func (r Rules) Step(t Task, e Event, now time.Time) (Task, []Action) {
	s := &step{Task: t, rules: r, now: now}
	s.on(e)
	return s.Task, s.written()
}

// step is one Step under way. Actions that change nothing durable come in the
// order they were asked for; Journal or Note comes before them all.
type step struct {
	Task
	rules   Rules
	now     time.Time
	dirty   bool // to be written down before anything else is done
	noted   bool // to be written down soon
	actions []Action
}

// written is the actions, that of the journal before them all.
func (s *step) written() []Action {
	switch {
	case s.dirty:
		return append([]Action{Journal{}}, s.actions...)
	case s.noted:
		return append([]Action{Note{}}, s.actions...)
	}
	return s.actions
}

func (s *step) do(a ...Action) { s.actions = append(s.actions, a...) }

func (s *step) on(e Event) {
	switch e := e.(type) {
	case Taken:
		s.dirty, s.Renewed, s.Busy = true, s.now, BusyPreparing
		s.do(Prepare{})
	case Prepared:
		s.prepared(nil)
	case PrepareFailed:
		s.prepared(&e.Failure)
	case Launched:
		s.launched()
	case LaunchFailed:
		s.launchFailed(e.Failure)
	case Destroyed:
		s.Busy, s.Destroyed = Idle, true
		s.conclude()
	case DestroyFailed:
		s.Busy, s.Tries = Idle, s.Tries+1
		s.RetryAt = s.now.Add(s.rules.retry(s.Tries))
	case PowerDone:
		s.powerDone(e)
	case Acked:
		s.acked(e)
	case Seen:
		s.seen(e)
	case Tick:
		s.tick()
	case Preempt:
		s.wanted(e.For)
	case Quit, Stuck:
		if s.Stage == Preparing {
			s.letGo()
		}
	case GiveUp:
		if s.Stage == Claiming { // nobody knows when, or whether, there will be another agent here to launch it
			s.letGo()
		}
	case Missed:
		s.missed()
	default:
		s.told(e)
	}
}

// told acts on a word of the conductor. One that is about another attempt or
// claim than this task's is for Stranger to answer.
func (s *step) told(e Event) {
	switch e := e.(type) {
	case Granted:
		if s.Holds(e.Attempt, e.Claim) {
			s.granted()
		}
	case Denied:
		if s.Holds(e.Attempt, e.Claim) && s.Stage == Claiming {
			s.accept()
			s.end(EndQuiet, nil)
		}
	case Deleted:
		if s.Holds(e.Attempt, e.Claim) {
			s.deleted()
		}
	case Confirm:
		if s.Holds(e.Attempt, e.Claim) {
			s.learn(e)
			s.confirm()
		}
	case Commanded:
		switch again := slices.Contains(s.Reboots, e.Power.Command); {
		case !s.Holds(e.Attempt, e.Claim) || s.Stage != Running:
		case e.OtherJournal && e.Power.Op == compute.OpReboot && !again:
			s.notRebooted(e.Power)
		default:
			s.command(e.Power)
		}
	case Fenced:
		if s.Fence < e.Epoch {
			s.fenced()
		}
	}
}

// prepared ends the preparation, well or not: either way the host claims.
func (s *step) prepared(broken *Failure) {
	s.Busy = Idle
	if s.Stage != Preparing {
		s.destroy()
		return
	}
	s.Stage, s.Broken, s.Since, s.noted = Claiming, broken, s.now, true
	s.claim()
}

func (s *step) claim() {
	s.Asked = s.now
	r := s.report(compute.ReportClaim)
	r.Report.Fence, r.Report.MadeRoom = s.Fence, s.MadeRoom
	if s.Hold > 0 && s.Broken != nil { // it is not granted together with what can run
		r.Report.Class, r.Report.Message = s.Broken.Class, cmp.Or(s.Broken.Message, "it could not be prepared")
	}
	s.do(r)
}

func (s *step) granted() {
	switch s.Stage {
	case Claiming:
		s.accept()
		if s.Broken != nil {
			s.end(EndFailed, s.Broken)
			return
		}
		s.Stage, s.Busy, s.noted = Launching, BusyLaunching, true
		s.do(Launch{})
	case Running:
		s.started()
	case Ending:
		s.denies()
	}
}

// denies says that the claim is given back: a grant or a confirm has come for a task that ends
// and has never reported it.
func (s *step) denies() {
	switch {
	case s.End.How == EndReturned && !s.Told:
		s.do(s.returned()) // it is asked again: what was said may have been refused
		return
	case s.End.How == EndFailed || s.End.How == EndGone:
		if !s.Told {
			s.conclude()
		}
		return
	}
	s.End, s.dirty, s.Told = &End{How: EndReturned}, true, false
	s.do(GiveBack{}, s.returned())
}

// returned is the report that the claim is given back. What could not be prepared says why: a conductor that reads the
// claim first grants it, and counts this as how the attempt failed.
func (s *step) returned() Report {
	r := s.report(compute.ReportReturned)
	if s.Broken != nil {
		r.Report.Class, r.Report.Message = s.Broken.Class, s.Broken.Message
	}
	return r
}

func (s *step) launched() {
	s.Busy = Idle
	if s.Stage != Launching {
		s.destroy()
		return
	}
	s.Stage, s.Power, s.Stopped = Running, compute.PowerRunning, Stopped{}
	s.started()
}

func (s *step) started() {
	s.SayAt = s.rules.sayAt(s.Instance, s.now)
	s.do(s.power(compute.ReportStarted))
}

// power is a report of what the machine does.
func (s *step) power(op compute.ReportOp) Report {
	r := s.report(op)
	r.Report.Power, r.Report.Stopped = s.Power, s.Stopped.reason(s.Power)
	return r
}

func (s *step) launchFailed(f Failure) {
	s.Busy = Idle
	if s.Stage != Launching {
		s.destroy()
		return
	}
	s.end(EndFailed, &f)
}

func (s *step) deleted() {
	switch {
	case s.Stage < Ending:
		if s.Stage == Preparing {
			s.release()
		}
		s.accept()
		s.end(EndGone, nil)
	case s.Stage == Ending && (s.End.How == EndQuiet || s.End.How == EndReturned):
		s.End, s.dirty, s.Told = &End{How: EndGone}, true, false
		s.conclude()
	case s.Stage == Ending && !s.Told:
		s.conclude() // it is asked again: what was said may have been refused
	}
}

// letGo gives back what was not granted: to its queue, if no conductor has its claim yet. Of what is prepared no
// conductor has heard, so nobody is told.
func (s *step) letGo() {
	how := EndReturned
	if s.Stage == Preparing {
		how = EndQuiet
	}
	s.release()
	s.end(how, nil)
}

// fenced ends what was here when the host was declared dead.
func (s *step) fenced() {
	switch {
	case s.Stage < Launching:
		s.letGo()
	case s.Stage < Ending:
		s.accept()
		s.end(EndGone, nil)
	}
}

// missed ends what would run a second time if the host was declared dead. A machine stays, as the host may only have
// been cut off; one that stands still is not let go, and may have run before.
func (s *step) missed() {
	switch {
	case s.Stage == Launching && s.Power != compute.PowerUnknown:
		s.Stage, s.Waits, s.dirty = Running, true, true
		s.started()
	case s.Stage != Running:
		s.fenced()
	}
}

// learn takes what a lost journal knew of a machine that was adopted.
func (s *step) learn(c Confirm) {
	if s.Queue == "" && c.Queue != "" {
		s.Queue, s.Group, s.In, s.dirty = c.Queue, c.Group, c.In, true
		s.Preemptible, s.Wanted, s.TimesTaken = c.Preemptible, c.Preemptible && c.Noticed, c.TimesTaken
		s.WantedAt = s.now
	}
}

// wanted asks for the place of the machine. That it was asked for is in the journal before, so that a life after this one
// asks for no other in its stead.
func (s *step) wanted(q compute.QueueName) {
	if s.Stage != Running || !s.Preemptible {
		return
	}
	s.dirty = s.dirty || !s.Wanted
	s.Wanted, s.WantedAt = true, s.now
	r := s.report(compute.ReportPreempt)
	r.Report.Queue = q
	s.do(r)
}

func (s *step) confirm() {
	switch s.Stage {
	case Claiming:
		s.claim()
	case Running:
		s.started()
	case Ending:
		s.denies()
	}
}

// end writes down how the task ends before anything is undone.
func (s *step) end(how Outcome, f *Failure) {
	s.Stage, s.End, s.dirty = Ending, &End{How: how}, true
	if f != nil {
		s.End.Failure = *f
	}
	s.Command, s.Next = nil, nil
	switch how {
	case EndQuiet:
		s.Told = true
	case EndReturned:
		s.do(GiveBack{}, s.returned())
	}
	if s.Busy != Idle {
		s.do(Interrupt{})
		return
	}
	s.destroy()
}

func (s *step) destroy() {
	if s.Stage == Ending && s.Busy == Idle && !s.Destroyed {
		s.Busy = BusyDestroying
		s.do(Destroy{})
	}
}

// conclude comes after Destroy: it sends the last report, and once Kafka has that, the task is
// over and leaves the journal.
func (s *step) conclude() {
	if s.Stage != Ending || !s.Destroyed {
		return
	}
	switch {
	case s.Told:
		s.Stage = Over
		if s.End.How == EndFailed {
			s.do(KeepFailure{})
		}
		s.do(Forget{})
	case s.End.How == EndFailed:
		r := s.report(compute.ReportFailed)
		r.Report.Class, r.Report.Message = s.End.Failure.Class, s.End.Failure.Message
		s.do(r)
	case s.End.How == EndGone:
		s.do(s.report(compute.ReportGone))
	}
}

func (s *step) acked(e Acked) {
	if !s.Holds(e.Attempt, e.Claim) {
		return
	}
	switch {
	case e.Op == compute.ReportClaim:
		if s.Stage >= Claiming {
			s.accept()
		}
	case s.Stage == Ending && e.Op == s.End.How.report():
		s.Told = true
		s.conclude()
	}
}

// report is the report that an outcome is told by.
func (o Outcome) report() compute.ReportOp {
	return [...]compute.ReportOp{
		compute.ReportNone, compute.ReportReturned, compute.ReportFailed, compute.ReportGone,
	}[o]
}

// seen compares what the hypervisor lists with what is known.
func (s *step) seen(e Seen) {
	switch {
	case s.Stage != Running || s.Busy != Idle:
	case !e.There:
		s.end(EndFailed, &Failure{Class: compute.FailureHost, Message: "the machine is not on the host any more"})
	case e.Power == s.Power && s.Stopped.known() && !e.Stopped.known(): // libvirt forgets why with its own restart
	case e.Power == s.Power && e.Stopped.Why == s.Stopped.Why && s.Stopped.known() && s.Stopped.Detail != "":
		// Words that change are no news: a driver may say for how long the machine has been stopped.
	case e.Power != s.Power || e.Stopped != s.Stopped:
		s.Power, s.Stopped = e.Power, e.Stopped
		s.do(s.power(compute.ReportChanged))
	}
}

func (s *step) tick() {
	if !s.Answered && s.Stage <= Claiming && !s.now.Before(s.Renewed.Add(s.rules.Renew)) {
		s.Renewed = s.now
		s.do(Renew{})
	}
	switch {
	case s.Stage == Claiming && !s.now.Before(s.rules.giveBack(s.Task)):
		s.letGo()
	case s.Stage == Claiming && !s.now.Before(s.rules.askAgain(s.Task)):
		s.claim()
	case s.Stage == Ending && !s.now.Before(s.RetryAt):
		s.destroy()
	case s.Stage == Running && s.Busy == Idle && !s.now.Before(s.SayAt):
		s.started()
	}
}

// accept takes the record out of its queue: the conductor has the claim, and
// decides by it alone from now on.
func (s *step) accept() {
	if !s.Answered {
		s.Answered = true
		s.do(Accept{})
	}
}

// release lets somebody else have the record, unless it was answered.
func (s *step) release() {
	if !s.Answered {
		s.Answered = true
		s.do(Release{})
	}
}

func (s *step) report(op compute.ReportOp) Report {
	return Report{Report: compute.Report{
		Op: op, Project: s.Project, Instance: s.Instance, Attempt: s.Attempt, Claim: s.Claim, Trace: s.Trace,
	}}
}

// command carries out a user's power command, unless a newer one was begun before. A start or
// stop that comes again is done again; a reboot is only answered again.
func (s *step) command(c compute.PowerCommand) {
	switch {
	case c.Version < s.Version:
		return
	case s.Busy == BusyLaunching: // see missed: until the launch is called off. It is said again
		return
	case s.Busy == BusyPower:
		if c.Version > s.Version {
			s.Next = &c
		}
		return
	case c.Op == compute.OpReboot && slices.Contains(s.Reboots, c.Command):
		s.Version, s.dirty = c.Version, s.dirty || c.Version > s.Version
		s.answer(c, s.ended(c))
		return
	}
	if c.Version > s.Version || c.Op == compute.OpReboot {
		s.Version, s.dirty = c.Version, true
	}
	if c.Op == compute.OpReboot {
		s.rebooted(c.Command)
	}
	s.Command, s.Busy = &c, BusyPower
	s.do(DoPower{})
}

// powerDone answers the command. A stop or start that failed is not answered:
// the conductor says it again, and it is tried again. A reboot that failed is
// answered with why: it is never done again.
func (s *step) powerDone(e PowerDone) {
	s.Busy = Idle
	if s.Stage != Running {
		s.destroy()
		return
	}
	c := s.Command
	s.Command = nil
	if e.Power != compute.PowerUnknown {
		s.Power, s.Stopped = e.Power, e.Stopped
	}
	failed := ""
	if e.Failed != nil {
		failed = e.Failed.Message
	}
	if c != nil && c.Op == compute.OpReboot {
		s.Rebooted = &Rebooted{c.Command, failed}
	}
	if c != nil && (e.Failed == nil || c.Op == compute.OpReboot) {
		s.answer(*c, failed)
	}
	if next := s.Next; next != nil {
		s.Next = nil
		s.command(*next)
	}
}

// notRebooted answers a reboot that was asked of the agent of another journal, which may have done it, and says that
// the machine is here, so that the next is asked of this one. While something is being done it waits until it is said
// again.
func (s *step) notRebooted(c compute.PowerCommand) {
	if s.Busy != Idle || c.Version < s.Version {
		return
	}
	s.Version, s.dirty = c.Version, true
	s.rebooted(c.Command)
	s.Rebooted = &Rebooted{c.Command, compute.RebootUnknown}
	s.answer(c, s.Rebooted.Failed)
	s.started()
}

// ended is how a reboot that comes again has ended. What a process before this
// one began, it may have done, or half of it.
func (s *step) ended(c compute.PowerCommand) (failed string) {
	if s.Rebooted == nil || s.Rebooted.Command != c.Command {
		return "the agent was started anew while it was done: whether it was, nobody knows"
	}
	return s.Rebooted.Failed
}

func (s *step) answer(c compute.PowerCommand, failed string) {
	r := s.power(compute.ReportChanged)
	r.Report.Command, r.Report.Version, r.Report.Message = c.Command, c.Version, failed
	s.do(r)
}
