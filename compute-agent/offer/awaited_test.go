// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// needing is a candidate that needs so many processors.
func needing(c Candidate, cpus int64) Candidate {
	c.Needs = compute.Resources{compute.VCPU: cpus}
	return c
}

// after is a candidate that was left out so often.
func after(c Candidate, skipped int) Candidate {
	c.Skipped = skipped
	return c
}

// Where work of several classes is known to lie, what has no room or slot keeps what comes later away, and has the
// fetches end soon that list what comes first. What is for an open session does neither.
func TestWhatIsAwaited(t *testing.T) {
	idle := func(cs ...Candidate) Session { return Session{Candidates: cs} }
	open := func(cpus int64, cs ...Candidate) Session {
		return Session{Open: &Reserved{Most: compute.Resources{compute.VCPU: cpus}}, Candidates: cs}
	}
	unknown := func(q compute.QueueName, order uint64) Candidate { return Candidate{Queue: q, Order: order} }
	h, h2, l := lying("h", high, 1, 1), lying("h2", high, 1, 1), lying("l", low, 1, 1)
	many := lying("h", high, 1, 3)
	behind := Candidate{Queue: "b", Behind: true, Needs: compute.Resources{compute.VCPU: 1}}
	for _, c := range []struct {
		when     string
		room     int64
		slots    int
		sessions []Session
		want     string // what is listed in each session; ! is what is awaited
	}{
		{"what yields keeps nothing away", 3, 4, []Session{idle(many), idle(needing(l, 2)),
			idle(needing(unknown("x", 0), 1))},
			"[h]! [] [x]"},
		{"what is known and has no room does", 4, 4, []Session{open(1), idle(needing(h, 4)), idle(needing(l, 2))},
			"[] [] []"},
		{"of one class it does not", 4, 4, []Session{open(1), idle(needing(h, 4)), idle(needing(h2, 2))}, "[] [] [h2]"},
		{"nor what is not known", 6, 9,
			[]Session{open(1), idle(h), idle(l), idle(needing(unknown("u", 0), 6)), idle(needing(unknown("v", 1), 1))},
			"[] [h] [l] [] [v]"},
		{"what has no slot", 9, 1, []Session{idle(h), idle(l)}, "[h]! []"},
		{"what has no room, of the same class", 1, 4, []Session{idle(h), idle(h2), open(0, after(needing(l, 5), 1))},
			"[h]! [] []"},
		{"what has no room in an open session", 2, 4, []Session{idle(h), open(1, after(needing(l, 5), 1))}, "[h] []"},
		{"what has room in an open session", 3, 4,
			[]Session{idle(many), open(1, after(needing(l, 2), 1)), idle(needing(unknown("x", 0), 1))}, "[h] [] []"},
		{"what was not left out in an open session", 4, 4, []Session{open(1, needing(h, 4)), idle(needing(l, 3))}, "[] [l]"},
		{"what is behind, and of no class", 3, 9, []Session{idle(behind), idle(many), idle(h2),
			open(0, after(needing(l, 9), 1))},
			"[b] [h] [h2] []"},
		{"of two classes, the last of its own", 3, 9,
			[]Session{idle(lying("l", low, 30, 1)), idle(many), idle(h2)}, "[l]! [h]! []"},
		{"of its own class", 3, 9, []Session{idle(many), idle(h2), open(0, after(needing(l, 9), 1))}, "[h] [h2] []"},
		{"as old, but left out before", 1, 4, []Session{idle(h), idle(after(h2, 5)), open(0, after(needing(l, 9), 1))},
			"[] [h2]! []"},
	} {
		var got string
		for i, p := range Plan(Room{free: compute.Resources{compute.VCPU: c.room}}, c.sessions, c.slots) {
			if i > 0 {
				got += " "
			}
			if got += fmt.Sprint(listed(p.Listed)); p.Awaited {
				got += "!"
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.when, got, c.want)
		}
	}
	locked := l
	locked.Behind = true
	looks := Session{Open: &Reserved{Most: h.Needs}, Ahead: []Candidate{many}}
	if got := fetched(Room{free: compute.Resources{compute.VCPU: 2}}, 4, looks, idle(locked)); len(got[1]) != 1 {
		t.Errorf("what is behind work that is kept locked waits: %v", got)
	}
	ahead := Session{Open: &Reserved{Most: h.Needs}, Ahead: []Candidate{many}}
	out := Plan(Room{free: compute.Resources{compute.VCPU: 2}}, []Session{ahead, idle(l)}, 4)
	if len(out[1].Listed) != 0 || out[0].Awaited {
		t.Errorf("a fetch that is open is awaited anew: %+v", out)
	}
}

// A list that is full ends by itself; one with what nobody tells of, and this host has not looked at for long, ends
// soon.
func TestListsThatEndSoon(t *testing.T) {
	var all []Candidate
	for n := range MostListed {
		all = append(all, needing(lying(compute.QueueName(fmt.Sprintf("h%02d", n)), high, 9, 1), 0))
	}
	full := Session{Candidates: append(slices.Clone(all), needing(lying("l", low, 1, 1), 0))}
	if p := Plan(Room{free: compute.Resources{}}, []Session{full}, 4)[0]; len(p.Listed) != MostListed || p.Awaited {
		t.Errorf("%d are listed, awaited %t", len(p.Listed), p.Awaited)
	}
	for skipped, want := range map[int]bool{mostSkipped: true, mostSkipped - 1: false} {
		s := Session{Candidates: []Candidate{{Queue: "a", Skipped: skipped, Unsaid: true}, {Queue: "b"}}}
		if p := Plan(Room{free: compute.Resources{}}, []Session{s}, 4)[0]; len(p.Listed) != 2 || p.Awaited != want {
			t.Errorf("left out %d times: %+v", skipped, p)
		}
	}
}

// What is rung, held, probed or looked for behind other work is fetched at once.
func TestCalled(t *testing.T) {
	for want, all := range map[bool][]Candidate{
		true:  {{Rung: true}, {Held: true}, {Probe: true}, {Behind: true}},
		false: {{}, {Deep: true, Skipped: 9, Unsaid: true, Extra: true}},
	} {
		for _, c := range all {
			if c.Called() != want {
				t.Errorf("%+v is called: %t", c, !want)
			}
		}
	}
}

// The only device of a host is a machine's, whatever it counted as when the machine came.
func TestTheOnlyDeviceIsHeld(t *testing.T) {
	old := Held{compute.Resources{"CUSTOM_OLD": 1}, compute.Place{Devices: []compute.PCIAddress{"0000:01:00.0"}}}
	free := Terms{Devices: rules()}.Offer(compute.Inventory{}, nil, card(1, 0, 0)).Room(old).Free()
	if diff := cmp.Diff(int64(0), free[wholeClass]); diff != "" {
		t.Error(diff)
	}
}
