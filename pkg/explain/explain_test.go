// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

var now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// host is one with 8 processors and 16 GiB, of which so many processors are free.
func host(id string, free int64, change ...func(*Host)) Host {
	h := Host{Beacon: &compute.Beacon{
		Host:      compute.HostID(id),
		Inventory: compute.Inventory{Totals: compute.Resources{compute.VCPU: 8, compute.MemoryMB: 16384}},
		Free:      compute.Resources{compute.VCPU: free, compute.MemoryMB: 2048 * free},
	}}
	for _, f := range change {
		f(&h)
	}
	return h
}

func in(s compute.HostState, reason string) func(*Host) {
	return func(h *Host) { h.Beacon.State, h.Beacon.Reason = s, reason }
}

func mistrusts(image string) func(*Host) {
	return func(h *Host) { h.Beacon.Mistrusts = []string{image} }
}

func silent(h *Host) { h.Silent = true }

func traits(all ...compute.Trait) func(*Host) {
	return func(h *Host) { h.Beacon.Inventory.Traits = all }
}

// queued is an instance that wants four processors and waits.
func queued(change ...func(*compute.Instance)) *compute.Instance {
	i := &compute.Instance{
		ID: "00000000-0000-4000-8000-000000000001", Project: "web", State: compute.StateQueued, Queue: "m1",
		Boot:      compute.Boot{Name: "vm", Flavor: "m1", Attempts: 3},
		Resources: compute.Resources{compute.VCPU: 4, compute.MemoryMB: 4096}, Attempt: 1,
		QueuedAt: now.Add(-time.Minute), ChangedAt: now.Add(-time.Second), Deadline: now.Add(time.Hour),
	}
	for _, f := range change {
		f(i)
	}
	return i
}

// told is an explanation as people read it.
func told(f Facts, hosts []Host) string {
	if f.Instance != nil && f.Instance.State == compute.StateQueued {
		f.Wanted = WantedBy(f.Instance)
		f.Hosts = Hosts(f.Wanted, hosts)
	}
	return toldOf(f, hosts)
}

// toldOf is the same of hosts that are judged already.
func toldOf(f Facts, hosts []Host) string {
	if f.Instance != nil {
		for _, h := range hosts {
			if h.Beacon.Host == f.Instance.Boot.Host {
				f.On = &h
			}
			f.Silent = f.Silent || h.Silent && h.Beacon.Host == f.Instance.Host
		}
	}
	f.Now, f.Amounts, f.Sums = now, true, true
	t := Tell(f)
	lines := []string{t.Summary}
	for _, e := range t.Next {
		at := ""
		if !e.At.IsZero() {
			at = " in " + span(e.At.Sub(now))
		}
		lines = append(lines, "next"+at+": "+e.What)
	}
	for _, s := range t.Asker {
		lines = append(lines, "you: "+s)
	}
	for _, s := range t.Operators {
		lines = append(lines, "operator: "+s)
	}
	return strings.Join(lines, "\n")
}

const refuses = "\nnext: its host refuses it as soon as it reads it, and it ends in error"

const deadline = "\nnext in 1h0m: it ends in error if no host has taken it (deadline)"

// TestWithoutSums: where a request names hosts there may be one that does, so nothing is said of how much is free
// there.
func TestWithoutSums(t *testing.T) {
	for _, free := range []int64{1, 3} {
		i := queued()
		says := Tell(Facts{Now: now, Instance: i, Hosts: Hosts(WantedBy(i), []Host{host("h1", free)})}).Summary
		if says != "no host can take it now: of 1 host 1 full" {
			t.Errorf("with %d free: %s", free, says)
		}
	}
	for _, before := range []uint64{1, 7} { // there is room for two
		i := queued()
		told := Tell(Facts{
			Now: now, Instance: i, Hosts: Hosts(WantedBy(i), []Host{host("h1", 8)}), Position: before, Depth: 9,
		})
		want := fmt.Sprintf("1 host can take it now, and %s before it in its queue", are(before))
		if told.Summary != want || told.Next[0].What != "hosts take one after the other" {
			t.Errorf("behind %d: %s, %v", before, told.Summary, told.Next)
		}
	}
}

