// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
)

func TestWasteIsWhatWasPreparedAndNeverRan(t *testing.T) {
	boots := []*boot{{id: "a"}, {id: "b"}}
	events := []fake.Event{
		{Kind: fake.Undone, Instance: "a", Host: "h1"},
		{Kind: fake.Launched, Instance: "a", Host: "h2"},
		{Kind: fake.Destroyed, Instance: "a", Host: "h2"},
		{Kind: fake.Undone, Instance: "b", Host: "h1"}, {Kind: fake.Undone, Instance: "b", Host: "h2"},
		{Kind: fake.Undone, Instance: "of the warm-up", Host: "h1"},
	}
	if n := wasted(boots, events); n != 3 {
		t.Errorf("%d wasted, want 3", n)
	}
}

func TestJudge(t *testing.T) {
	now := time.Now()
	active := func(id compute.InstanceID) *boot {
		return &boot{id: id, accepted: now, active: now, state: compute.StateActive}
	}
	launch := func(id compute.InstanceID, on compute.HostID) fake.Event {
		return fake.Event{At: now, Kind: fake.Launched, Host: on, Instance: id, Attempt: 1}
	}
	for _, c := range []struct {
		name          string
		boots         []*boot
		events        []fake.Event
		overfull      []string
		lost, doubled int
		says          string
	}{
		{
			name:   "all is well",
			boots:  []*boot{active("a"), {id: "b", refused: compute.Conflict("", "", "", "")}},
			events: []fake.Event{launch("a", "h1")},
		},
		{name: "error", boots: []*boot{{id: "a", accepted: now, state: compute.StateError, ended: now}}},
		{
			name: "never heard of again", boots: []*boot{{name: "boot-1", project: "p", accepted: now}}, lost: 1,
			says: "boot-1 of p is accepted, and not in the log",
		},
		{
			name: "stuck", boots: []*boot{{id: "a", accepted: now, state: compute.StateStarting, host: "h1"}},
			lost: 1, says: "a is starting on h1",
		},
		{
			name:  "refused, and there",
			boots: []*boot{{id: "a", refused: compute.Conflict("", "", "", ""), state: compute.StateQueued}},
			lost:  1, says: "a is queued",
		},
		{name: "said to run", boots: []*boot{active("a")}, lost: 1, says: "never launched"},
		{
			name: "does not go",
			boots: []*boot{{
				id: "a", accepted: now, active: now, deleting: true, state: compute.StateDeleting, host: "h1",
			}},
			events: []fake.Event{launch("a", "h1")}, lost: 1, says: "the end of a, which is deleting on h1",
		},
		{
			name: "twice", boots: []*boot{active("a")},
			events: []fake.Event{
				launch("a", "h1"), {At: now, Kind: fake.Destroyed, Host: "h1", Instance: "a"},
				{At: now, Kind: fake.Launched, Host: "h2", Instance: "a", Attempt: 2},
			},
			doubled: 1, says: "a was launched 2 times",
		},
		{
			name: "on two hosts at once", boots: []*boot{active("a")},
			events: []fake.Event{
				launch("a", "h1"), {At: now, Kind: fake.Launched, Host: "h2", Instance: "a", Attempt: 2},
			},
			doubled: 1, says: "a was launched 2 times",
		},
		{
			name: "goes on elsewhere", boots: []*boot{active("a")},
			events: []fake.Event{
				launch("a", "h1"), {At: now, Kind: fake.Resumed, Host: "h2", Instance: "a", Attempt: 1},
			},
			doubled: 1, says: "runs on 2 hosts at once",
		},
		{name: "nobody's", events: []fake.Event{launch("x", "h1")}, doubled: 1, says: "nobody asked for it"},
		{
			name: "too many on a host", overfull: []string{"h1 held VCPU=3 and has VCPU=2"}, doubled: 1,
			says: "h1 held VCPU=3",
		},
	} {
		v := judge(c.boots, c.events, c.overfull)
		said := strings.Join(v.wrong, "\n")
		if v.lost != c.lost || v.doubled != c.doubled || !strings.Contains(said, c.says) ||
			len(v.wrong) != c.lost+c.doubled {
			t.Errorf(
				"%s: %d lost, %d doubled, want %d and %d saying %q: %s",
				c.name,
				v.lost,
				v.doubled,
				c.lost,
				c.doubled,
				c.says,
				said,
			)
		}
	}
}
