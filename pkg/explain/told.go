// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Facts are what is known of one instance.
type Facts struct {
	Now         time.Time
	Instance    *compute.Instance // nil: its request was taken, and not decided yet
	AcceptedAt  time.Time         // of a request that is not decided yet
	Before      bool              // it was not booted: what would become of it is asked
	Wanted      Wanted            // of one that is queued, or would be: what hosts are judged for
	Hosts       Answer            // of one that is queued, or would be
	On          *Host             // the host that it is for; nil: nothing is known of it, or there is none
	Silent      bool              // the host that has it is silent, or nothing is known of it
	Position    uint64            // how many are before it in its queue
	Own         uint64            // how many of those before it are of its project
	Depth       uint64            // how many wait there
	Group       *Group            // of one that is queued, or would be; nil: it is in none that has a rule
	Closed      bool              // its queue is closed: the flavor or a capability was removed
	Whole       compute.Resources // where its set is offered whole: what a host must have free at once to look at it
	Unmade      bool              // its queue is the tier of a class, and is not listed yet
	Placeholder *compute.Instance // whose room it waits for; nil: it waits for none
	Older       []compute.HostID  // of a placeholder: whose agents know no reservations
	Higher      uint64            // how many of higher classes wait for the same

	Name    func(compute.HostID) compute.HostID // what a host is called where this is read; nil: by its name
	Text    func(string) string                 // a message of a host as it may be read; nil: as it is
	Amounts bool                                // what one host has free may be told
	Sums    bool                                // what there is room for on all, and what the nearest lacks, may be told
}

func (f Facts) host(h compute.HostID) compute.HostID {
	if f.Name == nil {
		return h
	}
	return f.Name(h)
}

func (f Facts) text(message string) string {
	if f.Text == nil {
		return message
	}
	return f.Text(message)
}

// Told is an explanation in words.
type Told struct {
	Summary   string   // where it is, and why, in a sentence
	Next      []Event  // what happens by itself, in order
	Asker     []string // what its project can do
	Operators []string // what operators can do; it has names of hosts
}

// Event is something that will happen.
type Event struct {
	At   time.Time // zero: nobody knows when
	What string
}

// lateDecision is how long a request may wait for a conductor before that is the news.
const lateDecision = 10 * time.Second

// Tell explains.
func Tell(f Facts) Told {
	i := f.Instance
	if i == nil {
		return f.accepted()
	}
	switch i.State {
	case compute.StateQueued:
		return f.queued()
	case compute.StateStarting:
		return f.starting()
	case compute.StateActive:
		return f.active()
	case compute.StateDeleting:
		return f.deleting()
	case compute.StateDeleted:
		return Told{Summary: "it is deleted" + f.because(i.Reason)}
	case compute.StateError:
		return f.failed()
	}
	return Told{Summary: "it is " + i.State.String()}
}

func (f Facts) accepted() Told {
	waited := f.Now.Sub(f.AcceptedAt)
	if waited < lateDecision {
		return Told{
			Summary: "its request is safe, and a conductor decides about it within seconds",
			Next:    []Event{{What: "a conductor checks the quota and puts it into its queue"}},
		}
	}
	return Told{
		Summary:   fmt.Sprintf("its request is safe, and no conductor has read it for %s", span(waited)),
		Next:      []Event{{What: "it is decided once conductors are there again: nothing is lost"}},
		Operators: []string{"look whether conductors run and reach Kafka: berth doctor"},
	}
}

