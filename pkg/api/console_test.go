// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// hosted is the far end of the asks that a node writes: it answers each by what
// f makes of it.
func (n *node) hosted(f func(compute.Command) []compute.Console) {
	n.answers = func(rec wire.Record) {
		cmd, err := wire.DecodeCommand(rec)
		if err != nil || cmd.Op != compute.CommandConsole {
			n.Errorf("%+v, %v", cmd, err)
			return
		}
		for _, c := range f(cmd) {
			n.Consoles([]wire.Record{wire.EncodeConsole(c)}, true)
		}
	}
}

// answered is an answer as the host h1 gives it.
func answeredBy(h compute.HostID, cmd compute.Command, data string) compute.Console {
	return compute.Console{
		Ask: cmd.Console.ID, Host: h, Project: cmd.Project, Instance: cmd.Instance, Offset: 100, Data: []byte(data),
		End: 100 + int64(len(data)),
	}
}

func TestConsole(t *testing.T) {
	n := newNode(t)
	n.has(instance(id1, "web", compute.StateActive))
	var asked compute.Command
	n.hosted(func(cmd compute.Command) []compute.Console {
		asked = cmd
		other := answeredBy("h1", cmd, "not asked for")
		other.Ask = "another"
		stranger := answeredBy("h2", cmd, "of another host")
		elsewhere := answeredBy("h1", cmd, "of another project")
		elsewhere.Project = "p"
		return []compute.Console{
			other, stranger, elsewhere, answeredBy("h1", cmd, "login: \xff"), answeredBy("h1", cmd, "twice"),
		}
	})
	got := into[rest.Console](n.do("GET", path(id1)+"/console?offset=-10&limit=20", nil), 200)
	equal(t, "console",
		rest.Console{Instance: id1, Host: "h1", Offset: 100, Data: []byte("login: \xff"), End: 108}, got)
	if a := asked.Console; asked.Instance != id1 || asked.Project != "default" || a.Offset != -10 ||
		a.Limit != 20 || time.Until(a.Deadline) > 10*time.Second || time.Until(a.Deadline) < 0 {
		t.Errorf("asked %+v, %+v", asked, asked.Console)
	}
	into[rest.Console](n.do("GET", path(id1)+"/console", nil), 200)
	if a := asked.Console; a.Offset != -65536 || a.Limit != 65536 {
		t.Errorf("by default asked for %+v", a)
	}
	if recs := n.published(); len(recs) != 2 || recs[0].Topic != "test.host.h1" || recs[0].Partition != 0 {
		t.Errorf("published %+v", recs)
	}
	if len(n.asks.all) != 0 {
		t.Errorf("%d asks are still open", len(n.asks.all))
	}
}

func TestConsoleRefusals(t *testing.T) {
	n := newNode(t)
	n.offer()
	into[rest.Instance](n.do("POST", "/v1/instances", rest.Boot{ID: id2, Flavor: "m1.small"}), 202)
	n.published()
	n.do("GET", path(id2)+"/console", nil).refused(409, compute.KindConflict)
	for state, says := range map[compute.State]string{
		compute.StateQueued: "on no host yet", compute.StateDeleted: "is deleted", compute.StateError: "is error",
	} {
		n.has(instance(id1, "web", state))
		if p := n.do("GET", path(id1)+"/console", nil).refused(409, compute.KindConflict); !strings.Contains(
			p.Message, says,
		) {
			t.Errorf("%s: %+v", state, p)
		}
	}
	n.do("GET", path(id3)+"/console", nil).refused(404, compute.KindNotFound)
	n.do("GET", path("x")+"/console", nil).refused(422, compute.KindInvalid)
	for _, query := range []string{"limit=0", "limit=65537", "limit=x", "offset=x"} {
		n.do("GET", path(id1)+"/console?"+query, nil).refused(422, compute.KindInvalid)
	}
	if recs := n.published(); len(recs) != 0 {
		t.Errorf("published %v", recs)
	}
	n.has(instance(id1, "web", compute.StateActive))
	for refusal, want := range map[compute.ConsoleRefusal]struct {
		status int
		kind   compute.Kind
	}{
		compute.ConsoleNotKept: {409, compute.KindConflict}, compute.ConsoleNotHere: {409, compute.KindConflict},
		compute.ConsoleFailed: {503, compute.KindUnavailable},
	} {
		n.hosted(func(cmd compute.Command) []compute.Console {
			c := answeredBy("h1", cmd, "")
			c.Refusal, c.Message = refusal, "for a reason"
			return []compute.Console{c}
		})
		if p := n.do("GET", path(id1)+"/console", nil).refused(want.status, want.kind); p.Field != "host" ||
			p.Value != "h1" || !strings.HasSuffix(p.Message, ": for a reason") {
			t.Errorf("%s: %+v", refusal, p)
		}
	}
	n.fail = wire.ErrNoTopic
	n.do("GET", path(id1)+"/console", nil).refused(503, compute.KindUnavailable)
	n.fail = errors.New("no leader")
	n.do("GET", path(id1)+"/console", nil).refused(504, compute.KindTimeout)
}

