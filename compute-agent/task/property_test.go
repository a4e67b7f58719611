// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

// far is a hypervisor, a journal and a conductor around one task, as unhelpful
// as they may be.
type far struct {
	*rapid.T
	rules   Rules
	now     time.Time
	task    Task
	kept    *Task // the journal
	noted   *Task // what it is about to have; nil: nothing
	op      Action
	broken  bool // Interrupt came
	machine Stage
	waiting []compute.Report // not acknowledged

	granted, given, claimed, wasGranted, acked, ended bool
}

// the machine's states, in terms of the hypervisor
const (
	none     = Preparing
	prepared = Claiming
	running  = Running
)

func (f *far) step(e Event) {
	before := f.task
	next, actions := f.rules.Step(f.task, e, f.now)
	if next.Stage < before.Stage {
		f.Fatalf("from %s back to %s", before.Stage, next.Stage)
	}
	f.task = next
	f.check(before, e, actions)
	f.act(actions)
	if (f.op == nil) != (f.task.Busy == Idle) {
		f.Fatalf("after %T the hypervisor does %T, and the task says %d", e, f.op, f.task.Busy)
	}
}

// check holds the rules that need no memory of the world.
func (f *far) check(before Task, e Event, actions []Action) {
	for i, a := range actions {
		switch a := a.(type) {
		case Journal, Note:
			if i != 0 {
				f.Fatalf("%T: the journal comes %dth in %v", e, i, actions)
			}
			_, note := a.(Note)
			if note && (f.task.Stage != Claiming && f.task.Stage != Launching || durable(before) == durable(f.task)) {
				f.Fatalf("%T to %s is only noted", e, f.task.Stage)
			}
		case Launch:
			if !f.granted || f.given || f.ended || f.task.Broken != nil {
				f.Fatalf(
					"%T launches: granted %t, given back %t, ended %t, broken %v", e, f.granted, f.given, f.ended,
					f.task.Broken,
				)
			}
		case Destroy:
			if _, deny := e.(Denied); deny && before.Granted() {
				f.Fatalf("a deny destroys what was granted")
			}
		case Accept:
			if !f.acked && !f.wasGranted && !f.claimed {
				f.Fatalf("%T accepts the record before anybody has the claim", e)
			}
		case Report:
			if a.Report.Op == compute.ReportClaim && f.machine == none && f.task.Broken == nil {
				f.Fatalf("%T claims what is not prepared", e)
			}
		}
	}
	kept, forgets := count[KeepFailure](actions), count[Forget](actions)
	if failed := f.task.End != nil && f.task.End.How == EndFailed; kept > 1 || (kept == 1) != (forgets == 1 && failed) {
		f.Fatalf("%T forgets %d, and remembers %d times why it failed: %+v", e, forgets, kept, f.task.End)
	}
	if _, first := actionAt(actions); !first && durable(before) != durable(f.task) && f.task.Stage != Over {
		f.Fatalf("%T changes %s to %s without the journal", e, durable(before), durable(f.task))
	}
}

func count[A Action](actions []Action) (n int) {
	for _, a := range actions {
		if _, is := a.(A); is {
			n++
		}
	}
	return n
}

func actionAt(actions []Action) (Action, bool) {
	if len(actions) == 0 {
		return nil, false
	}
	switch actions[0].(type) {
	case Journal, Note:
		return actions[0], true
	}
	return actions[0], false
}

// durable is what the journal must know.
func durable(t Task) string {
	stage := t.Stage
	if stage == Running {
		stage = Launching
	}
	end := ""
	if t.End != nil {
		end = t.End.How.String()
	}
	return fmt.Sprint(stage, t.Broken != nil, end, t.Version, t.Reboots)
}

func (f *far) act(actions []Action) {
	for _, a := range actions {
		switch a := a.(type) {
		case Note:
			noted := f.task
			f.noted = &noted
		case Journal:
			kept := f.task
			f.kept, f.noted = &kept, nil
			f.ended = f.ended || kept.Stage == Ending
		case GiveBack:
			f.given = true
		case Forget:
			f.kept, f.noted = nil, nil
		case Prepare, Launch, Destroy, DoPower:
			if f.op != nil {
				f.Fatalf("%T while %T is under way", a, f.op)
			}
			f.op, f.broken = a, false
		case Interrupt:
			f.broken = true
		case Report:
			f.waiting = append(f.waiting, a.Report)
			f.claimed = f.claimed || a.Report.Op == compute.ReportClaim
		}
	}
}

// finish ends the call under way.
func (f *far) finish(well bool) {
	op := f.op
	f.op = nil
	switch op.(type) {
	case Prepare:
		if !well {
			f.step(PrepareFailed{})
			return
		}
		f.machine = prepared
		f.step(Prepared{})
	case Launch:
		f.machine = running
		if !well {
			f.step(LaunchFailed{})
			return
		}
		f.step(Launched{})
	case Destroy:
		if !well {
			f.step(DestroyFailed{})
			return
		}
		f.machine = none
		f.step(Destroyed{})
	case DoPower:
		done := PowerDone{Power: compute.PowerRunning}
		if !well {
			done = PowerDone{Failed: &Failure{Message: "no luck"}}
		}
		f.step(done)
	}
}

