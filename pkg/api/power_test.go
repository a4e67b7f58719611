// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// sentOne is the one request that was published.
func (n *node) sentOne() compute.Request {
	n.Helper()
	recs := n.published()
	if len(recs) != 1 || recs[0].Topic != "test.requests" {
		n.Fatalf("published %+v", recs)
	}
	req, err := wire.DecodeRequest(recs[0])
	if err != nil {
		n.Fatal(err)
	}
	return req
}

func TestPower(t *testing.T) {
	n := newNode(t)
	n.has(instance(id1, "web", compute.StateActive))
	for _, c := range []struct {
		verb string
		body any
		op   compute.RequestOp
		hard bool
	}{
		{"stop", nil, compute.OpStop, false},
		{"stop", rest.PowerWish{Hard: true, Command: "s1"}, compute.OpStop, true},
		{"start", rest.PowerWish{Command: "t1"}, compute.OpStart, false},
		{"reboot", rest.PowerWish{Hard: true}, compute.OpReboot, true},
	} {
		a := n.do("POST", path(id1)+"/"+c.verb, c.body)
		got, req := into[rest.PowerAsked](a, 202), n.sentOne()
		if req.Op != c.op || req.Hard != c.hard || req.Instance != id1 || req.Project != "default" || req.At.IsZero() {
			t.Errorf("%s published %+v", c.verb, req)
		}
		if wish, ok := c.body.(rest.PowerWish); ok && wish.Command != "" && wish.Command != req.Command {
			t.Errorf("%s: command %s, asked as %s", c.verb, req.Command, wish.Command)
		}
		equal(t, c.verb, rest.PowerAsked{ID: id1, Op: c.verb, Command: req.Command}, got)
		if req.Command == "" || a.header.Get("Location") != path(id1) {
			t.Errorf("%s: command %q at %s", c.verb, req.Command, a.header.Get("Location"))
		}
	}
}

func TestPowerRefusals(t *testing.T) {
	n := newNode(t)
	n.offer()
	into[rest.Instance](n.do("POST", "/v1/instances", rest.Boot{ID: id2, Flavor: "m1.small"}), 202)
	n.published()
	n.do("POST", path(id2)+"/stop", nil).refused(409, compute.KindConflict)
	for _, s := range []compute.State{
		compute.StateQueued, compute.StateStarting, compute.StateDeleting, compute.StateDeleted,
		compute.StateError,
	} {
		n.has(instance(id1, "web", s))
		for _, verb := range []string{"stop", "start", "reboot"} {
			if p := n.do("POST", path(id1)+"/"+verb, nil).refused(409,
				compute.KindConflict); p.Field != "instance" || p.Message != "is "+s.String() {
				t.Errorf("%s of what is %s: %+v", verb, s, p)
			}
		}
	}
	n.has(instance(id1, "web", compute.StateActive, func(i *compute.Instance) {
		i.Power, i.Stopped = compute.PowerStopped, &compute.Reason{Code: compute.MachineKilled, Detail: "signal 9"}
	}))
	if p := n.do("POST", path(id1)+"/reboot", nil).refused(409, compute.KindConflict); p.Reason == nil ||
		p.Reason.Code != compute.MachineKilled || p.Remedy != "start it instead" {
		t.Errorf("reboot of a stopped one: %+v", p)
	}
	n.do("POST", path(id1)+"/start", rest.PowerWish{Hard: true}).refused(422, compute.KindInvalid)
	n.do("POST", path(id1)+"/stop", `{"soft": true}`).refused(422, compute.KindInvalid)
	n.do("POST", path(id1)+"/stop", rest.PowerWish{Command: compute.CommandID(make([]byte, 129))}).refused(422,
		compute.KindInvalid)
	n.do("POST", path(id3)+"/stop", nil).refused(404, compute.KindNotFound)
	n.do("POST", path("x")+"/stop", nil).refused(422, compute.KindInvalid)
	if recs := n.published(); len(recs) != 0 {
		t.Errorf("published %v", recs)
	}
	n.fail = errors.New("no leader")
	n.do("POST", path(id1)+"/start", nil).refused(504, compute.KindTimeout)
}

