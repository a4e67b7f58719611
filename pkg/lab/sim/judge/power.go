// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// powerHeard is how long an instance must go on being active after a power command was
// in Kafka, so that a conductor that nothing goes wrong with has read it meanwhile.
const powerHeard = 3 * time.Second

// checkPower: a power command that was given to an active instance comes into its record,
// and is answered, or a newer one takes its place, or the instance goes; what the answer
// says was done, the machine did, and what it says was not had a cause.
func checkPower(r *Recording) (wrong []Violation) {
	for n, a := range r.Asks {
		if a.Op != schedule.LoadPower || !a.OK {
			continue
		}
		x := r.followCommand(a, commandOf(n))
		switch {
		case x.wrong != "":
			wrong = append(wrong, broken("power", a.ID, a.Answered, "the %s of %s at %s %s",
				a.Power, a.Name, r.At(a.Answered), x.wrong)...)
		case x.answer != nil:
			wrong = append(wrong, r.checkAnswer(a, x)...)
		}
	}
	return wrong
}

// commandOf is the id that the client gives a power command: what it asked for n-th.
func commandOf(n int) compute.CommandID { return compute.CommandID(fmt.Sprintf("c-%d", n)) }

// course is what became of a power command.
type course struct {
	answer *compute.PowerAnswer
	host   compute.HostID // that answered it
	taken  bool           // the place of the machine was taken before
	wrong  string
}

// followCommand reads the versions of a record one after the other.
func (r *Recording) followCommand(a Ask, id compute.CommandID) (x course) {
	open, active := false, false
	ignored := r.Schedule.Decides()
	from, to := a.Began, a.Answered.Add(powerHeard+r.Schedule.Slack())
	for n, w := range r.Log {
		i := w.Instance
		if i.ID != a.ID {
			continue
		}
		active = i.State == compute.StateActive
		if w.Seen.Before(to) && r.over(n).After(from) {
			ignored = ignored && active && !i.Confirm
		}
		switch {
		case i.Command != nil && i.Command.Command == id:
			open, ignored = true, false
		case i.Answer != nil && i.Answer.Command == id:
			return course{answer: i.Answer, host: i.Host, taken: i.Notice() != nil && i.Notice().Going}
		case open && active && i.Command == nil:
			return course{wrong: "is in no record since " + r.At(w.Seen) + ", and was not answered"}
		case open:
			return course{} // a newer one takes its place, or it is not active any more
		}
	}
	if ignored && active {
		x.wrong = "came into no record, and it is active all the time"
	}
	return x
}

// checkAnswer compares the answer with what the machine did between the question and it.
func (r *Recording) checkAnswer(a Ask, x course) []Violation {
	did := r.powerOf(a.ID, x.host, a.Began, x.answer.At.Add(r.Schedule.World.Drifts()))
	well := map[string]bool{"stop": did.stopped, "start": did.ran, "reboot": did.rebooted}[a.Power]
	switch {
	case x.answer.Failed == "" && !well:
		return broken(
			"power",
			a.ID,
			x.answer.At,
			"%s is said to be done with %s on %s from %s to %s, which did not do it",
			a.Power,
			a.Name,
			x.host,
			r.At(a.Began),
			r.At(x.answer.At),
		)
	case x.answer.Failed != "" && !x.taken && !r.Schedule.Hinders(x.host) && !(a.Power == "reboot" && did.stopped):
		return broken(
			"power",
			a.ID,
			x.answer.At,
			"%s of %s failed without a cause: %s",
			a.Power,
			a.Name,
			x.answer.Failed,
		)
	}
	return nil
}

// doings are what a machine did in a time.
type doings struct{ ran, stopped, rebooted bool }

// powerOf is what a machine did between two moments, as the hypervisor has it.
func (r *Recording) powerOf(id compute.InstanceID, h compute.HostID, from, to time.Time) (d doings) {
	running := false
	for _, e := range r.Machines {
		if e.Instance != id || e.Host != h || e.At.After(to) {
			continue
		}
		if !e.At.Before(from) { // it did until now what it did before
			d.ran, d.stopped = d.ran || running, d.stopped || !running
			d.rebooted = d.rebooted || e.Kind == fake.Rebooted
		}
		if slices.Contains([]fake.EventKind{fake.Launched, fake.Resumed, fake.Stopped, fake.Destroyed}, e.Kind) {
			running = e.Kind == fake.Launched || e.Kind == fake.Resumed
		}
	}
	d.ran, d.stopped = d.ran || running, d.stopped || !running
	return d
}