func (f Facts) queued() Told {
	i := f.Instance
	var out Told
	switch {
	case i.Boot.Placeholder().Kept:
		out = f.kept()
	case i.IsPlaceholder() && i.PublishAt.After(f.Now) && len(i.Failures) == 0:
		out = f.early()
	case i.PublishAt.After(f.Now) && i.Waits() && len(i.Failures) == 0:
		out.Summary = fmt.Sprintf("it gave back what it had, and tries again in %s", span(i.PublishAt.Sub(f.Now)))
	case i.PublishAt.After(f.Now):
		out.Summary = fmt.Sprintf("%s; attempt %d begins in %s", f.lastFailure(), i.Attempt, span(i.PublishAt.Sub(f.Now)))
		out.Next = append(out.Next, Event{At: i.PublishAt, What: fmt.Sprintf("attempt %d of %d", i.Attempt, i.Boot.Attempts)})
	case i.Boot.Host != "":
		out = f.pinned()
	case f.Placeholder != nil:
		out = f.taking()
	case len(f.Older) > 0:
		out = f.older()
	default:
		out = f.waiting()
	}
	if r := i.Reason; r != nil && r.Code == compute.Preempted {
		out.Summary += "; it ran before" + f.because(r)
	}
	f.class(&out)
	if i.Waits() {
		out.Summary += "; " + i.Boot.Set().Says() + f.wholeNeeds()
		out.Next = append(out.Next, Event{What: "once each of its set is claimed, all start; else hosts give their parts back, and all are offered again"})
	}
	if f.Closed {
		out.Summary += "; its flavor or a capability of it was removed, and it is still built as it was asked for"
	}
	if i.Boot.OnNoCapacity == compute.FailAtOnce {
		out.Next = append(out.Next, Event{
			At: f.endsWithout(), What: "it ends in error if " + f.notTaken() + " (on_no_capacity: fail)",
		})
	}
	switch {
	case i.Boot.Placeholder().Kept: // it has told so
	case i.IsPlaceholder():
		out.Next = append(out.Next, Event{At: i.Boot.Placeholder().Until, What: "the reservation ends, and it with it"})
	case !i.Deadline.IsZero():
		out.Next = append(out.Next, Event{At: i.Deadline, What: "it ends in error if " + f.notTaken() + " (deadline)"})
	}
	return out
}

// wholeNeeds is what a host must have for a set that is offered whole.
func (f Facts) wholeNeeds() string {
	if f.Whole.IsZero() {
		return ""
	}
	return fmt.Sprintf(", for which it must have %s free at once", f.Whole)
}

// lastFailure is how the attempt before ended.
func (f Facts) lastFailure() string {
	all := f.Instance.Failures
	if len(all) == 0 {
		return "it waits for its next attempt"
	}
	last := all[len(all)-1]
	return fmt.Sprintf("attempt %d failed on %s (%s%s)", last.Attempt, f.host(last.Host), last.Class, colon(f.text(last.Message)))
}

// waiting is work in a queue that any host may take.
func (f Facts) waiting() (out Told) {
	a, i := f.Hosts, f.Instance
	switch {
	case a.Total() == 0:
		out.Summary = "there is no host"
		out.Operators = []string{"start an agent on a host: berth agent"}
	case a.Now() > 0 && f.Position == 0 && f.late() && i.Waits(): // records do not say which parts are claimed
		out.Summary = fmt.Sprintf("%s could take it, if it is not claimed already", count(a.Now(), "host"))
	case a.Now() > 0 && f.Position == 0 && f.late():
		out.Summary = fmt.Sprintf("%s could take it, and none has for %s", count(a.Now(), "host"), span(f.Now.Sub(i.UnclaimedSince())))
		out.Next = []Event{{What: "it is offered again and again until one takes it"}}
		out.Operators = []string{"look whether queue managers, conductors and brokers are well: berth doctor"}
	case a.Now() > 0 && f.Position == 0:
		out.Summary = fmt.Sprintf("%s can take it now, and none is known to be before it", count(a.Now(), "host"))
		out.Next = []Event{{What: "a host takes it within seconds"}}
	case a.Now() > 0 && f.Sums && a.Room <= int64(f.Position):
		out.Summary = fmt.Sprintf("there is room for %d of its kind now, and %s before it", a.Room, are(f.Position))
		out.Next = []Event{{What: "hosts take one after the other, as far as there is room"}}
	case a.Now() > 0:
		out.Summary = fmt.Sprintf("%s can take it now, and %s before it in its queue", count(a.Now(), "host"), are(f.Position))
		out.Next = []Event{{What: "hosts take one after the other"}}
	case a.Later() == 0:
		out.Summary = fmt.Sprintf("no host can ever take it: of %s %s", count(a.Total(), "host"), strings.Join(a.nevers(), ", "))
	default:
		out.Summary = fmt.Sprintf("no host can take it now: of %s %s", count(a.Total(), "host"),
			strings.Join(append(a.laters(f.Sums), a.nevers()...), ", "))
		out.Next = []Event{{What: "a host takes it within seconds of being able to"}}
	}
	if a.Now() == 0 {
		out.Summary += f.saved()
	}
	if f.Group != nil && (a.Counts[KeptOut] > 0 || f.Group.Rule.Policy.Soft()) {
		out.Summary += "; " + f.Group.Says()
	}
	if f.Position > compute.UsualShare && a.Now()+a.Later() > 0 {
		out.Next = append(out.Next, f.turns())
	}
	out.Summary += a.reluctant()
	if a.Counts[Fits] == 0 {
		out.Operators = append(out.Operators, a.first[Mistrusts].operators()...)
	}
	if a.Now() == 0 {
		out.Asker, out.Operators = f.asker(), append(out.Operators, a.operators()...)
		if !f.Whole.IsZero() {
			out.Asker = append(out.Asker, "boot the set without its group if it may be on several hosts, or a smaller one")
		}
	}
	return out
}