func (f *far) crash() {
	if f.task.Stage == Over {
		return
	}
	f.op, f.waiting = nil, nil
	if f.noted != nil && rapid.Bool().Draw(f.T, "the note was written") {
		f.kept = f.noted
	}
	f.noted = nil
	var journal []Task
	if f.kept != nil {
		t := *f.kept
		t.Busy, t.Command, t.Next, t.Since, t.Asked, t.Renewed = Idle, nil, nil, time.Time{}, time.Time{}, time.Time{}
		t.Answered, t.Destroyed, t.Told, t.Tries, t.RetryAt = false, false, false, 0, time.Time{}
		if t.Stage == Running {
			t.Stage = Launching
		}
		journal = append(journal, t)
	}
	var there []Machine
	if f.machine != none {
		there = append(
			there,
			Machine{
				Instance: "i", Project: "p", Attempt: 1, Claim: "c1", Launched: f.machine == running,
				Power: compute.PowerRunning,
			},
		)
	}
	got := f.rules.Reconcile(journal, there, f.now)
	if len(got) == 0 {
		f.task = Task{Stage: Over}
		return
	}
	f.task = got[0].Task
	for _, a := range got[0].Actions {
		if _, ok := a.(Launch); ok && (!f.granted || f.given || f.ended) {
			f.Fatalf("a restart launches: granted %t, given back %t, ended %t", f.granted, f.given, f.ended)
		}
	}
	f.act(got[0].Actions)
}

// ack is Kafka's acknowledgement of the oldest report.
func (f *far) ack() compute.Report {
	r := f.waiting[0]
	f.waiting = f.waiting[1:]
	f.acked = f.acked || r.Op == compute.ReportClaim
	f.step(Acked{r.Op, r.Attempt, r.Claim})
	return r
}

func (f *far) wait() {
	if due := f.rules.Due(f.task); due.After(f.now) {
		f.now = due
	}
	f.step(Tick{})
}

func TestWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &far{T: t, rules: DefaultRules(), now: time.Unix(1e9, 0)}
		f.task = New(
			compute.Build{Instance: "i", Project: "p", Attempt: 1}, compute.Place{}, "c1", 0,
			rapid.Bool().Draw(t, "pinned"),
		)
		f.step(Taken{})
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			if f.task.Stage == Over {
				break
			}
			f.random()
		}
		f.bring()
	})
}

func (f *far) random() {
	version := compute.Version(rapid.IntRange(1, 5).Draw(f.T, "version"))
	switch what := rapid.IntRange(0, 13).Draw(f.T, "what"); {
	case what < 4 && f.op != nil:
		f.finish(!f.broken && rapid.IntRange(0, 4).Draw(f.T, "luck") > 0)
	case what < 6 && len(f.waiting) > 0:
		f.ack()
	case what < 8:
		f.wait()
	case what == 8 && f.claimed:
		f.granted, f.wasGranted = true, true
		f.step(Granted{1, "c1"})
	case what == 9 && f.claimed:
		f.acked = true
		f.step(Denied{1, "c1"})
	case what == 10:
		f.crash()
	case what == 11:
		op := rapid.SampledFrom(
			[]compute.RequestOp{compute.OpStop, compute.OpStart, compute.OpReboot},
		).Draw(f.T, "op")
		f.step(Commanded{
			1, "c1",
			compute.PowerCommand{Op: op, Version: version, Command: compute.CommandID(fmt.Sprint(version))}, false,
		})
	case what == 12 && f.claimed:
		f.step(Confirm{Attempt: 1, Claim: "c1"})
	case what == 13:
		f.step(
			rapid.SampledFrom([]Event{
				Seen{There: f.machine == running, Power: compute.PowerStopped}, Granted{1, "other"},
				Denied{2, "c1"}, Deleted{2, "c2"}, Quit{}, Stuck{}, GiveUp{}, Missed{},
			}).Draw(f.T, "word"),
		)
	}
}

// bring ends it by a delete or a fence, and a world that helps: nothing may be
// left, and a delete is answered with one of the words for "gone".
func (f *far) bring() {
	fence := rapid.Bool().Draw(f.T, "fence")
	last := compute.ReportNone
	claimed := f.claimed && f.task.Stage != Over
	for range 100 {
		switch {
		case f.task.Stage == Over:
			if f.machine != none || f.kept != nil {
				f.Fatalf("it is over, and the host has %s, the journal %+v", f.machine, f.kept)
			}
			if claimed && !fence && last != compute.ReportGone && last != compute.ReportFailed {
				f.Fatalf("a delete ended in %s", last)
			}
			return
		case f.task.Stage < Ending && fence:
			f.step(Fenced{Epoch: 1})
		case f.task.Stage < Ending || claimed && !fence && f.task.End.How != EndGone && f.task.End.How != EndFailed:
			f.step(Deleted{1, "c1"})
		case f.op != nil:
			f.finish(!f.broken)
		case len(f.waiting) > 0:
			last = f.ack().Op
		default:
			f.wait()
		}
	}
	f.Fatalf("it does not end: %+v", f.task)
}
