// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/berth-project/berth/pkg/compute"
)

// TestScenarios runs the stories in testdata/scenarios: events in, actions out. A changed
// decision is rewritten with -rewrite and read as a diff.
//
// A line of a story is one event; what it led to is indented below it.
//
//	take [pinned] [hold=5m] [attempt=1] [claim=c1] [fence=0]   work was taken
//	prepared | prepare-failed [class]      launched | launch-failed [class]
//	destroyed | destroy-failed             power-done [power] [failed]
//	grant|deny|delete [attempt=1] [claim=c1]
//	confirm [attempt=1] [claim=c1] [queue=q [group=g]]
//	power OP version=2 [command=C] [attempt=1] [claim=c1]
//	fenced [fence=9], missed, quit, acked REPORT, seen POWER|nothing
//	+30s                                   time passes; ticks come as they are due
//	tick                                   one comes early
//	crash nothing|prepared|launched|waits [attempt=1] [claim=c1]   a restart, and what the hypervisor lists
//	stranger COMMAND [given|failed]        about a claim without a task here; given, failed: as the journal says of it
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := &tale{rules: DefaultRules(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				line = strings.TrimSpace(line)
				fmt.Fprintln(&out, line)
				for _, said := range s.do(t, line) {
					fmt.Fprintln(&out, "    "+said)
				}
			}
			return out.String()
		})
	})
}

type tale struct {
	rules Rules
	task  Task
	now   time.Time
}

// words are a line of a story.
type words struct {
	verb  string
	plain []string
	args  map[string]string
}

func parse(line string) words {
	w := words{args: map[string]string{"attempt": "1", "claim": "c1", "fence": ""}}
	for i, f := range strings.Fields(line) {
		key, value, named := strings.Cut(f, "=")
		switch {
		case i == 0:
			w.verb = f
		case named:
			w.args[key] = value
		default:
			w.plain = append(w.plain, f)
		}
	}
	return w
}

func (w words) attempt() compute.Attempt {
	n, _ := strconv.Atoi(w.args["attempt"])
	return compute.Attempt(n)
}
func (w words) claim() compute.ClaimID { return compute.ClaimID(w.args["claim"]) }
func (w words) fence(otherwise compute.FenceEpoch) compute.FenceEpoch {
	n, err := strconv.ParseUint(w.args["fence"], 10, 64)
	if err != nil {
		return otherwise
	}
	return compute.FenceEpoch(n)
}

func (w words) hold() time.Duration {
	d, _ := time.ParseDuration(w.args["hold"])
	return d
}
func (w words) is(word string) bool { return len(w.plain) > 0 && w.plain[0] == word }
func (w words) failure() Failure {
	f := Failure{Class: compute.FailureHost, Message: "no luck"}
	if w.is("request") {
		f.Class = compute.FailureRequest
	}
	return f
}

func (w words) stopped() Stopped { return Stopped{Why: compute.ReasonCode(w.args["why"])} }

var powers = map[string]compute.PowerState{
	"running": compute.PowerRunning, "stopped": compute.PowerStopped, "paused": compute.PowerPaused,
}

func (s *tale) do(t *testing.T, line string) []string {
	w := parse(line)
	switch {
	case strings.HasPrefix(line, "+"):
		return s.pass(t, line)
	case w.verb == "take":
		s.task = New(
			compute.Build{
				Instance: "i", Project: "p", Queue: "q", Attempt: w.attempt(),
				Resources: compute.Resources{compute.VCPU: 1}, Hold: w.hold(),
				Preemptible: w.is("preemptible"),
			},
			compute.Place{}, w.claim(), w.fence(0), w.is("pinned"),
		)
		return s.step(Taken{})
	case w.verb == "crash":
		return s.crash(w)
	case w.verb == "stranger":
		return answered(t, w)
	}
	return s.step(event(t, w))
}

func event(t *testing.T, w words) Event {
	switch w.verb {
	case "prepared":
		return Prepared{}
	case "prepare-failed":
		return PrepareFailed{w.failure()}
	case "launched":
		return Launched{}
	case "launch-failed":
		return LaunchFailed{w.failure()}
	case "destroyed":
		return Destroyed{}
	case "destroy-failed":
		return DestroyFailed{}
	case "fenced":
		return Fenced{w.fence(9)}
	case "tick":
		return Tick{}
	case "missed":
		return Missed{}
	case "quit":
		return Quit{}
	case "give-up":
		return GiveUp{}
	case "grant":
		return Granted{w.attempt(), w.claim()}
	case "deny":
		return Denied{w.attempt(), w.claim()}
	case "delete":
		return Deleted{w.attempt(), w.claim()}
	case "confirm":
		return Confirm{
			w.attempt(), w.claim(), compute.QueueName(w.args["queue"]), compute.GroupName(w.args["group"]),
			compute.InPlaceholder{ID: compute.InstanceID(w.args["in"]), Attempt: compute.Attempt(len(w.args["in"]))},
			w.is("preemptible"), w.is("noticed"), 0,
		}
	case "preempt":
		return Preempt{compute.QueueName(w.args["queue"])}
	case "seen":
		return Seen{There: !w.is("nothing"), Power: powers[w.plain[0]], Stopped: w.stopped()}
	case "power-done":
		done := PowerDone{Power: powers[w.plain[0]], Stopped: w.stopped()}
		if w.is("failed") {
			f := w.failure()
			done.Failed = &f
		}
		return done
	case "acked":
		for op := compute.ReportClaim; op <= compute.ReportPreempt; op++ {
			if w.is(op.String()) {
				return Acked{op, w.attempt(), w.claim()}
			}
		}
	case "power":
		return Commanded{w.attempt(), w.claim(), command(w), w.args["of"] == "another"}
	}
	t.Fatalf("no such event: %+v", w)
	return nil
}