// late says whether it waits for longer than a host that can take it needs.
func (f Facts) late() bool {
	return !f.Before && f.Now.Sub(f.Instance.UnclaimedSince()) > lateDecision
}

// turns is how projects share a queue in which many builds wait.
func (f Facts) turns() Event {
	if f.Before {
		return Event{What: fmt.Sprintf("projects take turns: it comes after all of its own project and about %d of each other",
			compute.UsualShare)}
	}
	return Event{What: fmt.Sprintf("projects take turns: before it %s of its own project, and about %d of each other",
		are(f.Own), compute.UsualShare)}
}

// pinned is work that one host alone may take.
func (f Facts) pinned() (out Told) {
	h := f.host(f.Instance.Boot.Host)
	out.Asker = []string{"boot another one without a host, if it may run elsewhere, and delete this one"}
	if f.Before {
		out.Asker = []string{"boot it without a host, if it may run elsewhere"}
	}
	if f.On == nil {
		out.Summary = fmt.Sprintf("it is for host %s alone, of which nothing is known", h)
		return out
	}
	v := Judge(f.Wanted, *f.On)
	out.Summary = fmt.Sprintf("it is for host %s alone, which %s", h, v.says(f.Amounts))
	out.Operators = v.operators()
	switch {
	case v.Standing.Now():
		out.Asker, out.Next = nil, []Event{{What: "its host takes it within seconds"}}
	case v.Standing == KeptOut && f.Group != nil:
		out.Summary += "; " + f.Group.Says()
		out.Asker, out.Next = f.Group.asker(), []Event{{What: "its host is offered it once the rule allows that"}}
	case v.Standing == Silent || v.Standing == Twin:
	case f.Before: // such a host says so at once, and does not let it wait
		out.Summary = fmt.Sprintf("it would end at once: its host %s %s", h, v.says(f.Amounts))
	default:
		out.Next = []Event{{What: "its host refuses it as soon as it reads it, and it ends in error"}}
	}
	return out
}

// WantedBy is the machine that an instance asks for. It does not know the key of its user data.
func WantedBy(i *compute.Instance) Wanted {
	w := Wanted{
		Queue: i.Queue, Resources: i.Resources, Required: i.Required, Forbidden: i.Forbidden, Host: i.Boot.Host,
		Avoid: i.Boot.Avoid, Image: i.Boot.Image,
	}
	for _, f := range i.Failures {
		w.Failed = append(w.Failed, f.Host)
	}
	return w
}

func (f Facts) starting() Told {
	i := f.Instance
	since := f.Now.Sub(i.StartingAt)
	if f.Silent {
		return f.onSilent("it was being launched there")
	}
	return Told{
		Summary: fmt.Sprintf("host %s launches it since %s (attempt %d)", f.host(i.Host), span(since), i.Attempt),
		Next:    []Event{{What: "its host says that it runs, or why not"}},
	}
}

// onSilent is what its host does not answer for.
func (f Facts) onSilent(was string) Told {
	i := f.Instance
	return Told{
		Summary: fmt.Sprintf("host %s, which has it, is silent: %s, and nobody knows whether it is", f.host(i.Host), was),
		Next:    []Event{{What: "nothing is moved by silence: its host goes on where it was once it is heard again"}},
		Operators: []string{
			fmt.Sprintf("look at the agent of host %s and at its way to Kafka", i.Host),
			fmt.Sprintf("if the host is dead for certain: berth host evacuate %s --fenced", i.Host),
		},
	}
}

func (f Facts) active() Told {
	i := f.Instance
	if f.Silent {
		return f.onSilent("it ran there")
	}
	if i.Notice() != nil {
		return f.noticed()
	}
	if p := i.Boot.Placeholder(); p.Of != "" {
		return f.holding(p)
	}
	if i.Stopped != nil {
		return Told{
			Summary: fmt.Sprintf("it is %s on host %s%s", i.Power, f.host(i.Host), f.because(i.Stopped)),
			Asker:   []string{"start it again: berth start " + name(i)},
		}
	}
	return Told{Summary: fmt.Sprintf("it runs on host %s since %s", f.host(i.Host), span(f.Now.Sub(i.ActiveAt)))}
}

