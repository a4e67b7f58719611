// SPDX-License-Identifier: Apache-2.0

package task

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// What is done after a restart follows from three things: what the journal
// remembers, what the hypervisor has, and what the host's stream says behind the
// place up to where it was acted upon. The table of docs/STATES.md has a line for
// each pair of the first two, and in it what is done without a word, and which words
// change that; this test works each cell out and compares it. -rewrite writes the table.
func TestReconcileTable(t *testing.T) {
	const doc, begin, end = "../../docs/STATES.md", "<!-- restart -->\n", "<!-- /restart -->\n"
	b, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(b), begin)
	table, after, whole := strings.Cut(rest, end)
	if !found || !whole {
		t.Fatalf("%s has no table between %q and %q", doc, begin, end)
	}
	got := restartTable()
	if f := flag.Lookup("rewrite"); f != nil && f.Value.String() == "true" { // of the scenarios' own
		if err := os.WriteFile(doc, []byte(before+begin+got+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		table = got
	}
	want, lines := strings.Split(table, "\n"), strings.Split(got, "\n")
	if len(want) != len(lines) {
		t.Fatalf("the table of %s is another one (-there +as the code does):\n%s", doc, cmp.Diff(want, lines))
	}
	for i := range lines[2:] {
		cells, should := strings.Split(lines[i+2], " | "), strings.Split(want[i+2], " | ")
		for j, cell := range cells {
			name := fmt.Sprint(
				strings.Trim(cells[0], "| "), "/", strings.Trim(cells[min(1, len(cells)-1)], "| "), "/", j,
			)
			t.Run(name, func(t *testing.T) {
				if j >= len(should) || cell != should[j] {
					t.Errorf("the code does %q; %s says %q", cell, doc, should)
				}
			})
		}
	}
}

// remembered is a line's first part: what the journal has.
type remembered struct {
	name  string
	task  *Task
	past  *Past // nothing but this of the claim
	other bool  // whatever it is: the hypervisor has another claim's machine
}

func journals() []remembered {
	at := func(s Stage, change ...func(*Task)) *Task {
		t := &Task{Instance: "i", Project: "p", Attempt: 1, Claim: "c1", Stage: s}
		for _, f := range change {
			f(t)
		}
		return t
	}
	ends := func(how Outcome) func(*Task) { return func(t *Task) { t.End = &End{How: how} } }
	return []remembered{
		{name: "nothing"},
		{name: "nothing, claim given back", past: &Past{}},
		{name: "nothing, claim failed", past: &Past{Failed: &Failure{}}},
		{name: "preparing", task: at(Preparing)},
		{name: "claiming", task: at(Claiming)},
		{name: "claiming, broken", task: at(Claiming, func(t *Task) { t.Broken = &Failure{} })},
		{name: "granted", task: at(Launching)},
		{name: "ending: denied", task: at(Ending, ends(EndQuiet))},
		{name: "ending: given back", task: at(Ending, ends(EndReturned))},
		{name: "ending: failed", task: at(Ending, ends(EndFailed))},
		{name: "ending: deleted", task: at(Ending, ends(EndGone))},
	}
}

// listed is a line's second part: what the hypervisor has.
type listed struct {
	name    string
	machine *Machine
}

func hypervisors() []listed {
	m := Machine{Instance: "i", Project: "p", Attempt: 1, Claim: "c1", Power: compute.PowerStopped}
	launched, waits, other := m, m, m
	launched.Launched, launched.Power = true, compute.PowerRunning
	waits.Launched, waits.Paused = true, true
	other.Claim = "c0"
	return []listed{
		{"nothing", nil}, {"prepared", &m}, {"launched", &launched}, {"launched, not let go", &waits},
		{"prepared for another claim", &other},
	}
}

// restartWords are the words that may be found in the stream, and none.
func restartWords() []compute.CommandOp {
	return []compute.CommandOp{
		compute.CommandNone, compute.CommandGrant, compute.CommandDeny, compute.CommandDelete, compute.CommandConfirm,
		compute.CommandPower, compute.CommandFenced,
	}
}

// A machine of another claim than the journal's is dealt with as if nothing were
// remembered.
func TestReconcileOfAnotherClaim(t *testing.T) {
	all := hypervisors()
	other := all[len(all)-1]
	for _, j := range journals() {
		for _, w := range restartWords() {
			want := restart(remembered{}, other, w)
			if got := restart(remembered{task: j.task}, other, w); got != want {
				t.Errorf("journal %s, word %s: %s, want %s", j.name, w, got, want)
			}
		}
	}
}

func restartTable() string {
	type row struct{ journals, drivers, cells string }
	var rows []row
	for _, j := range append([]remembered{{name: "anything", other: true}}, journals()...) {
		from := len(rows)
		for _, d := range hypervisors() {
			if other := d.machine != nil && d.machine.Claim != "c1"; other != j.other || j.past != nil && d.machine != nil {
				continue // what the hypervisor has is adopted as if nothing were remembered
			}
			cells := restartCells(j, d)
			if n := slices.IndexFunc(rows[from:], func(r row) bool { return r.cells == cells }); n >= 0 {
				rows[from+n].drivers += "; " + d.name
				continue
			}
			rows = append(rows, row{j.name, d.name, cells})
		}
		for i := len(rows) - 1; i >= from; i-- { // journals that come to the same are one line, too
			same := func(r row) bool { return r.cells == rows[i].cells && r.drivers == rows[i].drivers }
			if n := slices.IndexFunc(rows[:from], same); n >= 0 {
				rows[n].journals += "; " + j.name
				rows = slices.Delete(rows, i, i+1)
			}
		}
	}
	var out strings.Builder
	out.WriteString("| journal | hypervisor | no word | another word |\n|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&out, "| %s | %s | %s |\n", r.journals, r.drivers, r.cells)
	}
	return out.String()
}

// restartCells are what is done without a word, and what with those that change that.
func restartCells(j remembered, d listed) string {
	none := restart(j, d, compute.CommandNone)
	var outcomes []string
	words := map[string][]string{} // by what they lead to
	for _, w := range restartWords() {
		done := restart(j, d, w)
		if done == none {
			continue
		}
		if words[done] == nil {
			outcomes = append(outcomes, done)
		}
		words[done] = append(words[done], wordName(w))
	}
	for i, done := range outcomes {
		outcomes[i] = fmt.Sprintf("**%s**: %s", strings.Join(words[done], ", "), done)
	}
	return none + " | " + strings.Join(outcomes, "; ")
}

// wordName is what the table calls a word.
func wordName(op compute.CommandOp) string {
	if op == compute.CommandPower {
		return "stop"
	}
	return op.String()
}

// restart is what is done in one case, up to where somebody else has to say something.
func restart(j remembered, d listed, word compute.CommandOp) string {
	l := &life{rules: DefaultRules(), now: time.Unix(0, 0)}
	var tasks []Task
	var machines []Machine
	if j.task != nil {
		tasks = append(tasks, *j.task)
	}
	if d.machine != nil {
		machines = append(machines, *d.machine)
	}
	for _, a := range l.rules.Reconcile(tasks, machines, l.now) {
		l.task, l.todo = a.Task, a.Actions
	}
	l.past = j.past
	l.deliver(word)
	for len(l.todo) > 0 {
		next := l.todo[0]
		l.todo = l.todo[1:]
		l.do(next)
	}
	if len(l.done) == 0 {
		return "–"
	}
	return strings.Join(l.done, ", ")
}

// life is an agent's after a restart, as far as one instance goes.
type life struct {
	rules Rules
	now   time.Time
	task  Task
	past  *Past // of its claim, once that is over
	todo  []Action
	done  []string
}

func (l *life) step(e Event) {
	var more []Action
	l.task, more = l.rules.Step(l.task, e, l.now)
	l.todo = append(l.todo, more...)
}

// deliver is the word that was found: a task's own, or a stranger's.
func (l *life) deliver(word compute.CommandOp) {
	known := l.task.Instance != "" && l.task.Stage != Over && l.task.Holds(1, "c1")
	switch {
	case word == compute.CommandNone, word == compute.CommandFenced && l.task.Instance == "":
	case word == compute.CommandFenced:
		l.step(Fenced{Epoch: 1})
	case !known:
		if r := Stranger(compute.Command{Op: word, Attempt: 1, Claim: "c1"}, l.past); r != nil {
			l.todo = append(l.todo, Report{*r})
		}
	case word == compute.CommandPower:
		l.step(Commanded{1, "c1", compute.PowerCommand{Op: compute.OpStop, Command: "s", Version: 1}, false})
	default:
		l.step(map[compute.CommandOp]Event{
			compute.CommandGrant: Granted{1, "c1"}, compute.CommandDeny: Denied{1, "c1"},
			compute.CommandDelete: Deleted{1, "c1"}, compute.CommandConfirm: Confirm{Attempt: 1, Claim: "c1"},
		}[word])
	}
}

// do carries an action out, unless something came in between, as the agent does.
func (l *life) do(a Action) {
	switch a := a.(type) {
	case Report:
		what := a.Report.Op.String()
		if a.Report.Attempt == 1 && a.Report.Claim != "c1" {
			what += " of that claim"
		}
		if a.Report.Class == compute.FailureUnknownHere {
			what += " (unknown here)"
		}
		l.did("say " + what)
		if a.Report.Claim == l.task.Claim {
			l.step(Acked{a.Report.Op, l.task.Attempt, l.task.Claim})
		}
	case Launch:
		if l.task.Stage != Launching {
			l.step(LaunchFailed{})
			return
		}
		l.did("launch")
		l.step(Launched{})
	case Destroy:
		l.did("destroy")
		l.step(Destroyed{})
	case DoPower:
		if l.task.Stage != Running {
			l.step(PowerDone{Failed: &Failure{}})
			return
		}
		l.did("stop")
		l.step(PowerDone{Power: compute.PowerStopped})
	case Forget:
		l.did("forget")
	}
}

// did notes what was done; the same said twice is said once.
func (l *life) did(what string) {
	if !slices.Contains(l.done, what) {
		l.done = append(l.done, what)
	}
}