// A host that does not answer is named, with when it was last heard; how many
// wait for one is bounded.
func TestConsoleUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.has(instance(id1, "web", compute.StateActive))
		n.hosted(func(compute.Command) []compute.Console { return nil })
		p := n.do("GET", path(id1)+"/console", nil).refused(504, compute.KindTimeout)
		if p.Field != "host" || p.Value != "h1" || p.Message != "did not answer within 10s, and was never heard of" {
			t.Errorf("%+v", p)
		}
		n.hears(compute.Beacon{Host: "h1"})
		time.Sleep(7 * time.Second)
		most := n.config.OpenAsks
		done := make(chan rest.Problem, most)
		for range most {
			go func() { done <- n.do("GET", path(id1)+"/console", nil).refused(504, compute.KindTimeout) }()
		}
		synctest.Wait()
		a := n.do("GET", path(id1)+"/console", nil)
		if p := a.refused(429, compute.KindUnavailable); p.Field != "limits.consoles" || p.Value != "64" ||
			a.header.Get("Retry-After") != "1" {
			t.Errorf("%+v", p)
		}
		for range most {
			if p := <-done; p.Message != "did not answer within 10s, and was last heard 17s ago" {
				t.Errorf("%+v", p)
			}
		}
	})
}

// TestConsoleOfASilentHost: it is not asked, and nobody waits for it.
func TestConsoleOfASilentHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.has(instance(id1, "web", compute.StateActive))
		n.hears(compute.Beacon{Host: "h1"})
		time.Sleep(compute.SilentAfter + time.Second)
		n.hears(compute.Beacon{Host: "h2"}) // so this node is not cut off
		began := time.Now()
		p := n.do("GET", path(id1)+"/console", nil).refused(504, compute.KindTimeout)
		if p.Field != "host" || p.Value != "h1" || p.Message != "is silent and was not asked, and was last heard 1m1s ago" {
			t.Errorf("%+v", p)
		}
		if waited, recs := time.Since(began), n.published(); waited != 0 || len(recs) != 0 {
			t.Errorf("it has waited for %s, and published %+v", waited, recs)
		}
		n.hears(compute.Beacon{Host: "h1"})
		n.hosted(func(cmd compute.Command) []compute.Console {
			return []compute.Console{answeredBy("h1", cmd, "x")}
		})
		into[rest.Console](n.do("GET", path(id1)+"/console", nil), 200)
	})
}

// TestOneCallerLeavesConsolesToOthers: one that waits for many of them has a quarter of the places.
func TestOneCallerLeavesConsolesToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := lockedNode(t)
		n.config.ConsoleTimeout = 10 * time.Second
		ask := func() answer { return n.do("GET", path(id1)+"/console?project=own", nil) }
		n.as = n.token(auth.RoleReader, "own")
		n.hosted(func(compute.Command) []compute.Console { return nil })
		done := make(chan answer, n.config.OpenAsks)
		for range n.config.OpenAsks / 4 {
			go func() { done <- ask() }()
		}
		synctest.Wait()
		a := ask()
		if p := a.refused(429, compute.KindUnavailable); p.Field != "limits.consoles" ||
			!strings.Contains(p.Message, "16 of those") || a.header.Get("Retry-After") != "1" {
			t.Errorf("%+v", p)
		}
		n.as = n.token(auth.RoleReader, "own")
		n.hosted(func(cmd compute.Command) []compute.Console {
			return []compute.Console{answeredBy("h1", cmd, "x")}
		})
		into[rest.Console](ask(), 200)
		for range n.config.OpenAsks / 4 {
			(<-done).refused(504, compute.KindTimeout)
		}
	})
}

// ears listen when they are told to.
type listener struct{ open, all int }

func (l *listener) Listen(context.Context) (func(), error) {
	l.open, l.all = l.open+1, l.all+1
	return func() { l.open-- }, nil
}

// Answers are listened for from before the ask is written until it is answered.
func TestConsoleListens(t *testing.T) {
	n := newNode(t)
	n.has(instance(id1, "web", compute.StateActive))
	l := &listener{}
	n.config.Consoles = l
	n.hosted(func(cmd compute.Command) []compute.Console {
		if l.open != 1 {
			t.Errorf("asked while %d listen", l.open)
		}
		return []compute.Console{answeredBy("h1", cmd, "x")}
	})
	into[rest.Console](n.do("GET", path(id1)+"/console", nil), 200)
	if l.open != 0 || l.all != 1 {
		t.Errorf("%+v", l)
	}
}