// TestWaysNotToBePlaced: each way says what it is, what happens next, and what frees it.
func TestWaysNotToBePlaced(t *testing.T) {
	small := "you: delete machines that are not needed, or boot a smaller flavor"
	for name, c := range map[string]struct {
		f     Facts
		hosts []Host
		want  string
	}{
		"just accepted": {
			Facts{AcceptedAt: now.Add(-time.Second)}, nil,
			"its request is safe, and a conductor decides about it within seconds\n" +
				"next: a conductor checks the quota and puts it into its queue",
		},
		"no conductor": {
			Facts{AcceptedAt: now.Add(-5 * time.Minute)}, nil,
			"its request is safe, and no conductor has read it for 5m\n" +
				"next: it is decided once conductors are there again: nothing is lost\n" +
				"operator: look whether conductors run and reach Kafka: berth doctor",
		},
		"about to be taken": {
			Facts{Instance: queued()}, []Host{host("h1", 8), host("h2", 0)},
			"1 host can take it now, and none is known to be before it\nnext: a host takes it within seconds" + deadline,
		},
		"a placeholder that is kept": {
			Facts{Instance: queued(func(i *compute.Instance) {
				i.Boot.AsPlaceholder(compute.Placeholder{Of: "r", Until: now.Add(2 * time.Hour), Taker: "t", Kept: true})
			}), Depth: 9}, []Host{host("h1", 8)},
			"it waits in no queue, for reservation r: instance t has taken it, and is on a host that does not hold it any more: " +
				"hosts are asked for its room once that has ended\nnext in 2h0m: the reservation ends" +
				"\nyou: see what has taken it: berth explain t",
		},
		"a placeholder that no host has": {
			Facts{Instance: queued(func(i *compute.Instance) {
				i.Boot.AsPlaceholder(compute.Placeholder{Of: "r", Until: i.Deadline})
			})}, []Host{host("h1", 8)},
			"1 host can take it now, and none is known to be before it\nnext: a host takes it within seconds\n" +
				"next in 1h0m: the reservation ends, and it with it",
		},
		"another is before it": {
			Facts{Instance: queued(), Position: 1, Depth: 9}, []Host{host("h1", 8)},
			"1 host can take it now, and 1 is before it in its queue\nnext: hosts take one after the other" + deadline,
		},
		"more are before it than there is room": {
			Facts{Instance: queued(), Position: 7, Depth: 9}, []Host{host("h1", 8)},
			"there is room for 2 of its kind now, and 7 are before it\n" +
				"next: hosts take one after the other, as far as there is room" + deadline,
		},
		"hosts fit, and none takes it": {
			Facts{Instance: queued(func(i *compute.Instance) { i.ChangedAt = now.Add(-3 * time.Minute) })},
			[]Host{host("h1", 8)},
			"1 host could take it, and none has for 3m\nnext: it is offered again and again until one takes it" + deadline +
				"\noperator: look whether queue managers, conductors and brokers are well: berth doctor",
		},
		"a part of a set is claimed, and others are not": {
			Facts{Instance: queued(func(i *compute.Instance) {
				i.ChangedAt = now.Add(-3 * time.Minute)
				i.Boot.InSet(compute.Set{ID: i.ID, Size: 3})
			})},
			[]Host{host("h1", 8)},
			"1 host could take it, if it is not claimed already; none of the 3 of its set starts before each has a host" +
				"\nnext: once each of its set is claimed, all start; else hosts give their parts back, and all are offered again" +
				deadline,
		},
		"its image is mistrusted": {
			Facts{Instance: queued(func(i *compute.Instance) { i.Boot.Image = "bad" })},
			[]Host{host("h1", 8, mistrusts("bad")), host("h2", 0, mistrusts("bad"))},
			"1 host can take it now, and none is known to be before it; its image has failed there lately, so it is left to others at first\n" +
				"next: a host takes it within seconds" + deadline +
				"\noperator: mend its image on host h1; berth host enable h1 lets it be tried there at once",
		},
		"its image is mistrusted, and an attempt failed": {
			Facts{Instance: queued(func(i *compute.Instance) { i.Failures = []compute.Failure{{Host: "h1"}} })},
			[]Host{host("h1", 8), host("h2", 8, mistrusts(""))},
			"2 hosts can take it now, and none is known to be before it; attempts of it, or others with its image, failed there, " +
				"so it is left to others at first\nnext: a host takes it within seconds" + deadline +
				"\noperator: mend its image on host h2; berth host enable h2 lets it be tried there at once",
		},
		"another image is mistrusted": {
			Facts{Instance: queued()}, []Host{host("h1", 8, mistrusts("bad"))},
			"1 host can take it now, and none is known to be before it\nnext: a host takes it within seconds" + deadline,
		},
		"before it is booted": {
			Facts{Instance: queued(func(i *compute.Instance) { i.ChangedAt, i.Deadline = time.Time{}, time.Time{} }), Before: true},
			[]Host{host("h1", 8)},
			"1 host can take it now, and none is known to be before it\nnext: a host takes it within seconds",
		},
		"no host": {
			Facts{Instance: queued()}, nil,
			"there is no host" + deadline + "\noperator: start an agent on a host: berth agent\n" +
				"operator: add a host that is large enough and has the traits",
		},
		"all are full": {
			Facts{Instance: queued()}, []Host{host("h1", 1), host("h2", 3)},
			"no host can take it now: of 2 hosts 2 full (the nearest is short of 1 processor)\n" +
				"next: a host takes it within seconds of being able to" + deadline + "\n" + small +
				"\noperator: free 1 processor on host h2",
		},
		"all are too small": {
			Facts{Instance: queued(func(i *compute.Instance) { i.Resources[compute.VCPU] = 40 })}, []Host{host("h1", 8), host("h2", 8)},
			"no host can ever take it: of 2 hosts 2 too small even when empty" + deadline + "\nyou: boot a smaller flavor\n" +
				"operator: add a host that is large enough and has the traits",
		},
		"a trait lacks": {
			Facts{Instance: queued(func(i *compute.Instance) {
				i.Required, i.Boot.With = []compute.Trait{"CUSTOM_GPU"}, compute.Choices{"gpu": "a100"}
			})},
			[]Host{host("h1", 8)},
			"no host can ever take it: of 1 host 1 with the wrong traits (CUSTOM_GPU)" + deadline +
				"\nyou: boot it without one of its capabilities\n" +
				"operator: look at the traits of host h1: berth host show h1",
		},
		"a trait is forbidden": {
			Facts{Instance: queued(func(i *compute.Instance) { i.Forbidden = []compute.Trait{"CUSTOM_OLD"} })},
			[]Host{host("h1", 8, traits("CUSTOM_OLD"))},
			"no host can ever take it: of 1 host 1 with the wrong traits (CUSTOM_OLD)" + deadline +
				"\noperator: look at the traits of host h1: berth host show h1",
		},
		"all are avoided": {
			Facts{Instance: queued(func(i *compute.Instance) { i.Boot.Avoid = []compute.HostID{"h1", "h2"} })},
			[]Host{host("h1", 8), host("h2", 8)},
			"no host can ever take it: of 2 hosts 2 that it avoids" + deadline +
				"\nyou: boot it without some of the hosts that it avoids\n" +
				"operator: add a host that is large enough and has the traits",
		},
		"all are silent": {
			Facts{Instance: queued()}, []Host{host("h1", 8, silent)},
			"no host can take it now: of 1 host 1 silent\nnext: a host takes it within seconds of being able to" + deadline +
				"\noperator: look at the agent of host h1 and at its way to Kafka",
		},
		"all are disabled": {
			Facts{Instance: queued()}, []Host{host("h1", 8, in(compute.HostDisabled, "new disks"))},
			"no host can take it now: of 1 host 1 disabled\nnext: a host takes it within seconds of being able to" + deadline +
				"\noperator: host h1 is disabled: new disks; berth host enable h1 ends that",
		},
		"all drain": {
			Facts{Instance: queued()}, []Host{host("h1", 8, in(compute.HostDraining, "moves"))},
			"no host can take it now: of 1 host 1 draining\nnext: a host takes it within seconds of being able to" + deadline +
				"\noperator: host h1 is draining: moves; berth host enable h1 ends that",
		},
		"disabled, and no room there": {
			Facts{Instance: queued()}, []Host{host("h1", 1, in(compute.HostDisabled, "")), host("h2", 0)},
			"no host can take it now: of 2 hosts 1 full (the nearest is short of 4 GiB of memory and 4 processors), 1 disabled\n" +
				"next: a host takes it within seconds of being able to" + deadline + "\n" + small +
				"\noperator: free 4 GiB of memory and 4 processors on host h2\n" +
				"operator: host h1 is disabled; berth host enable h1 ends that, and free 2 GiB of memory and 3 processors there",
		},
		"all are quarantined": {
			Facts{Instance: queued()}, []Host{host("h1", 8, in(compute.HostQuarantined, "3 starts failed"))},
			"no host can take it now: of 1 host 1 quarantined\nnext: a host takes it within seconds of being able to" + deadline +
				"\noperator: host h1 is quarantined: 3 starts failed; " +
				"berth host enable h1 ends that if it is for starts that failed",
		},
		"two of one name": {
			Facts{Instance: queued()},
			[]Host{host("h1", 8, func(h *Host) { h.Beacon.Beside = compute.Voice{Journal: "j"} })},
			"no host can take it now: of 1 host 1 with two agents of one name\n" +
				"next: a host takes it within seconds of being able to" + deadline +
				"\noperator: stop one of the agents that have the name of host h1",
		},
		"one piece is too large": {
			Facts{Instance: queued()},
			[]Host{host("h1", 8, func(h *Host) { h.Beacon.Largest = compute.Resources{compute.VCPU: 2} })},
			"no host can take it now: of 1 host 1 full (the nearest is short of 2 processors)\n" +
				"next: a host takes it within seconds of being able to" + deadline + "\n" + small +
				"\noperator: free 2 processors on host h1",
		},
		"of every kind": {
			Facts{Instance: queued(func(i *compute.Instance) { i.Boot.Avoid = []compute.HostID{"h5"} })},
			[]Host{
				host("h1", 2), host("h2", 8, silent), host("h3", 8, in(compute.HostDisabled, "")),
				host("h4", 8, in(compute.HostDraining, "")), host("h5", 8),
			},
			"no host can take it now: of 5 hosts 1 full (the nearest is short of 2 processors), 1 draining, 1 disabled, " +
				"1 silent, 1 that it avoids\nnext: a host takes it within seconds of being able to" + deadline + "\n" + small +
				"\nyou: boot it without some of the hosts that it avoids\noperator: free 2 processors on host h1\n" +
				"operator: host h4 is draining; berth host enable h4 ends that\n" +
				"operator: host h3 is disabled; berth host enable h3 ends that\n" +
				"operator: look at the agent of host h2 and at its way to Kafka",
		},
		"its host is full": {
			Facts{Instance: queued(pinnedTo("h2"))}, []Host{host("h1", 8), host("h2", 1)},
			"it is for host h2 alone, which has too little room: 2 GiB of memory and 3 processors short" + refuses + deadline +
				"\nyou: boot another one without a host, if it may run elsewhere, and delete this one\n" +
				"operator: free 2 GiB of memory and 3 processors on host h2",
		},
		"its host drains": {
			Facts{Instance: queued(pinnedTo("h2"))}, []Host{host("h2", 8, in(compute.HostDraining, "moves"))},
			"it is for host h2 alone, which is draining" + refuses + deadline +
				"\nyou: boot another one without a host, if it may run elsewhere, and delete this one\n" +
				"operator: host h2 is draining: moves; berth host enable h2 ends that",
		},
		"its host is silent": {
			Facts{Instance: queued(pinnedTo("h2"))}, []Host{host("h2", 8, silent)},
			"it is for host h2 alone, which is silent" + deadline +
				"\nyou: boot another one without a host, if it may run elsewhere, and delete this one\n" +
				"operator: look at the agent of host h2 and at its way to Kafka",
		},
		"its host would refuse it": {
			Facts{Instance: queued(pinnedTo("h2"), func(i *compute.Instance) { i.Deadline = time.Time{} }), Before: true},
			[]Host{host("h2", 1)},
			"it would end at once: its host h2 has too little room: 2 GiB of memory and 3 processors short\n" +
				"you: boot it without a host, if it may run elsewhere\n" +
				"operator: free 2 GiB of memory and 3 processors on host h2",
		},
		"its host is unheard of": {
			Facts{Instance: queued(pinnedTo("h9"))}, []Host{host("h1", 8)},
			"it is for host h9 alone, of which nothing is known" + deadline +
				"\nyou: boot another one without a host, if it may run elsewhere, and delete this one",
		},
		"it backs off": {
			Facts{Instance: queued(func(i *compute.Instance) {
				i.Attempt, i.PublishAt = 2, now.Add(12*time.Second)
				i.Failures = []compute.Failure{{Host: "h1", Attempt: 1, Class: compute.FailureHost, Message: "disk broken"}}
			})},
			[]Host{host("h1", 8)},
			"attempt 1 failed on h1 (host: disk broken); attempt 2 begins in 12s\nnext in 12s: attempt 2 of 3" + deadline,
		},
		"it will not wait": {
			Facts{Instance: queued(func(i *compute.Instance) {
				i.Boot.OnNoCapacity, i.ChangedAt = compute.FailAtOnce, now.Add(-4*time.Second)
			})},
			[]Host{host("h1", 0)},
			"no host can take it now: of 1 host 1 full (the nearest is short of 4 GiB of memory and 4 processors)\n" +
				"next: a host takes it within seconds of being able to\n" +
				"next in 6s: it ends in error if no host has taken it (on_no_capacity: fail)" + deadline + "\n" + small +
				"\noperator: free 4 GiB of memory and 4 processors on host h1",
		},
		"much is before it": {
			Facts{Instance: queued(), Position: 17, Own: 1, Depth: 20}, []Host{host("h1", 0)},
			"no host can take it now: of 1 host 1 full (the nearest is short of 4 GiB of memory and 4 processors)\n" +
				"next: a host takes it within seconds of being able to\n" +
				"next: projects take turns: before it 1 is of its own project, and about 16 of each other" + deadline + "\n" + small +
				"\noperator: free 4 GiB of memory and 4 processors on host h1",
		},
		"much would be before it": {
			Facts{Instance: queued(), Position: 17, Before: true}, []Host{host("h1", 8)},
			"there is room for 2 of its kind now, and 17 are before it\n" +
				"next: hosts take one after the other, as far as there is room\n" +
				"next: projects take turns: it comes after all of its own project and about 16 of each other" + deadline,
		},
		"its flavor is gone": {
			Facts{Instance: queued(), Closed: true}, []Host{host("h1", 8)},
			"1 host can take it now, and none is known to be before it; its flavor or a capability of it was removed, and it is " +
				"still built as it was asked for\nnext: a host takes it within seconds" + deadline,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(strings.Split(c.want, "\n"), strings.Split(told(c.f, c.hosts), "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func pinnedTo(h compute.HostID) func(*compute.Instance) {
	return func(i *compute.Instance) { i.Boot.Host = h }
}

// TestEveryState has an explanation: ended ones too.
func TestEveryState(t *testing.T) {
	with := func(s compute.State, change func(*compute.Instance)) *compute.Instance {
		return queued(func(i *compute.Instance) {
			i.State, i.Host, i.StartingAt, i.ActiveAt = s, "h1", now.Add(-time.Minute), now.Add(-50*time.Second)
			if change != nil {
				change(i)
			}
		})
	}
	because := func(code compute.ReasonCode) func(*compute.Instance) {
		return func(i *compute.Instance) { i.Reason = &compute.Reason{Code: code} }
	}
	for name, c := range map[string]struct {
		i     *compute.Instance
		hosts []Host
		want  string // a part of it
	}{
		"starting": {with(compute.StateStarting, nil), []Host{host("h1", 8)}, "host h1 launches it since 1m (attempt 1)"},
		"starting, silent": {
			with(compute.StateStarting, nil), []Host{host("h1", 8, silent)},
			"host h1, which has it, is silent: it was being launched there, and nobody knows whether it is",
		},
		"active": {with(compute.StateActive, nil), []Host{host("h1", 8)}, "it runs on host h1 since 50s"},
		"stopped": {with(compute.StateActive, func(i *compute.Instance) {
			i.Power, i.Stopped = compute.PowerPaused, &compute.Reason{Code: compute.DiskError, Detail: "no space"}
		}), nil, "it is paused on host h1: DiskError (no space)\nyou: start it again: berth start vm"},
		"stopped, without a name": {with(compute.StateActive, func(i *compute.Instance) {
			i.Boot.Name, i.Power, i.Stopped = "", compute.PowerStopped, &compute.Reason{Code: compute.GuestShutdown}
		}), nil, "you: start it again: berth start 00000000-0000-4000-8000-000000000001"},
		"active, silent": {with(compute.StateActive, nil), []Host{host("h1", 8, silent)},
			"berth host evacuate h1 --fenced"},
		"deleting": {with(compute.StateDeleting, nil), []Host{host("h1", 8)}, "host h1 destroys it"},
		"deleting, silent": {with(compute.StateDeleting, nil), []Host{host("h1", 8, silent)},
			"h1, which has it, is silent: it is to be deleted"},
		"deleted": {with(compute.StateDeleted, because(compute.Cancelled)), nil, "it is deleted: Cancelled"},
		"over quota": {with(compute.StateError, because(compute.QuotaExceeded)), nil,
			"operator: berth quota set web"},
		"more quota": {with(compute.StateError, because(compute.QuotaExceeded)), nil,
			"you: delete something of this project"},
		"no group": {with(compute.StateError, because(compute.NoSuchGroup)), nil, "you: berth group list"},
		"its rule": {with(compute.StateError, because(compute.GroupRule)), nil, "you: berth group show"},
		"another of its set": {with(compute.StateError, because(compute.SetFailed)), nil,
			"you: berth explain of the instance"},
		"its image": {with(compute.StateError, because(compute.BuildFailed)), nil,
			"you: its failures say what went wrong"},
		"taken away": {with(compute.StateError, because(compute.Preempted)), nil, "you: boot it anew"},
		"its host":   {with(compute.StateError, because(compute.HostLost)), nil, "operator: berth host show says"},
		"no flavor":  {with(compute.StateError, because(compute.NoSuchFlavor)), nil, "you: berth flavor list"},
		"failed": {with(compute.StateError, because(compute.AttemptsExhausted)), nil,
			"operator: look at the hosts"},
		"too late":  {with(compute.StateError, because(compute.DeadlineExceeded)), nil, "you: berth why"},
		"malformed": {with(compute.StateError, because(compute.Malformed)), nil, "boot it under another id"},
		"lost":      {with(compute.StateError, because(compute.HostLost)), nil, "you: boot another one"},
		"no reservation": {with(compute.StateError, because(compute.NoSuchReservation)), nil,
			"you: berth reservation list"},
		"taken by others": {
			with(compute.StateError, because(compute.ReservationFull)), nil, "you: reserve more under another name",
		},
		"after its reservation": {with(compute.StateError, because(compute.ReservationEnded)), nil, "you: reserve again"},
		"second":                {with(compute.StateError, because(compute.RequestDiffers)), nil, "you: repeat the first"},
		"second reservation": {with(compute.StateError, func(i *compute.Instance) {
			i.Reason = &compute.Reason{Code: compute.RequestDiffers}
			i.Boot.AsPlaceholder(compute.Placeholder{Of: "r"})
		}), nil, "you: berth reservation show r says"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := told(Facts{Instance: c.i}, c.hosts); !strings.Contains(got, c.want) {
				t.Errorf("%q is not in\n%s", c.want, got)
			}
		})
	}
}

// TestHostsAreJudgedAsAgentsDo: a host stands to a machine as it did one by one, each counts once, room is what fits,
// and doing what an operator is told to do at a full host makes room there.
func TestHostsAreJudgedAsAgentsDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := func(name string, most int64) compute.Resources {
			return compute.Resources{
				compute.VCPU:     rapid.Int64Range(1, most).Draw(t, name+" processors"),
				compute.MemoryMB: rapid.Int64Range(1, most).Draw(t, name+" memory"),
			}
		}
		w := Wanted{Resources: amount("wanted", 6)}
		if rapid.Bool().Draw(t, "avoids") {
			w.Avoid = []compute.HostID{"h0", "h2"}
		}
		var hosts []Host
		for n := range rapid.IntRange(0, 20).Draw(t, "hosts") {
			h := host(fmt.Sprint("h", n), 0)
			h.Silent = rapid.Bool().Draw(t, "silent")
			h.Beacon.State = rapid.SampledFrom([]compute.HostState{
				compute.HostEnabled, compute.HostEnabled, compute.HostEnabled, compute.HostDraining,
			}).Draw(t, "state")
			h.Beacon.Inventory.Totals = amount("totals", 12)
			h.Beacon.Free = compute.Resources{}
			for c, total := range h.Beacon.Inventory.Totals {
				h.Beacon.Free[c] = rapid.Int64Range(0, total).Draw(t, "free")
			}
			hosts = append(hosts, h)
		}
		a := Hosts(w, hosts)
		if a.Total() != uint32(len(hosts)) || len(a.Nearest) != min(len(hosts), MostNearest) {
			t.Fatalf("%d hosts of %d, %d near", a.Total(), len(hosts), len(a.Nearest))
		}
		if !slices.IsSortedFunc(a.Nearest, nearer(w)) {
			t.Fatalf("not in order: %+v", a.Nearest)
		}
		var room int64
		for _, h := range hosts {
			v := Judge(w, h)
			takes := !h.Silent && h.Beacon.State == compute.HostEnabled && w.Resources.FitsIn(h.Beacon.Free) &&
				!slices.Contains(w.Avoid, h.Beacon.Host)
			if takes != v.Standing.Now() || takes != (v.Room > 0) || v.Room > v.Empty {
				t.Fatalf("%+v stands as %+v", h.Beacon, v)
			}
			room += v.Room
			if v.Standing == Full {
				h.Beacon.Free = h.Beacon.Free.Plus(v.Short)
				if again := Judge(w, h); again.Standing != Fits {
					t.Fatalf("with %s freed it is %+v", v.Short, again)
				}
			}
			if v.Room > 0 {
				left := h.Beacon.Free
				for range v.Room {
					left = left.Minus(w.Resources)
				}
				if w.Resources.FitsIn(left) || !(compute.Resources{}).FitsIn(left) || left[compute.VCPU] < 0 || left[compute.MemoryMB] < 0 {
					t.Fatalf("room for %d of %s in %s", v.Room, w.Resources, h.Beacon.Free)
				}
			}
		}
		if a.Room != room {
			t.Fatalf("room for %d, and one by one for %d", a.Room, room)
		}
	})
}

