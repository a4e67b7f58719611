// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// A host that an operator asked to offer nothing does not offer from then on, though its next beacon may not know of that.
func TestAHostThatIsAskedToCloseIsNotIdle(t *testing.T) {
	for what, c := range map[string]struct {
		wish string
		to   schedule.Seconds
	}{
		"asked to close":   {"disable", 10},
		"asked to go on":   {"enable", 20},
		"asked to go away": {"drain", 10},
	} {
		r := &Recording{}
		for _, o := range []struct {
			at schedule.Seconds
			compute.HostState
		}{{5, compute.HostEnabled}, {12, compute.HostEnabled}, {20, compute.HostDisabled}} {
			r.Offers = append(r.Offers, Offered{Seen: moment(o.at), Host: "host-1", State: o.HostState})
		}
		r.Asks = []Ask{{Began: moment(10), Load: schedule.Load{Op: schedule.LoadHost, Host: "host-1", Wish: c.wish}}}
		idle := r.hostLives()["host-1"].idle(span{moment(5), moment(30)}, compute.Resources{}, compute.Resources{})
		if !idle.from.Equal(moment(5)) || !idle.to.Equal(moment(c.to)) {
			t.Errorf("%s: idle from %v to %v", what, idle.from, idle.to)
		}
	}
}

// A machine that is undone in the moment in which it is made again takes its room until it is undone again.
func TestMadeAgainAtOnceTakesRoom(t *testing.T) {
	for what, c := range map[string]struct {
		again schedule.Seconds
		to    schedule.Seconds // until when it is done
		until schedule.Seconds // of the longest time with room; 0: it has none
	}{
		"never again":      {0, 0, 30},
		"at once":          {10, 11, 0},
		"later":            {12, 13, 12},
		"and ends at once": {10, 10, 30},
	} {
		r := made()
		r.Machines, r.Works = nil, []Worked{{Host: "host-1", Instance: madeID, From: moment(2), To: moment(3)}}
		if c.again > 0 {
			r.Works = append(r.Works, Worked{Host: "host-1", Instance: madeID, From: moment(c.again), To: moment(c.to)})
		}
		for _, at := range []schedule.Seconds{10, 25} {
			r.Machines = append(r.Machines, fake.Event{At: moment(at), Host: "host-1", Instance: madeID, Kind: fake.Undone})
		}
		needs := r.last()[madeID].Resources
		r.Offers = []Offered{{Seen: moment(1), Host: "host-1", State: compute.HostEnabled}}
		idle := r.hostLives()["host-1"].idle(span{moment(5), moment(24)}, needs, needs)
		want := earliest(moment(c.until), moment(24))
		if c.until == 0 {
			want = time.Time{}
		}
		if !idle.to.Equal(want) {
			t.Errorf("%s: idle from %v to %v", what, idle.from, idle.to)
		}
	}
}

// A claim that is denied does not end the time in which its work waits, unless more than room decides about that.
func TestWaitsAfterADenial(t *testing.T) {
	denied := func(why compute.ReasonCode) func(*Recording) {
		return func(r *Recording) {
			c := compute.Command{Op: compute.CommandDeny, Instance: madeID, Attempt: 1, Claim: "c0"}
			c.Reason = &compute.Reason{Code: why}
			r.Denials = []Denied{{moment(2.4), "host-2", c}}
		}
	}
	for what, x := range map[string]struct {
		change func(*Recording)
		until  schedule.Seconds
	}{
		"not denied":          {func(*Recording) {}, 2.3},
		"denied":              {denied(compute.HostLost), 2.8},
		"denied by its group": {denied(compute.GroupRule), 2.3},
		"denied, of a set":    {func(r *Recording) { denied(compute.HostLost)(r); r.Asks[0].Set = "set-1" }, 2.3},
	} {
		r := made()
		for _, c := range []Claimed{
			{moment(2.3), compute.Report{Host: "host-2", Claim: "c0"}},
			{moment(2.8), compute.Report{Host: "host-1", Claim: "c1"}},
		} {
			c.Instance, c.Attempt = madeID, 1
			r.Claims = append(r.Claims, c)
		}
		x.change(r)
		if w := r.waits(); len(w) != 1 || !w[0].to.Equal(moment(x.until)) {
			t.Errorf("%s: waits %v, and was to wait until %v", what, w, moment(x.until))
		}
	}
}

