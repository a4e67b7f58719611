// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// check compares explanations, as people read them.
func check(t *testing.T, name, got, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func later(d time.Duration) func(*compute.Instance) {
	return func(i *compute.Instance) { i.PublishAt = now.Add(d) }
}

func waited(d time.Duration) func(*compute.Instance) {
	return func(i *compute.Instance) { i.ChangedAt = now.Add(-d) }
}

func failed(i *compute.Instance) {
	i.Failures = []compute.Failure{{Host: "h9", Attempt: 1, Class: compute.FailureHost, Message: "no luck"}}
	i.Attempt = 2
}

func inSet(i *compute.Instance) { i.Boot.InSet(compute.Set{ID: i.ID, Size: 3}) }

func placeholder(i *compute.Instance) {
	i.Boot.AsPlaceholder(compute.Placeholder{Of: "r", From: now.Add(time.Minute), Until: now.Add(2 * time.Hour)})
}

const setSays = "; none of the 3 of its set starts before each has a host"

const setNext = "\nnext: once each of its set is claimed, all start; else hosts give their parts back, and all are " +
	"offered again"

// TestWhenTheNextAttemptBegins, and why it does not begin at once.
func TestWhenTheNextAttemptBegins(t *testing.T) {
	const ends = "\nnext in 2h0m: the reservation ends, and it with it"
	for name, c := range map[string]struct {
		i    *compute.Instance
		want string
	}{
		"after a failure": {queued(later(time.Minute), failed),
			"attempt 1 failed on h9 (host: no luck); attempt 2 begins in 1m" +
				"\nnext in 1m: attempt 2 of 3" + deadline},
		"for no known reason": {queued(later(time.Minute)), "it waits for its next attempt; attempt 1 begins in 1m" +
			"\nnext in 1m: attempt 1 of 3" + deadline},
		"of a set": {queued(later(time.Minute), inSet),
			"it gave back what it had, and tries again in 1m" + setSays + setNext +
				deadline},
		"of a set, after a failure": {queued(later(time.Minute), inSet, failed),
			"attempt 1 failed on h9 (host: no luck); attempt 2 begins in 1m" + setSays +
				"\nnext in 1m: attempt 2 of 3" + setNext + deadline},
		"of a reservation": {queued(later(30*time.Second), placeholder),
			"hosts begin to hold room for it in 30s, shortly before reservation r begins" +
				"\nnext in 30s: it is put into its queue\nnext in 1m: the reservation begins" + ends},
		"of a reservation, after a failure": {queued(later(30*time.Second), placeholder, failed),
			"attempt 1 failed on h9 (host: no luck); attempt 2 begins in 30s\nnext in 30s: attempt 2 of 3" + ends},
	} {
		check(t, name, told(Facts{Instance: c.i}, nil), c.want)
	}
}

// TestWhatIsToldOfReservations: of placeholders that no host is offered, and of what waits for their room.
func TestWhatIsToldOfReservations(t *testing.T) {
	p := queued(placeholder)
	since := func(d time.Duration) *compute.Instance { // a placeholder whose reservation began so long ago
		return queued(func(i *compute.Instance) {
			i.Boot.AsPlaceholder(compute.Placeholder{Of: "r", From: now.Add(-d), Until: now.Add(2 * time.Hour)})
		})
	}
	atOnce := func(i *compute.Instance) { i.Boot.OnNoCapacity = compute.FailAtOnce }
	const id = "00000000-0000-4000-8000-000000000001"
	const waits = "it waits for its room: reservation r: its placeholder " + id + " is queued, and holds no room yet"
	const begins = "\nnext in 1m: the reservation begins"
	const makes = "\nnext: the host of its placeholder makes it, as soon as there is one" +
		"\nnext in 2h0m: the reservation ends, and with it what waits for its room"
	const fails = ": it ends in error if the host of its placeholder has not taken it by then (on_no_capacity: fail)"
	const late = "\nnext in 1h0m: it ends in error if the host of its placeholder has not taken it by then (deadline)"
	const asks = "\nyou: see what hosts hold: berth reservation show r, berth explain " + id +
		"\nyou: boot another one without the reservation, and delete this one"
	const upgrade = "; if that host is gone for good: berth host forget "
	for name, c := range map[string]struct {
		f    Facts
		want string
	}{
		"before it begins": {Facts{Instance: queued(), Placeholder: p}, waits + begins + makes + late + asks},
		"since it began":   {Facts{Instance: queued(), Placeholder: since(0)}, waits + makes + late + asks},
		"which ends without room": {Facts{Instance: queued(atOnce), Placeholder: p},
			waits + begins + makes + "\nnext in 1m" + fails + late + asks},
		"which waits since it began": {Facts{Instance: queued(atOnce), Placeholder: since(time.Hour)},
			waits + makes + "\nnext in 9s" + fails + late + asks},
		"which ends without a host": {Facts{Instance: queued(atOnce)}, "there is no host" +
			"\nnext in 9s: it ends in error if no host has taken it (on_no_capacity: fail)" + deadline +
			"\noperator: start an agent on a host: berth agent\noperator: add a host that is large enough and has the traits"},
		"an older agent": {Facts{Instance: p, Older: []compute.HostID{"h1"}},
			"1 host has an agent of an older version, and no host holds room for reservations before all know of them" +
				"\nnext: it is put into its queue once the agents of all hosts know of reservations" +
				"\nnext in 2h0m: the reservation ends, and it with it" +
				"\noperator: upgrade the agent of host h1" + upgrade + "h1 --fenced"},
		"older agents": {Facts{Instance: p, Older: []compute.HostID{"h1", "h2", "h3", "h4"}},
			"4 hosts have agents of an older version, and no host holds room for reservations before all know of them" +
				"\nnext: it is put into its queue once the agents of all hosts know of reservations" +
				"\nnext in 2h0m: the reservation ends, and it with it" +
				"\noperator: upgrade the agent of host h1" + upgrade + "h1 --fenced" +
				"\noperator: upgrade the agent of host h2" + upgrade + "h2 --fenced" +
				"\noperator: upgrade the agent of host h3" + upgrade + "h3 --fenced"},
		"held": {Facts{Instance: queued(placeholder,
			func(i *compute.Instance) { i.State, i.Host = compute.StateActive, "h1" })},
			"host h1 holds room for reservation r; nobody has taken it" +
				"\nnext in 2h0m: the reservation ends, and its room is free again unless it is taken" +
				"\nyou: boot into it: berth boot --reservation r --name NAME"},
		"taken": {Facts{Instance: queued(placeholder, func(i *compute.Instance) {
			i.State, i.Host = compute.StateActive, "h1"
			i.Boot.TakenBy("t")
		})}, "host h1 holds room for reservation r; instance t has it" +
			"\nnext in 2h0m: the reservation ends, and its room is free again unless it is taken" +
			"\nyou: boot into it: berth boot --reservation r --name NAME"},
	} {
		check(t, name, told(c.f, nil), c.want)
	}
	if got := WaitsForItsTime(queued(placeholder, later(30*time.Second))); got !=
		"hosts begin to hold room for it at 2026-11-25T12:00:30Z, shortly before reservation r begins" {
		t.Error(got)
	}
}

// TestClassesAreTold: the rule of a class, what waits before it, and when it counts as much as the class above.
func TestClassesAreTold(t *testing.T) {
	of := func(p compute.Priority, change ...func(*compute.Instance)) *compute.Instance {
		return queued(append(change, func(i *compute.Instance) { i.Boot.Rules = compute.RulesOf("", compute.Set{}, p) })...)
	}
	const now1, takes = "1 host can take it now, and none is known to be before it",
		"\nnext: a host takes it within seconds"
	const late = "1 host could take it, and none has for 10m"
	const again = "\nnext: it is offered again and again until one takes it"
	const doctor = "\noperator: look whether queue managers, conductors and brokers are well: berth doctor"
	low, high := "; of priority low: "+compute.PriorityLow.Rule(), "; of priority high: "+compute.PriorityHigh.Rule()
	const one, two = "; of higher priority 1 waits for the same", "; of higher priority 2 wait for the same"
	for name, c := range map[string]struct {
		f    Facts
		want string
	}{
		"normal":     {Facts{Instance: of(compute.PriorityNormal)}, now1 + takes + deadline},
		"one before": {Facts{Instance: of(compute.PriorityNormal), Higher: 1}, now1 + one + takes + deadline},
		"two before": {Facts{Instance: of(compute.PriorityNormal), Higher: 2}, now1 + two + takes + deadline},
		"high":       {Facts{Instance: of(compute.PriorityHigh)}, now1 + high + takes + deadline},
		"the first": {Facts{Instance: of(compute.PriorityHigh), Unmade: true}, now1 + high +
			"; the queue for this class is made, since it is the first that needs it" + takes +
			"\nnext: its queue is made within seconds, and it is offered there" + deadline},
		"low": {Facts{Instance: of(compute.PriorityLow)}, now1 + low + takes +
			"\nnext in 10m: from then on it is served before normal work that comes later" + deadline},
		"low for long": {Facts{Instance: of(compute.PriorityLow, waited(compute.PriorityShift))},
			late + low + again + deadline + doctor},
		"low, not booted": {Facts{Instance: of(compute.PriorityLow), Before: true}, now1 + low + takes + deadline},
		"low, for one host": {Facts{Instance: of(compute.PriorityLow, pinnedTo("h1")), Higher: 1},
			"it is for host h1 alone, which can take it now\nnext: its host takes it within seconds" + deadline},
	} {
		check(t, name, told(c.f, []Host{host("h1", 8)}), c.want)
	}
}

// TestWhatWaitsInWords goes by when it was asked for, what is before it and what hosts there are.
func TestWhatWaitsInWords(t *testing.T) {
	const small = "\nyou: delete machines that are not needed, or boot a smaller flavor"
	const full = "no host can take it now: of 1 host 1 full (the nearest is short of 1 processor)"
	const able = "\nnext: a host takes it within seconds of being able to"
	const free = "\noperator: free 1 processor on host h1"
	const now1, takes = "1 host can take it now, and none is known to be before it",
		"\nnext: a host takes it within seconds"
	const one, as = "\nnext: hosts take one after the other",
		"\nnext: hosts take one after the other, as far as there is room"
	const behind = "1 host can take it now, and 1 is before it in its queue"
	having := func(i *compute.Instance) { i.Boot.With = compute.Choices{"gpu": "a100"} }
	large := func(i *compute.Instance) { i.Resources[compute.VCPU] = 9 }
	twin := func(h *Host) { h.Beacon.Beside = compute.Voice{Journal: "j"} }
	tiny := func(h *Host) { h.Beacon.Inventory.Totals[compute.VCPU] = 2 }
	because := func(code compute.ReasonCode) func(*compute.Instance) {
		return func(i *compute.Instance) { i.Reason = &compute.Reason{Code: code} }
	}
	const turns = "\nnext: projects take turns: before it 0 are of its own project, and about 16 of each other"
	room, none := []Host{host("h1", 8)}, []Host{host("h1", 3)}
	for name, c := range map[string]struct {
		f     Facts
		hosts []Host
		want  string
	}{
		"for ten seconds": {Facts{Instance: queued(waited(lateDecision))}, room, now1 + takes + deadline},
		"a new set":       {Facts{Instance: queued(inSet)}, room, now1 + setSays + takes + setNext + deadline},
		"it was for long": {Facts{Instance: queued(waited(time.Hour))}, none, full + able + deadline + small + free},
		"behind a share": {Facts{Instance: queued(), Position: compute.UsualShare}, none,
			full + able + deadline + small + free},
		"with a capability":  {Facts{Instance: queued(having)}, none, full + able + deadline + small + free},
		"and behind another": {Facts{Instance: queued(waited(time.Hour)), Position: 1}, room, behind + one + deadline},
		"behind a full house": {Facts{Instance: queued(), Position: 2}, room, "there is room for 2 of its kind now, " +
			"and 2 are before it" + as + deadline},
		"an old set without a host": {
			Facts{Instance: queued(inSet, waited(time.Hour))}, none, full + setSays + able + setNext + deadline + small + free,
		},
		"an old set behind another": {
			Facts{Instance: queued(inSet, waited(time.Hour)), Position: 1}, room, behind + setSays + one + setNext + deadline,
		},
		"behind more, and some do": {
			Facts{Instance: queued(), Position: 17}, []Host{host("h1", 8), host("h2", 0)},
			"there is room for 2 of its kind now, and 17 are before it" + as + turns + deadline,
		},
		"behind more, and none can": {
			Facts{Instance: queued(large), Position: 17}, room,
			"no host can ever take it: of 1 host 1 too small even when empty" +
				deadline + "\nyou: boot a smaller flavor\noperator: add a host that is large enough and has the traits",
		},
		"one of two would never do": {
			Facts{Instance: queued()}, []Host{host("h1", 3), host("h2", 2, tiny)},
			"no host can take it now: of 2 hosts 1 full (the nearest is short of 1 processor), 1 too small even when empty" +
				able +
				deadline + small + free,
		},
		"its image failed on one": {
			Facts{Instance: queued(func(i *compute.Instance) { i.Boot.Image = "bad" })},
			[]Host{host("h1", 8), host("h2", 8, mistrusts("bad"))},
			"2 hosts can take it now, and none is known to be before it" + takes + deadline,
		},
		"out of service and full": {
			Facts{Instance: queued()}, []Host{host("h1", 3, in(compute.HostDisabled, ""))},
			"no host can take it now: of 1 host 1 disabled" + able + deadline +
				"\noperator: host h1 is disabled; berth host enable h1 ends that, and free 1 processor there",
		},
		"it ran before": {Facts{Instance: queued(because(compute.Preempted))}, room, now1 + "; it ran before: Preempted" +
			takes + deadline},
		"it was not to run": {Facts{Instance: queued(because(compute.BuildFailed))}, room, now1 + takes + deadline},
		"its host has a twin": {
			Facts{Instance: queued(pinnedTo("h1"))}, []Host{host("h1", 8, twin)},
			"it is for host h1 alone, which has two agents of its name" + deadline +
				"\nyou: boot another one without a host, if it may run elsewhere, and delete this one" +
				"\noperator: stop one of the agents that have the name of host h1",
		},
	} {
		check(t, name, told(c.f, c.hosts), c.want)
	}
	check(t, "a request of ten seconds ago", toldOf(Facts{AcceptedAt: now.Add(-lateDecision)}, nil),
		"its request is safe, and no conductor has read it for 10s"+
			"\nnext: it is decided once conductors are there again: nothing is lost"+
			"\noperator: look whether conductors run and reach Kafka: berth doctor")
}

// TestNoticesAreTold: what becomes of a machine whose place is taken, and what can be saved.
func TestNoticesAreTold(t *testing.T) {
	const taken = "its place on host h1 is taken for work of priority high in queue q: it is preemptible"
	const destroys = "\nnext in 5m: its host destroys it, or before if its guest has stopped"
	const becomes = "\nnext: it becomes deleted\nyou: save what it must not lose: its disk goes with it"
	const again = "\nnext: once its host has it no more it waits in its queue again, and is built anew"
	for name, c := range map[string]struct {
		then  compute.Afterwards
		going bool
		want  string
	}{
		"deleted":      {compute.ThenDelete, false, taken + destroys + becomes},
		"queued again": {compute.ThenRequeue, false, taken + destroys + again},
		"it goes":      {compute.ThenRequeue, true, taken + again},
	} {
		i := queued(func(i *compute.Instance) {
			i.State, i.Host = compute.StateActive, "h1"
			i.Boot.Preempt(compute.Preemptible{Then: c.then})
			i.GiveNotice(&compute.Notice{
				Until: now.Add(5 * time.Minute), Host: "h1", Queue: "q", Class: compute.PriorityHigh, Going: c.going,
			})
		})
		check(t, name, told(Facts{Instance: i}, nil), c.want)
	}
}

// TestHostsByOtherNames: those who may not know what hosts are called, or what they say, do not learn it here.
func TestHostsByOtherNames(t *testing.T) {
	f := Facts{Name: func(h compute.HostID) compute.HostID { return "a " + h }, Text: strings.ToUpper}
	for want, i := range map[string]*compute.Instance{
		"it is deleted: BuildFailed (host a h1, class unknown, NO DISK)": queued(func(i *compute.Instance) {
			i.State, i.Reason = compute.StateDeleted, &compute.Reason{Code: compute.BuildFailed, Host: "h1", Detail: "no disk"}
		}),
		"it is deleted":     queued(func(i *compute.Instance) { i.State = compute.StateDeleted }),
		"it ended in error": queued(func(i *compute.Instance) { i.State = compute.StateError }),
		"attempt 1 failed on a h9 (host: NO LUCK); attempt 2 begins in 1m": queued(later(time.Minute), failed),
	} {
		if f.Instance, f.Now = i, now; Tell(f).Summary != want {
			t.Errorf("%q, want %q", Tell(f).Summary, want)
		}
	}
}