// TestPowerOfWhatGoes: what a conductor refuses since the machine's place is taken is refused here, and a stop is taken
// as long as one may be.
func TestPowerOfWhatGoes(t *testing.T) {
	n := newNode(t)
	const wait = "wait: it is built anew once its host has it no more"
	for name, c := range map[string]struct {
		then   compute.Afterwards
		going  bool
		over   time.Time
		taken  string // of stop, start and reboot
		remedy string
	}{
		"has notice":                 {taken: "stop", remedy: "boot another one: this one becomes deleted"},
		"has notice, to be requeued": {then: compute.ThenRequeue, taken: "stop", remedy: wait},
		"goes":                       {then: compute.ThenRequeue, going: true, remedy: wait},
		"is over":                    {then: compute.ThenRequeue, over: start, taken: "stop start reboot"},
	} {
		n.has(instance(id1, "web", compute.StateActive, func(i *compute.Instance) {
			i.Boot.Preempt(compute.Preemptible{Then: cmp.Or(c.then, compute.ThenDelete)})
			i.GiveNotice(&compute.Notice{
				At: start, Until: start.Add(time.Minute), Host: "h1", Queue: "m1.large", Class: compute.PriorityHigh,
				Going: c.going, Over: c.over,
			})
			i.Power, i.Stopped = compute.PowerStopped, &compute.Reason{Code: compute.GuestShutdown}
		}))
		for _, verb := range []string{"stop", "start", "reboot"} {
			a := n.do("POST", path(id1)+"/"+verb, nil)
			switch {
			case verb == "reboot" && !c.over.IsZero(): // it is stopped
				if p := a.refused(409, compute.KindConflict); p.Remedy != "start it instead" {
					t.Errorf("%s: %s: %+v", name, verb, p)
				}
			case strings.Contains(c.taken, verb):
				if a.status != 202 || len(n.published()) != 1 {
					t.Errorf("%s: %s: %d %s", name, verb, a.status, a.body)
				}
			default:
				p := a.refused(409, compute.KindConflict)
				if p.Reason == nil || p.Reason.Code != compute.Preempted || p.Remedy != c.remedy || len(n.published()) != 0 {
					t.Errorf("%s: %s: %+v", name, verb, p)
				}
			}
		}
	}
}

// A repeat of what is under way, or was answered last, is not published again.
func TestPowerAgain(t *testing.T) {
	n := newNode(t)
	n.has(instance(id1, "web", compute.StateActive, func(i *compute.Instance) {
		i.Command = &compute.PowerCommand{Op: compute.OpReboot, Command: "r2", Version: 1}
		i.Answer = &compute.PowerAnswer{Op: compute.OpStop, Command: "s1"}
	}))
	for verb, c := range map[string]compute.CommandID{"reboot": "r2", "stop": "s1"} {
		if got := into[rest.PowerAsked](n.do("POST", path(id1)+"/"+verb, rest.PowerWish{Command: c}),
			202); got.Command != c || len(n.published()) != 0 {
			t.Errorf("%s again: %+v", verb, got)
		}
	}
	for verb, c := range map[string]compute.CommandID{"reboot": "s1", "stop": "r2"} {
		if p := n.do("POST", path(id1)+"/"+verb, rest.PowerWish{Command: c}).refused(409,
			compute.KindConflict); p.Field != "command" || p.Value != string(c) {
			t.Errorf("%s with the id of another command: %+v", verb, p)
		}
	}
	if recs := n.published(); len(recs) != 0 {
		t.Errorf("published %+v", recs)
	}
}

// A node that is behind asks the others before it refuses.
func TestPowerAsksOthersFirst(t *testing.T) {
	n := newNode(t)
	n.has(instance(id1, "web", compute.StateStarting))
	n.sync = func() error { n.has(instance(id1, "web", compute.StateActive)); return nil }
	into[rest.PowerAsked](n.do("POST", path(id1)+"/stop", nil), 202)
	n.sentOne()
}

// What a host says of a machine that does not run is shown.
func TestShowWhyStopped(t *testing.T) {
	n := newNode(t)
	n.has(instance(id1, "web", compute.StateActive, func(i *compute.Instance) {
		i.Power, i.Stopped = compute.PowerStopped, &compute.Reason{Code: compute.GuestPanicked, Detail: "vcpu 0"}
		i.Command = &compute.PowerCommand{Op: compute.OpStart, Command: "t1", Version: 1, At: start}
		i.Answer = &compute.PowerAnswer{Op: compute.OpReboot, Command: "r1", Failed: "it is stopped", At: start}
	}))
	got := n.show(id1)
	if got.Power != "stopped" {
		t.Errorf("power %q", got.Power)
	}
	equal(t, "stopped",
		&rest.Reason{Code: compute.GuestPanicked, Message: "the guest panicked: vcpu 0", Detail: "vcpu 0"},
		got.Stopped)
	equal(t, "command", &rest.PowerCommand{Op: "start", Command: "t1", At: start}, got.Command)
	equal(t, "answer", &rest.PowerAnswer{Op: "reboot", Command: "r1", Failed: "it is stopped", At: start}, got.Answer)
}