func command(w words) compute.PowerCommand {
	v, _ := strconv.Atoi(w.args["version"])
	op := map[string]compute.RequestOp{
		"stop": compute.OpStop, "start": compute.OpStart, "reboot": compute.OpReboot,
	}[w.plain[0]]
	return compute.PowerCommand{Op: op, Version: compute.Version(v), Command: compute.CommandID(w.args["command"])}
}

func (s *tale) step(e Event) []string {
	before := s.task.Stage
	next, actions := s.rules.Step(s.task, e, s.now)
	s.task = next
	return said(before, next, actions)
}

// said is what follows, for people: the new stage first, then what is done.
func said(before Stage, t Task, actions []Action) []string {
	var out []string
	if t.Stage != before {
		line := t.Stage.String()
		if t.Broken != nil {
			line += " broken"
		}
		if t.Stage == Ending {
			line += " " + t.End.How.String()
		}
		out = append(out, line)
	}
	for _, a := range actions {
		out = append(out, "-> "+name(a))
	}
	if len(out) == 0 {
		return []string{"(nothing)"}
	}
	return out
}

func name(a Action) string {
	if r, ok := a.(Report); ok {
		return "report " + reported(r.Report)
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", a), "task."))
}

func reported(r compute.Report) string {
	line := fmt.Sprintf("%s attempt %d claim %s", r.Op, r.Attempt, r.Claim)
	if r.Queue != "" {
		line += fmt.Sprintf(" for %s", r.Queue)
	}
	if r.Fence != 0 {
		line += fmt.Sprintf(" fence %d", r.Fence)
	}
	switch {
	case r.Op == compute.ReportFailed:
		line += fmt.Sprintf(": %s, %s", r.Class, r.Message)
	case r.Op != compute.ReportChanged && r.Message != "":
		line += ": " + r.Message
	}
	if r.Power != compute.PowerUnknown {
		line += " " + r.Power.String()
	}
	if r.Stopped != nil {
		line += " by " + string(r.Stopped.Code)
	}
	if r.Version > 0 {
		line += fmt.Sprintf(" version %d", r.Version)
	}
	if r.Op == compute.ReportChanged && r.Message != "" {
		line += " failed: " + r.Message
	}
	return line
}

// pass lets time go by from one tick that is due to the next.
func (s *tale) pass(t *testing.T, line string) []string {
	d, err := time.ParseDuration(line[1:])
	if err != nil {
		t.Fatal(err)
	}
	begin, until := s.now, s.now.Add(d)
	var out []string
	for {
		due := s.rules.Due(s.task)
		if due.IsZero() || due.After(until) {
			break
		}
		if due.After(s.now) {
			s.now = due
		}
		for _, x := range s.step(Tick{}) {
			out = append(out, fmt.Sprintf("+%s %s", s.now.Sub(begin), x))
		}
	}
	if s.now = until; out == nil {
		return []string{"(nothing)"}
	}
	return out
}

// crash forgets what is not in the journal, as a restart does.
func (s *tale) crash(w words) []string {
	t := s.task
	kept := Task{
		Instance: t.Instance, Project: t.Project, Queue: t.Queue, Pinned: t.Pinned, Attempt: t.Attempt,
		Claim:     t.Claim,
		Resources: t.Resources, Stage: t.Stage, Broken: t.Broken, End: t.End, Version: t.Version, Reboots: t.Reboots,
		Preemptible: t.Preemptible, TimesTaken: t.TimesTaken, Wanted: t.Wanted, Waits: t.Waits,
	}
	if kept.Stage == Running {
		kept.Stage = Launching
	}
	var journal []Task
	if t.Instance != "" && t.Stage != Over && w.args["journal"] != "lost" {
		journal = append(journal, kept)
	}
	var there []Machine
	if !w.is("nothing") {
		m := Machine{Instance: "i", Project: "p", Attempt: w.attempt(), Claim: w.claim(), Fence: w.fence(0),
			Launched: w.is("launched") ||
				w.is("waits"), Paused: w.is("waits"), Power: compute.PowerStopped, Stopped: w.stopped()}
		if p, ok := w.args["power"]; ok {
			m.Power = powers[p]
		}
		there = append(there, m)
	}
	for _, a := range s.rules.Reconcile(journal, there, s.now) {
		s.task = a.Task
		return append([]string{"as " + a.Task.Stage.String()}, said(a.Task.Stage, a.Task, a.Actions)...)
	}
	s.task = Task{Stage: Over}
	return []string{"(nothing is known)"}
}

func answered(t *testing.T, w words) []string {
	for op := compute.CommandGrant; op <= compute.CommandFenced; op++ {
		if !w.is(op.String()) {
			continue
		}
		var past *Past
		switch {
		case slices.Contains(w.plain, "given"):
			past = &Past{}
		case slices.Contains(w.plain, "failed"):
			past = &Past{Failed: &Failure{Class: compute.FailureHost, Message: "no luck"}}
		}
		r := Stranger(compute.Command{Op: op, Attempt: w.attempt(), Claim: w.claim()}, past)
		if r == nil {
			return []string{"(nothing)"}
		}
		return []string{"-> report " + reported(*r)}
	}
	t.Fatalf("no such command: %+v", w)
	return nil
}