// Work does not wait beside a host that does nothing; what came into its queue late may wait for the next ring.
func TestCheckIdle(t *testing.T) {
	waits := func(from, to schedule.Seconds) func(*Recording) {
		return func(r *Recording) {
			r.Log, r.Works, r.Machines, r.Launches, r.Given = r.Log[:1], nil, nil, nil, nil
			r.Schedule.World.Latency, r.Asks[0].Boot.Avoid = 0, nil
			r.Builds[0].Seen = moment(from)
			r.Offers = []Offered{{Seen: moment(1), Host: "host-1", State: compute.HostEnabled}}
			c := compute.Report{Host: "host-1", Claim: "c1", Instance: madeID, Attempt: 1}
			r.Claims = []Claimed{{moment(to), c}}
		}
	}
	// late has so much lie in front that is past its deadline, of which one was claimed before.
	late := func(n int) func(*Recording) {
		return func(r *Recording) {
			waits(2, 13.1)(r)
			for i := range n {
				id := compute.InstanceID(fmt.Sprint("late-", i))
				b := compute.Build{Instance: id, Attempt: 1, Queue: "m1.small", Deadline: moment(5)}
				r.Builds = append(r.Builds, Published{moment(1), b})
			}
			r.Claims = append(r.Claims, Claimed{moment(3), compute.Report{Instance: "late-0", Attempt: 1}})
		}
	}
	// beside has another wait in the same queue since 1 s, told to a host.
	beside := func(to schedule.Seconds, told compute.InstanceID) func(*Recording) {
		return func(r *Recording) {
			waits(2, to)(r)
			i := r.Log[0].Instance
			i.ID, i.Boot.Name = "vm-9", "vm-9"
			r.logged(1, i)
			r.Told = []Told{{Host: "host-2", Build: compute.Build{Instance: told}}}
		}
	}
	sees(t, checkIdle, map[string]func(*Recording){
		"right: four that are late lie in front":   late(4),
		"vm-1 waits in m1.small from 2.000s":       late(3),
		"right: a host was rung in vain before":    beside(24.9, "vm-9"),
		"vm-1 waits in m1.small from 2.000s to 25": beside(25.1, "vm-9"),
		"vm-1 waits in m1.small from 2.000s to 11": beside(11.9, "vm-8"),
		"right: soon":                     waits(2, 8.9),
		"vm-1 waits in m1.small from 2.0": waits(2, 9.1),
		"right: it came late":             waits(20, 42.9),
		"vm-1 waits in m1.small from 30.": func(r *Recording) { // its second attempt did not
			waits(30, 37.1)(r)
			r.Log[0].Seen, r.Log[0].Instance.Attempt, r.Builds[0].Attempt, r.Claims[0].Attempt = moment(30), 2, 2, 2
		},
		"vm-1 waits in m1.small from 20.0": waits(20, 43.1),
	})
}

// Work for which others were rung first that took other work then may have a host rung later by as much.
func TestRungAfterOthers(t *testing.T) {
	const w, other = "00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b"
	work := waiting{span: span{moment(2), moment(12)}, instance: compute.Instance{ID: w, Queue: "q"}}
	ring := func(at schedule.Seconds, h compute.HostID, q compute.QueueName) Rung {
		return Rung{moment(at), h, compute.Look{Queue: q}}
	}
	claim := func(at schedule.Seconds, h compute.HostID, i compute.InstanceID) Claimed {
		return Claimed{moment(at), compute.Report{Host: h, Instance: i}}
	}
	before, then := ring(3, "host-2", "q"), ring(7, "host-1", "q")
	takes := []Claimed{claim(4, "host-2", other)}
	for what, c := range map[string]struct {
		rings  []Rung
		claims []Claimed
		want   time.Duration
	}{
		"never rung":                         {nil, takes, 0},
		"rung alone":                         {[]Rung{then}, takes, 0},
		"rung first":                         {[]Rung{ring(3, "host-1", "q"), before}, takes, 0},
		"after another that took other work": {[]Rung{before, then}, takes, 2 * time.Second},
		"after another that took it":         {[]Rung{before, then}, []Claimed{claim(4, "host-2", w)}, 0},
		"after another that took it before":  {[]Rung{before, then}, []Claimed{claim(2.5, "host-2", other)}, 0},
		"after another, for another queue":   {[]Rung{ring(3, "host-2", "p"), then}, takes, 0},
	} {
		r := &Recording{Rings: c.rings, Claims: c.claims}
		if got := r.rungAfterOthers(work, work.from, "host-1"); got != c.want {
			t.Errorf("%s: %s more, want %s", what, got, c.want)
		}
	}
}