// TestLacksKey and what is told of a host of which the user data cannot be opened.
func TestLacksKey(t *testing.T) {
	w := Wanted{Resources: compute.Resources{compute.VCPU: 1}, Key: "0a0b0c0d"}
	a := Hosts(w, []Host{host("h1", 8)})
	if a.Counts[LacksKey] != 1 || a.Later() != 1 || !strings.Contains(strings.Join(a.operators(), ""), "user_data.keys of host h1") {
		t.Errorf("%+v: %q", a, a.operators())
	}
	if a := Hosts(w, []Host{host("h1", 8, func(h *Host) { h.Beacon.Opens = []compute.KeyID{"0a0b0c0d"} })}); a.Now() != 1 {
		t.Errorf("%+v", a)
	}
}

func TestStandingsHaveNames(t *testing.T) {
	for s := range standings {
		if s.String() == "" || s.String() == "unknown" {
			t.Errorf("standing %d is %q", s, s)
		}
	}
}

// TestCapacityIsTheSumOfHosts, and what is stranded begins once it lies on one host.
func TestCapacityIsTheSumOfHosts(t *testing.T) {
	w := Wanted{Resources: compute.Resources{compute.VCPU: 4}}
	var c Capacity
	for _, h := range []Host{
		host("h1", 7), host("h2", 3), host("h3", 2), host("h4", 8, in(compute.HostDisabled, "")), host("h5", 8, silent),
	} {
		c.Add(w, h)
	}
	if c.Room != 1 || c.Stranded(w) != 2 || c.Empty != 10 || c.Counts[Full] != 2 || c.Counts[Fits] != 1 {
		t.Errorf("%+v, stranded %d", c, c.Stranded(w)) // 12 processors are free: three machines, of which one can begin
	}
	rapid.Check(t, func(t *rapid.T) {
		w := Wanted{Resources: compute.Resources{compute.VCPU: rapid.Int64Range(1, 9).Draw(t, "wanted")}}
		var c Capacity
		var all []Host
		for n := range rapid.IntRange(0, 9).Draw(t, "hosts") {
			h := host(fmt.Sprint("h", n), rapid.Int64Range(0, 8).Draw(t, "free"))
			all = append(all, h)
			c.Add(w, h)
		}
		a := Hosts(w, all)
		if a.Room != c.Room || a.Empty != c.Empty || a.Counts != c.Counts || c.Stranded(w) < 0 {
			t.Fatalf("%+v of %+v", c, a)
		}
	})
}
