// SPDX-License-Identifier: Apache-2.0

package events

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func machine(version compute.Version, state compute.State, change ...func(*compute.Instance)) *compute.Instance {
	i := &compute.Instance{
		ID: "i", Project: "web", Version: version, State: state, Attempt: 1, Boot: compute.Boot{Name: "web-1"},
	}
	for _, f := range change {
		f(i)
	}
	return i
}

func on(h compute.HostID) func(*compute.Instance) {
	return func(i *compute.Instance) { i.Host = h }
}

func failed(i *compute.Instance) {
	i.Reason = &compute.Reason{Code: compute.BuildFailed, Host: "h1", Attempt: 1}
	i.Failures = []compute.Failure{{Host: "h1", Attempt: 1}}
}

// An event says what a record changes, and repeats nothing that the record repeats.
func TestWhatAnEventSays(t *testing.T) {
	at := Place{2, 7, noon}
	stop := compute.PowerCommand{Op: compute.OpStop, Command: "c"}
	all := Event{Place: at, Project: "web", ID: "i", Name: "web-1", Attempt: 1}
	for name, c := range map[string]struct {
		before, after *compute.Instance
		want          func(*Event)
		missing       bool
	}{
		"the first": {nil, machine(1, compute.StateQueued), func(e *Event) { e.Version, e.After = 1, compute.StateQueued }, false},
		"granted": {machine(1, compute.StateQueued), machine(2, compute.StateStarting, on("h1")), func(e *Event) {
			e.Version, e.Before, e.After, e.Host = 2, compute.StateQueued, compute.StateStarting, "h1"
		}, false},
		"failed": {machine(2, compute.StateStarting, on("h1")), machine(3, compute.StateQueued, failed), func(e *Event) {
			e.Version, e.Before, e.After, e.HostBefore = 3, compute.StateStarting, compute.StateQueued, "h1"
			e.Reason, e.Named = &compute.Reason{Code: compute.BuildFailed, Host: "h1", Attempt: 1}, []compute.HostID{"h1"}
		}, false},
		"the same reason is no news": {machine(3, compute.StateQueued, failed), machine(4, compute.StateStarting, failed, on("h2")),
			func(e *Event) {
				e.Version, e.Before, e.After, e.Host = 4, compute.StateQueued, compute.StateStarting, "h2"
			}, false},
		"asked to stop": {
			machine(4, compute.StateActive, on("h2")),
			machine(5, compute.StateActive, on("h2"), func(i *compute.Instance) { i.Command = &stop }), func(e *Event) {
				e.Version, e.Before, e.After, e.HostBefore, e.Host = 5, compute.StateActive, compute.StateActive, "h2", "h2"
				e.Command = &stop
			}, false,
		},
		"one was never read": {machine(4, compute.StateQueued), machine(6, compute.StateQueued), func(e *Event) {
			e.Version, e.Before, e.After = 6, compute.StateQueued, compute.StateQueued
		}, true},
		"what came before was never read": {nil, machine(2, compute.StateQueued), func(e *Event) {
			e.Version, e.After = 2, compute.StateQueued
		}, true},
		"removed": {machine(9, compute.StateDeleted), nil, func(e *Event) {
			e.Version, e.Before, e.After, e.Removed, e.Attempt = 9, compute.StateDeleted, compute.StateDeleted, true, 0
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			want := all
			c.want(&want)
			got := Between("web", "i", c.before, c.after, at)
			if diff := cmp.Diff(&want, got.Event); diff != "" || got.Missing != c.missing {
				t.Errorf("missing %t (-want +got):\n%s", got.Missing, diff)
			}
		})
	}
}

func TestWanted(t *testing.T) {
	e := Between("web", "i", machine(2, compute.StateStarting, on("h1")), machine(3, compute.StateQueued, failed), Place{}).Event
	for _, f := range []Wanted{
		{}, {Project: "web"}, {Instance: "i"}, {Host: "h1"}, {States: []compute.State{compute.StateQueued}},
		{Reasons: []compute.ReasonCode{compute.BuildFailed}}, {Project: "web", Instance: "i", Host: "h1"},
	} {
		if !f.Takes(e) {
			t.Errorf("%+v does not take it", f)
		}
	}
	for _, f := range []Wanted{
		{Project: "db"}, {Instance: "j"}, {Host: "h2"}, {States: []compute.State{compute.StateStarting}},
		{Reasons: []compute.ReasonCode{compute.HostLost}}, {Project: "web", Host: "h2"},
	} {
		if f.Takes(e) {
			t.Errorf("%+v takes it", f)
		}
	}
}

