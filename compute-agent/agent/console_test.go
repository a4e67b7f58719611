// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/compute"
)

// ask asks for the console of an instance, for ten seconds.
func (c *cell) ask(n int, name compute.AskID, offset int64, limit uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.say(compute.Command{Op: compute.CommandConsole, Project: "p", Instance: id(n), Console: &compute.ConsoleAsk{
		ID: name, Offset: offset, Limit: limit, Deadline: time.Now().Add(10 * time.Second),
	}})
}

// answered are the answers to an ask.
func (c *cell) answered(name compute.AskID) (out []compute.Console) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.consoles {
		if x.Ask == name {
			out = append(out, x)
		}
	}
	return out
}

func (c *cell) answer(name compute.AskID) compute.Console {
	c.t.Helper()
	all := c.answered(name)
	if len(all) != 1 {
		c.t.Fatalf("%s is answered %d times", name, len(all))
	}
	return all[0]
}

// mute is a driver that keeps no consoles.
type mute struct{ hypervisor.Driver }

func TestConsoles(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(time.Second)
		if err := c.host.Print(id(1), "login:"); err != nil {
			c.t.Fatal(err)
		}
		c.ask(1, "all", 0, compute.MaxConsole)
		c.ask(1, "end", -7, 5)
		c.ask(2, "none", 0, 10)
		c.mu.Lock()
		c.say(compute.Command{
			Op:       compute.CommandConsole,
			Project:  "another",
			Instance: id(1),
			Console: &compute.ConsoleAsk{
				ID: "thief", Limit: 10, Deadline: time.Now().Add(time.Second),
			},
		})
		c.mu.Unlock()
		pass(time.Second)
		all := c.answer("all")
		if !strings.HasSuffix(string(all.Data), " boots\nlogin:\n") || all.Offset != 0 ||
			all.End != int64(len(all.Data)) ||
			all.Host != "h1" ||
			all.Project != "p" ||
			all.Refusal != compute.ConsoleRead {
			c.t.Errorf("all of it: %+v", all)
		}
		if end := c.answer("end"); string(end.Data) != "login" || end.Offset != all.End-7 || end.End != all.End {
			c.t.Errorf("the end of it: %+v", end)
		}
		for _, name := range []compute.AskID{"none", "thief"} {
			if x := c.answer(name); x.Refusal != compute.ConsoleNotHere || x.Data != nil {
				c.t.Errorf("%s: %+v", name, x)
			}
		}
		stop(c, n)

		// An agent that comes back does not answer what nobody waits for any more.
		c.ask(1, "old", 0, 10)
		pass(11 * time.Second)
		n = c.start(dir, fake.Options{}, func(o *Options) { o.Driver = mute{o.Driver} })
		c.ask(1, "mute", 0, 10)
		pass(time.Minute)
		if old := c.answered("old"); old != nil {
			c.t.Errorf("an old ask is answered: %+v", old)
		}
		if x := c.answer("mute"); x.Refusal != compute.ConsoleNotKept ||
			x.Message != "the driver fake keeps no consoles" {
			c.t.Errorf("a driver without consoles: %+v", x)
		}
		stop(c, n)
	})
}

// writes counts what goes to the journal.
type writes struct {
	Journal
	n *int
}

func (w writes) Write(c journal.Change) error {
	*w.n++
	return w.Journal.Write(c)
}

// A hypervisor that hangs over consoles, and more asks than it could answer, hold
// up nothing else, and nothing of them is written down.
func TestConsolesDisturbNobody(t *testing.T) {
	hang := func(call fake.Call) *fake.Fault {
		if call.Method == "Console" {
			return &fake.Fault{Hang: true}
		}
		return nil
	}
	story(t, fake.Options{}, func(c *cell, dir string) {
		written := 0
		n := c.start(dir, fake.Options{Fault: hang}, func(o *Options) { o.Journal = writes{o.Journal, &written} })
		c.boot(1, "small")
		pass(20 * time.Second)
		before := written
		for i := range 1000 {
			c.ask(1, compute.AskID(fmt.Sprint("ask ", i)), 0, 10)
		}
		pass(5 * time.Second)
		if written != before {
			c.t.Errorf("1000 asks led to %d writes of the journal", written-before)
		}
		c.boot(2, "small")
		pass(time.Second)
		c.want(compute.StateActive, compute.StateActive)
		pass(time.Minute)
		c.mu.Lock()
		answers := len(c.consoles)
		c.mu.Unlock()
		if answers != 0 {
			c.t.Errorf("%d asks are answered by a hypervisor that hangs", answers)
		}
		c.delete(1)
		pass(time.Second)
		c.want(compute.StateDeleted, compute.StateActive)
		stop(c, n)
		c.check()
	})
}