// noticed is a machine whose place is taken for other work.
func (f Facts) noticed() Told {
	i, n := f.Instance, f.Instance.Notice()
	out := Told{Summary: fmt.Sprintf("its place on host %s is taken for work of priority %s in queue %s: it is preemptible",
		f.host(n.Host), n.Class, n.Queue)}
	if !n.Going {
		out.Next = []Event{{At: n.Until, What: "its host destroys it, or before if its guest has stopped"}}
	}
	if i.Boot.Preemptible().Then == compute.ThenRequeue {
		out.Next = append(out.Next, Event{What: "once its host has it no more it waits in its queue again, and is built anew"})
	} else {
		out.Next = append(out.Next, Event{What: "it becomes deleted"})
		out.Asker = []string{"save what it must not lose: its disk goes with it"}
	}
	return out
}

func (f Facts) deleting() Told {
	i := f.Instance
	if f.Silent {
		return f.onSilent("it is to be deleted")
	}
	return Told{
		Summary: fmt.Sprintf("host %s destroys it, and says so once it is gone", f.host(i.Host)),
		Next:    []Event{{What: "it becomes deleted, and its room and quota are free"}},
	}
}

func (f Facts) failed() Told {
	i := f.Instance
	out := Told{Summary: "it ended in error" + f.because(i.Reason)}
	if i.Reason == nil {
		return out
	}
	switch i.Reason.Code {
	case compute.QuotaExceeded:
		out.Asker = []string{"delete something of this project, or ask for more quota; then boot it again"}
		out.Operators = []string{fmt.Sprintf("berth quota set %s gives the project more", i.Project)}
	case compute.NoSuchGroup:
		out.Asker = []string{"berth group list shows what there is, berth group create makes one"}
	case compute.GroupRule:
		out.Asker = []string{"berth group show says where its members are; delete one, change the rule, or boot it outside of the group"}
	case compute.SetFailed:
		out.Asker = []string{"berth explain of the instance that the reason names says what to do; then boot the set again"}
	case compute.NoSuchFlavor, compute.NoSuchCapability, compute.QueueClosedReason:
		out.Asker = []string{"berth flavor list and berth capability list show what there is"}
	case compute.AttemptsExhausted, compute.BuildFailed:
		out.Asker = []string{"its failures say what went wrong: mend the image or the user data if it was the request's, and boot it again"}
		out.Operators = []string{"look at the hosts on which it failed: berth host show"}
	case compute.NoSuchReservation:
		out.Asker = []string{
			"berth reservation list shows what there is; boot into one without --flavor: it takes the reservation's",
		}
	case compute.ReservationFull:
		out.Asker = []string{
			"berth reservation show says what has taken it: delete one of them, or boot it without the reservation",
			"reserve more under another name: berth reserve",
		}
	case compute.ReservationEnded:
		out.Asker = []string{"reserve again, for longer: berth reserve; or boot it without the reservation"}
	case compute.RequestDiffers:
		out.Asker = f.differs()
	case compute.DeadlineExceeded, compute.NoEligibleHost, compute.NeverFits, compute.PinnedHostUnavailable:
		out.Asker = []string{"berth why says whether it would be placed now, and what it takes"}
	case compute.Malformed:
		out.Asker = []string{"give what the reason asks for, and boot it under another id"}
	case compute.Preempted:
		out.Asker = []string{"boot it anew with what there is to choose from: its queue was removed while it waited"}
	case compute.HostLost:
		out.Asker = []string{"boot another one: the machine and its disk are gone"}
		out.Operators = []string{
			"berth host show says how its host is; if that was not declared dead, find out who removes machines there",
		}
	}
	return out
}

// differs is what can be done where another request was first.
func (f Facts) differs() []string {
	if of := f.Instance.Boot.Placeholder().Of; of != "" {
		return []string{fmt.Sprintf("berth reservation show %s says what there is; reserve under another name for more", of)}
	}
	return []string{"repeat the first request as it was, or give an id or key of its own"}
}

func name(i *compute.Instance) string {
	if i.Boot.Name != "" {
		return i.Boot.Name
	}
	return string(i.ID)
}

// because is a reason behind what it is the reason of.
func (f Facts) because(r *compute.Reason) string {
	if r == nil {
		return ""
	}
	shown := *r
	shown.Host, shown.Detail = f.host(r.Host), f.text(r.Detail)
	return ": " + shown.String()
}

func colon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}