// TestWantedByLabel: by those that it has after the change, and by those that it had before, so that whoever hears of a
// selection hears what leaves it; of one that is gone, by those that it had.
func TestWantedByLabel(t *testing.T) {
	of := func(name, team string) func(*compute.Instance) {
		return func(i *compute.Instance) { i.Boot.Name, i.Boot.Metadata = name, map[string]string{"team": team} }
	}
	was, is := machine(2, compute.StateActive, of("one", "a")), machine(3, compute.StateActive, of("uno", "b"))
	selector, err := compute.ParseSelector([]string{"team=b"})
	if err != nil {
		t.Fatal(err)
	}
	by := Wanted{Labels: selector}
	e := Between("web", "i", was, is, Place{}).Event
	if !by.Takes(e) || !by.Has(is) || by.Has(was) || e.NameBefore != "one" || !e.Relabelled {
		t.Errorf("it was called %q, relabelled %t; it passes: %t", e.NameBefore, e.Relabelled, by.Takes(e))
	}
	if e := Between("web", "i", is, nil, Place{}).Event; !by.Takes(e) {
		t.Error("the end of the record does not pass")
	}
	if e := Between("web", "i", is, was, Place{}).Event; !by.Takes(e) {
		t.Error("that it is another team's now does not pass")
	}
	if e := Between("web", "i", was, was, Place{}).Event; by.Takes(e) {
		t.Error("another team's passes")
	}
	if e := Between("web", "i", is, is, Place{}).Event; e.NameBefore != "" || e.Relabelled {
		t.Errorf("nothing changed, and it tells %q and %t", e.NameBefore, e.Relabelled)
	}
}

// What is present passes before it is made an event, or not, as it does afterwards.
func TestWantedOfThePresent(t *testing.T) {
	stopped := func(i *compute.Instance) { i.Stopped = &compute.Reason{Code: compute.GuestShutdown} }
	for _, i := range []*compute.Instance{
		machine(1, compute.StateQueued), machine(2, compute.StateStarting, on("h1")), machine(3, compute.StateQueued, failed),
		machine(3, compute.StateActive, on("h2"), stopped), machine(3, compute.StateError, failed, stopped),
	} {
		for _, f := range []Wanted{
			{}, {Project: "web"}, {Project: "db"}, {Instance: "i"}, {Instance: "j"}, {Host: "h1"}, {Host: "h2"},
			{States: []compute.State{compute.StateQueued}}, {Reasons: []compute.ReasonCode{compute.GuestShutdown}},
			{Reasons: []compute.ReasonCode{compute.BuildFailed}},
		} {
			if has, takes := f.Has(i), f.Takes(Present(i)); has != takes {
				t.Errorf("%+v of %+v: %t before, %t afterwards", f, i, has, takes)
			}
		}
	}
}

func TestPositionsAsText(t *testing.T) {
	for text, want := range map[string]Positions{
		"3:1843": {3: 1843}, "0:12,1:44,10:0": {0: 12, 1: 44, 10: 0},
	} {
		got, err := ParsePositions(text)
		if err != nil || cmp.Diff(want, got) != "" || got.String() != text {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "3", "3:", ":1", "3:-1", "-1:3", "3:1,3:2", "3:1,", "a:b", "3:1 ", "9999999999:1"} {
		if got, err := ParsePositions(text); compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
}

// TestNoticesAreTold: once when it is given, and once when it is over.
func TestNoticesAreTold(t *testing.T) {
	at := time.Unix(1, 0)
	given := compute.Notice{At: at, Until: at.Add(time.Minute)}
	going, over := given, given
	going.Going, over.Over = true, at.Add(time.Second)
	record := func(n *compute.Notice) *compute.Instance {
		i := &compute.Instance{ID: "a", Project: "p", State: compute.StateActive}
		i.GiveNotice(n)
		return i
	}
	for name, c := range map[string]struct {
		was, is *compute.Notice
		told    bool
	}{
		"given": {nil, &given, true}, "as before": {&given, &given, false}, "acted upon": {&given, &going, false},
		"over": {&going, &over, true}, "known to be over": {&over, &over, false},
	} {
		e := Between("p", "a", record(c.was), record(c.is), Place{}).Event
		if told := e.Notice != nil; told != c.told {
			t.Errorf("%s: told %v", name, told)
		}
	}
}
