// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// consoles answers asks about consoles. They pass the loop by: they are neither journaled nor repeated, and nothing
// that matters waits for one. Where there are more than this host answers at once, some are not answered; the asker
// gives up after ten seconds.
type consoles struct {
	o    *Options
	asks chan consoleAsk // that wait for a worker
}

const (
	consoleWorkers = 2  // answer at once
	consolesQueue  = 32 // wait for that
)

// consoleAsk is an ask that waits for a worker.
type consoleAsk struct {
	compute.Command
	here bool // this host has the machine, and for this project: an id alone is no proof of that
}

func newConsoles(o *Options) *consoles {
	return &consoles{o: o, asks: make(chan consoleAsk, consolesQueue)}
}

// ask queues an ask, or drops it.
func (c *consoles) ask(a consoleAsk) {
	select {
	case c.asks <- a:
	default:
		c.o.Log.Debug("an ask for a console is left: there are too many", zap.String("instance", string(a.Instance)))
	}
}

// run answers asks, one at a time, until ctx ends.
func (c *consoles) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-c.asks:
			c.answer(ctx, a)
		}
	}
}

// answer answers once, or not at all: an ask that is too old, as all are that waited for an agent to
// come back, has nobody that waits for it.
func (c *consoles) answer(ctx context.Context, a consoleAsk) {
	ctx, cancel := context.WithDeadline(ctx, a.Console.Deadline)
	defer cancel()
	if ctx.Err() != nil {
		c.o.Log.Debug("an ask for a console is too old to be answered",
			zap.String("instance", string(a.Instance)), zap.Time("deadline", a.Console.Deadline))
		return
	}
	answer := readConsole(ctx, c.o.Driver, a)
	if ctx.Err() != nil {
		return // nobody waits any more
	}
	answer.Host, answer.At = c.o.Host, c.o.Now().UTC()
	if err := c.o.Reporter.Send(ctx, wire.EncodeConsole(answer).To(c.o.Topics.Consoles(), 0)); err != nil {
		c.o.Log.Debug("a console was not sent", zap.String("instance", string(a.Instance)), zap.Error(err))
	}
}

// byOwnClock says by this host's clock until when an answer about a console is waited for: as long
// as its asker said, from when the log has the question; at is the log's time now. The asker's clock
// and this host's need not agree.
func byOwnClock(c compute.Command, rec wire.Record, at time.Time) compute.Command {
	if c.Console == nil || !rec.Logged || c.At.IsZero() {
		return c
	}
	ask := *c.Console
	left := rec.Time.Add(ask.Deadline.Sub(c.At)).Sub(at)
	ask.Deadline = time.Now().Add(left)
	c.Console = &ask
	return c
}

// readConsole asks the hypervisor.
func readConsole(ctx context.Context, d hypervisor.Driver, c consoleAsk) compute.Console {
	out := compute.Console{Ask: c.Console.ID, Project: c.Project, Instance: c.Instance}
	refuse := func(r compute.ConsoleRefusal, message string) compute.Console {
		out.Refusal, out.Message = r, message
		return out
	}
	keeps, ok := hypervisor.As[hypervisor.Console](d)
	if !ok {
		return refuse(compute.ConsoleNotKept, "the driver "+d.Capabilities().Driver+" keeps no consoles")
	}
	if !c.here {
		return refuse(compute.ConsoleNotHere, "")
	}
	limit := int(min(c.Console.Limit, compute.MaxConsole))
	part, err := keeps.Console(ctx, c.Instance, c.Console.Offset, limit)
	var e *hypervisor.Error
	switch {
	case errors.As(err, &e) && e.Class == compute.FailureHost && e.Cause == nil: // it went meanwhile
		return refuse(compute.ConsoleNotHere, e.Message)
	case err != nil:
		return refuse(compute.ConsoleFailed, err.Error())
	}
	out.Offset, out.Data, out.End = part.Offset, part.Data[:min(len(part.Data), limit)], part.End
	return out
}
